"""`delivered`: healthy loaders are not accused, planted faults are found and named."""

import itertools
import json
import logging
import random

import numpy as np
import pytest

from pike_mixing import Delivered, delivered
from pike_mixing.errors import InputError

PLAN = {"web": 0.6, "code": 0.3, "math": 0.1}
STEPS, BATCH = 100, 16


def rows_of(name, seed, lengths):
    """Rows of a domain, whose lengths vary, as many as a run reads of all domains."""
    draw = random.Random(f"{name} {seed}")
    drawn = (draw.expovariate(1 / lengths[name]) for _ in range(STEPS * BATCH))
    return [{"domain": name, "tokens": max(1, round(length))} for length in drawn]


def by_interleave(seed, lengths):
    datasets = pytest.importorskip("datasets")
    parts = [datasets.Dataset.from_list(rows_of(n, seed, lengths)) for n in PLAN]
    streams = [part.to_iterable_dataset() for part in parts]
    return datasets.interleave_datasets(streams, probabilities=list(PLAN.values()), seed=seed)


def by_mixed_dataset(seed, lengths):
    dataset = pytest.importorskip("pike_mixing.torch").MixedDataset
    parts = {name: rows_of(name, seed, lengths) for name in PLAN}
    return iter(dataset(parts, BATCH, weights=PLAN, seed=seed, steps=STEPS))


def by_grain(seed, lengths):
    grain = pytest.importorskip("grain")
    parts = [grain.MapDataset.source(rows_of(n, seed, lengths)) for n in PLAN]
    return iter(grain.MapDataset.mix(parts, weights=list(PLAN.values())))


LOADERS = [by_interleave, by_mixed_dataset, by_grain]
EQUAL = dict.fromkeys(PLAN, 400)
FAULTS = {
    "documents-not-tokens": ({"web": 100, "code": 900, "math": 400}, lambda n, row: True),
    # A filter that drops long rows of code, as of a length limit.
    "packing-or-filtering": (EQUAL, lambda n, row: row["domain"] != "code" or row["tokens"] < 300),
    "ended": (EQUAL, lambda n, row: row["domain"] != "math" or n < STEPS * BATCH // 3),
}


def counted(stream, keeps=lambda n, row: True):
    """What came of a stream of rows that passes through a filter and is then batched."""
    came = Delivered(PLAN)
    rows = (row for n, row in enumerate(stream) if keeps(n, row))
    batches = iter(lambda: list(itertools.islice(rows, BATCH)), [])
    shown = came.watch(batches, tokens=lambda batch: [row["tokens"] for row in batch])
    for _ in itertools.islice(shown, STEPS):
        pass
    return came


@pytest.mark.slow
@pytest.mark.parametrize("loader", LOADERS)
def test_of_thirty_healthy_runs_one_is_accused_at_most(loader, caplog):
    caplog.set_level(logging.WARNING)
    reports = [counted(loader(seed, EQUAL)).report() for seed in range(30)]
    assert sum(bool(report.findings) for report in reports) <= 1
    # The looks during a run share one level, too.
    assert len(caplog.records) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("of", ["rows", "tokens"])
def test_long_tails_accuse_no_one_either(of):
    # Tokens of a row have a long tail, and means that differ: rows are weighed by share over mean.
    draw, share_K = np.random.default_rng(0), np.array([0.4, 0.3, 0.2, 0.08, 0.02])
    mean_K = np.array([1.0, 8, 0.5, 3, 1])
    row_K = share_K if of == "rows" else share_K / mean_K / (share_K / mean_K).sum()
    false = 0
    for _ in range(300):
        came = Delivered(dict(zip("abcde", share_K, strict=True)), of=of)
        for domain_B in draw.choice(5, (80, 16), p=row_K):
            tokens_B = mean_K[domain_B] * draw.lognormal(5, 1, 16)
            came.add_rows(domain_B, tokens_B if of == "tokens" else None)
        false += bool(came.report().findings)
    assert false <= 6


@pytest.mark.slow
@pytest.mark.parametrize(("shares", "batch"), [((0.5, 0.5), 1), ((0.4, 0.3, 0.2, 0.1), 8)])
def test_rare_long_rows_that_have_not_come_accuse_no_one(shares, batch):
    # Rows of a token, in the first domain one of 50 of a hundred: its tokens seem to be too few.
    false, row_K = 0, np.array(shares) / ([1 + 99 / 50] + [1] * (len(shares) - 1))
    for seed in range(50):
        draw, came = np.random.default_rng(seed), Delivered(dict(zip("abcd", shares, strict=False)))
        found = []
        for step in range(480 // batch):
            domain_B = draw.choice(len(shares), batch, p=row_K / row_K.sum())
            is_long_B = (domain_B == 0) & (draw.random(batch) < 1 / 50)
            came.add_rows(domain_B, np.where(is_long_B, 100, 1))
            found += came.warn_if_due() + (list(came.report().findings) if step % 20 == 0 else [])
        false += bool(found)
    assert false <= 1


@pytest.mark.parametrize(("longest", "rows"), [(None, 1920), (1, 180)])
def test_a_share_that_is_wrong_by_two_is_known_once_no_row_can_explain_it(longest, rows):
    # Of a and b, 1 to 1, come 2 to 1, all of a token. b lacks a token for each of its rows:
    # exp(-rows / 300) <= 0.01 / 6 from 1,920 rows on; with rows of one length, at once.
    came = Delivered({"a": 1, "b": 1}, longest=longest)
    first = None
    for step in range(700):
        came.add({"a": 2, "b": 1}, {"a": 2, "b": 1})
        report = came.report()
        if first is None and report.findings:
            first = 3 * (step + 1)
        if step == 300 and longest is None:
            assert report.unjudged == ("b",)
            assert "longer ones may still come" in report.text()
    assert first == rows
    with pytest.raises(InputError, match="are more than 1 a row"):
        Delivered({"a": 1}, longest=1).add({"a": 2}, {"a": 3})
    with pytest.raises(InputError, match="longest: 0 is no number of tokens"):
        Delivered({"a": 1}, longest=0)


def test_a_domain_that_waits_has_not_ended():
    # A row of a is 100 tokens once in 40: the loader gives the domain that lacks tokens.
    came, lack, n = Delivered({"a": 1, "b": 1}), 0, 0
    for _ in range(1000):
        name = "a" if lack >= 0 else "b"
        n += name == "a"
        tokens = 100 if name == "a" and n % 40 == 0 else 1
        lack += tokens * (1 if name == "b" else -1)
        came.add({name: 1}, {name: tokens})
        assert came.report().findings == ()


def test_shares_that_change_within_the_run_accuse_no_one():
    # Rows of b are ten times longer, and its share falls from 0.9 to 0.1 half-way.
    for seed in range(20):
        draw, came = np.random.default_rng(seed), Delivered({"a": 1, "b": 1})
        for step in range(400):
            a = 0.1 if step < 200 else 0.9
            domain_B = draw.choice(2, 8, p=np.array([10 * a, 1 - a]) / (9 * a + 1))
            came.add_rows(domain_B, 1 + 9 * domain_B, {"a": a, "b": 1 - a})
            came.warn_if_due()
        assert came.report().findings == ()
    # At the end of another run a has no row, nor was it to have one.
    came = Delivered({"a": 1, "b": 1}, of="rows")
    for step in range(400):
        a = 1 - step / 399
        rows = np.random.default_rng(step).choice(2, 16, p=[a, 1 - a])
        came.add_rows(rows, plan={"a": a, "b": 1 - a})
    assert came.report().findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("fault", FAULTS)
def test_three_planted_faults_are_found_in_every_loader(loader, fault, caplog):
    lengths, keeps = FAULTS[fault]
    came = counted(loader(1, lengths), keeps=keeps)
    report = came.report()
    assert [found.kind for found in report.findings] == [fault]
    # A run is warned while it goes on, where the fault is large enough for so many rows.
    assert caplog.records or fault == "packing-or-filtering"
    if fault == "ended":
        assert report.findings[0].domain == "math"
        assert "no row of it came after step" in report.text()
    if fault == "documents-not-tokens":
        # 0.6 / 100, 0.3 / 900 and 0.1 / 400 are in the proportion 216 : 12 : 9.
        told = dict(part.split("=") for part in report.findings[0].message.split() if "=" in part)
        shares = [float(told[name].rstrip(",")) for name in PLAN]
        np.testing.assert_allclose(shares, np.array([216, 12, 9]) / 237, atol=0.02)


def test_numbers_by_hand():
    came = Delivered({"a": 3, "b": 1}, of="rows")
    for _ in range(10):
        came.add({"a": 6, "b": 2})
    report = came.report()
    assert report.plan_K.tolist() == [0.75, 0.25]
    assert report.rows_K.tolist() == [60, 20]
    assert report.findings == ()
    assert "a       0.7500  0.7500" in report.text()


@pytest.mark.parametrize(("rows", "kinds"), [(24, []), (25, ["packing-or-filtering"])])
def test_rows_are_off_from_the_bound_by_hand_on(rows, kinds):
    # Half of n rows for three quarters: 2 exp(-n KL(1/2 || 3/4)) = 2 (sqrt(3) / 2)^n, at most a
    # sixth of 0.01 from n = 49.3 on.
    came = Delivered({"a": 3, "b": 1}, of="rows")
    came.add({"a": rows, "b": rows})
    assert [found.kind for found in came.report().findings] == kinds


@pytest.mark.parametrize(
    ("last", "tokens", "kind"),
    [
        # Two rows of each domain in every step, of 40 tokens and of 5; a last batch hides nothing.
        ({"a": 2, "b": 3}, (40, 5), "documents-not-tokens"),
        ({"b": 1}, (40, 5), "documents-not-tokens"),
        ({"a": 2, "b": 3}, (40, 40), None),
        ({"a": 2, "b": 2}, (40, 0), "packing-or-filtering"),
    ],
)
def test_a_last_batch_of_other_rows_hides_no_fault(last, tokens, kind):
    came = Delivered({"a": 1, "b": 1})
    for rows in [{"a": 2, "b": 2}] * 90 + [last]:
        came.add(rows, {name: rows.get(name, 0) * n for name, n in zip("ab", tokens, strict=True)})
    report = came.report()
    assert [found.kind for found in report.findings] == [kind] * bool(kind)
    if tokens[1] == 0:
        assert "b: 182 rows came, and none of their tokens counts" in report.text()


@pytest.mark.parametrize(("share", "kinds"), [(0, []), (0.1, ["never-came"])])
def test_a_domain_that_never_comes_is_named_where_it_is_planned(share, kinds):
    came = Delivered({"a": 1 - share, "b": share}, of="rows")
    assert came.report().findings == ()
    for _ in range(80):
        came.add({"a": 4})
    report = came.report()
    assert [found.kind for found in report.findings] == kinds
    assert ("as planned" in report.text()) == (share == 0)
    assert all(found.domain == "b" for found in report.findings)


def test_batches_of_columns_and_their_tokens_are_read():
    torch = pytest.importorskip("torch")
    came = Delivered({"a": 1, "b": 1})
    batch = {
        "domain": torch.tensor([0, 1]),
        "input_ids": torch.ones(2, 4),
        "labels": torch.tensor([[1, 2, -100, -100], [1, -100, -100, -100]]),
    }
    assert list(came.watch([batch])) == [batch]
    assert came.report().tokens_K.tolist() == [2, 1]
    del batch["labels"]
    assert delivered.trained_tokens_of_rows(
        {"attention_mask": [[1, 1, 0]], "input_ids": [[1, 1, 1]]}
    ) == [2]
    assert delivered.trained_tokens_of_rows(batch) == [4, 4]
    assert delivered.trained_tokens_of_rows([{"input_ids": [1, 2]}, {"input_ids": [1]}]) == [2, 1]


def test_a_log_of_steps_or_of_rows_is_read(said, tmp_path):
    steps, rows = tmp_path / "steps.jsonl", tmp_path / "rows.jsonl"
    draw = np.random.default_rng(0)
    with steps.open("w") as by_step, rows.open("w") as by_row:
        for step in range(100):
            names = draw.choice(["a", "b"], 16, p=[0.5, 0.5]).tolist()
            tokens = [90 if name == "a" else 10 for name in names]
            count = {name: names.count(name) for name in ("a", "b")}
            total = {"a": 90 * count["a"], "b": 10 * count["b"]}
            print(json.dumps({"loss": 3, "rows": count, "tokens": total}), file=by_step)
            for name, n in zip(names, tokens, strict=True):
                print(json.dumps({"step": step, "domain": name, "tokens": n}), file=by_row)
    first = said("delivered", steps, "--plan", "a=1", "b=1")
    assert first == said("delivered", rows, "--plan", "a=1", "b=1")
    assert "documents-not-tokens: the weights act on rows" in first
    assert said("delivered", rows, "--plan", "a=1", "b=1", "--gate", code=1) == ""
    said("delivered", rows, "--plan", "a=1", "b=1", "--of", "rows", "--gate")
    assert "weigh rows by a=0.1 b=0.9" in first
    told = json.loads(
        said("delivered", rows, "--plan", "a=1", "b=1", "--of", "rows", "--format", "json")
    )
    assert (told["findings"], told["steps"]) == ([], 100)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x", "line 1: give rows and tokens by domain"),
        ('{"rows": {"c": 1}, "tokens": {}}', "line 1: rows of a step: 'c' is unknown"),
        ('{"rows": {"a": -1}, "tokens": {}}', "line 1: rows: {'a': -1} are no counts"),
        ('{"rows": {"a": 1}}', "line 1: tokens: the plan is of tokens"),
        ('{"domain": null, "tokens": 1}', "line 1: domain: None is no number of 2 domains"),
        ('{"domain": "c", "tokens": 1}', "line 1: domain: 'c' is unknown"),
        ('{"domain": "a", "tokens": NaN}', "line 1: tokens: nan is no count"),
        ("", "has no line: nothing was counted"),
    ],
)
def test_a_log_that_is_none_is_refused(said, tmp_path, line, message):
    (tmp_path / "log.jsonl").write_text(line + "\n", encoding="utf-8")
    assert message in said("delivered", tmp_path / "log.jsonl", "--plan", "a=1", "b=1", code=2)
    assert "cannot be read" in said("delivered", tmp_path, "--plan", "a=1", "b=1", code=2)


def test_batches_without_the_column_are_refused():
    with pytest.raises(InputError, match="no column 'domain'"):
        Delivered({"a": 1}).add_batch({"x": [1]})
    with pytest.raises(InputError, match="no labels, attention_mask or input_ids"):
        next(iter(Delivered({"a": 1}).watch([{"domain": ["a"]}])))
    with pytest.raises(InputError, match="3 is no number of 1 domains"):
        Delivered({"a": 1}, of="rows").add_rows([3])
