import math

import pyarrow.parquet as pq
import pytest
from recipes import written

from pike_mixing.errors import InputError
from pipeline.__main__ import main
from pipeline.evaluation.evaluate import evaluate_chosen_checkpoints
from pipeline.runtime import atomic_files

ASKED = {
    "rows": 30,
    "batch_tokens": 64,
    "checkpoints": "all",
    "choice": {"items": 20, "context": 5, "candidate": 4},
}


@pytest.fixture
def asked(tmp_path, corpora):
    """Evaluates a run with settings laid over `ASKED`."""

    def ask(run, **changes):
        path = written(tmp_path / "evaluation.json", {**ASKED, **changes})
        tokenizer = corpora.parent / "symbols.model"
        evaluate_chosen_checkpoints(path, run, corpora, tokenizer, device="cpu")
        return run / "evaluations"

    return ask


def rows(folder, step, table):
    return pq.read_table(folder / f"step{step}" / f"{table}.parquet").to_pylist()


def test_every_checkpoint_and_domain_has_a_perplexity_that_follows_from_its_documents(
    finished, asked
):
    out = asked(finished())
    for step in (0, 3):
        found, documents = rows(out, step, "perplexities"), rows(out, step, "documents")
        assert [(r["step"], r["domain"]) for r in found] == [(step, "easy"), (step, "hard")]
        for row in found:
            assert row["tokens"] == 30 * 8
            assert row["perplexity"] == pytest.approx(math.exp(row["nll"]))
            assert row["stderr"] > 0
            own = [d for d in documents if d["domain"] == row["domain"]]
            nats, size = sum(d["nll"] for d in own), sum(d["bytes"] for d in own)
            assert sum(d["tokens"] for d in own) == row["tokens"]
            assert nats / row["tokens"] == pytest.approx(row["nll"], rel=1e-12)
            assert nats / math.log(2) / size == pytest.approx(row["bits_per_byte"], rel=1e-12)
            assert len({d["document"] for d in own}) == len(own) >= 2


@pytest.mark.slow
def test_searches_have_losses_of_documents_of_their_own_and_of_tokens(finished, asked):
    out = asked(finished(), token_losses=True)
    found = {r["domain"]: (r["nll"], r["tokens"]) for r in rows(out, 3, "search_losses")}
    # An untrained model: about ln of the vocabulary, on other text than the results'.
    results = {r["domain"]: r["nll"] for r in rows(out, 3, "perplexities")}
    assert set(found) == set(results) == {"easy", "hard"}
    kept = {r["domain"]: r["nll"] for r in rows(out, 3, "token_losses")}
    for domain, (nll, tokens) in found.items():
        assert tokens == len(kept[domain]) == 240
        assert nll == pytest.approx(sum(kept[domain]) / 240, rel=1e-6)
        assert nll == pytest.approx(results[domain], abs=0.3)
        assert nll != results[domain]
    made = atomic_files.read_json(out / "manifest.json")
    assert made["searched"] == {
        d: {"rows": 30, "documents": made["searched"][d]["documents"]} for d in found
    }
    for search, tables in ((True, {"search_losses"}), (False, set())):
        again = asked(finished(), search=search) / "step3"
        there = {path.stem for path in again.glob("*_losses.parquet")}
        assert there == tables


@pytest.mark.slow
def test_accuracies_follow_from_the_choices(finished, asked):
    out = asked(finished())
    choices = [c for c in rows(out, 3, "choices") if c["task"] == "continuation-hard"]
    found = {a["metric"]: a for a in rows(out, 3, "accuracies") if a["task"] == "continuation-hard"}
    assert list(found) == ["pmi", "raw", "answer_only", "overlap"]
    assert {(a["step"], a["shots"], a["formulation"]) for a in found.values()} == {(3, 0, "pmi")}
    assert found["pmi"]["examples"] == len(choices) == 20
    right = sum(c["pick"] == c["gold"] for c in choices)
    assert found["pmi"]["value"] == pytest.approx(100 * right / 20)
    for item in choices:
        pairs = zip(item["sum_log_likelihood"], item["unconditional"], strict=True)
        pmi = [inside - alone for inside, alone in pairs]
        assert pmi.index(max(pmi)) == item["pick"]
        assert item["item"].startswith(item["document"])


@pytest.mark.slow
def test_the_same_evaluation_writes_the_same_bytes_and_another_leaves_nothing_of_it(
    finished, asked
):
    run = finished()
    first, second = (
        {p.relative_to(run): p.read_bytes() for p in asked(run).rglob("*.*")} for _ in range(2)
    )
    assert first == second
    out = asked(run, checkpoints="last")
    assert sorted(path.name for path in out.iterdir()) == [".made-by", "manifest.json", "step3"]


MEASURES = {
    "evaluate": ("evaluations", ASKED, ["--tokenizer", "symbols.model"]),
    "probe": ("probes", {"rows": 12, "microbatch": 3, "checkpoints": "all"}, []),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", MEASURES)
def test_a_disk_that_takes_no_more_leaves_what_was_there(
    finished, corpora, tmp_path, largest_file, capsys, command
):
    run, (name, values, more) = finished(), MEASURES[command]
    path, out = written(tmp_path / "settings.json", values), run / name
    tokenizer = [str(corpora.parent / one) if one.endswith(".model") else one for one in more]
    words = [command, path, "--run", run, "--corpora", corpora, *tokenizer, "--device", "cpu"]

    def measure():
        return main([*map(str, words)])

    def there():
        return {one: one.read_bytes() for one in run.rglob("*") if one.is_file()}

    assert measure() == 0
    kept = there()
    capsys.readouterr()
    # All but the largest file fit.
    with largest_file(max(len(c) for p, c in kept.items() if out in p.parents) - 1):
        assert measure() == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"pike {command}: {out}")
    assert "File too large" in told
    assert there() == kept
    assert measure() == 0
    assert atomic_files.read_json(out / atomic_files.MANIFEST)["steps"] == [0, 3]


def test_the_manifest_says_what_was_asked_and_lists_every_file(finished, asked):
    out = asked(finished())
    manifest = atomic_files.read_json(out / atomic_files.MANIFEST)
    assert manifest["stage"] == "evaluate"
    assert manifest["settings"] == ASKED
    assert manifest["steps"] == [0, 3]
    assert len(manifest["files"]) == 8
    for name, recorded in manifest["files"].items():
        assert atomic_files.sha256(out / name) == recorded["sha256"]
    for name, recorded in manifest["inputs"].items():
        assert atomic_files.sha256(out / name) == recorded
    task = manifest["tasks"]["continuation-hard"]
    assert (task["items"], task["chance"]) == (20, 25.0)
    assert manifest["windows"]["easy"]["rows"] == 30


def test_a_domain_without_long_documents_is_skipped_and_said_so(finished, asked, caplog):
    # Documents have 150 symbols, the items would need 5 + 4 * 60.
    choice = {"items": 20, "context": 5, "candidate": 4, "distractors": 60}
    out = asked(finished(), choice=choice)
    assert rows(out, 3, "accuracies") == []
    assert rows(out, 3, "choices") == []
    assert len(rows(out, 3, "perplexities")) == 2
    skipped = atomic_files.read_json(out / atomic_files.MANIFEST)["skipped"]
    assert set(skipped) == {"continuation-easy", "continuation-hard"}
    assert "each needs 249 tokens" in skipped["continuation-easy"]
    assert "continuation-easy is skipped" in caplog.text


def test_a_diverged_model_stops_it_naming_run_step_and_domain(finished, asked):
    def diverge(model):
        model.norm.weight.data.fill_(math.nan)

    run = finished(change=diverge)
    with pytest.raises(
        InputError, match=r"languages/tiny/any/seed0, step 3: domain easy: the loss"
    ):
        asked(run)
    assert not (run / "evaluations").exists()


def test_a_model_of_another_tokenizer_is_refused(finished, asked):
    with pytest.raises(InputError, match="embedding of 72 pieces"):
        asked(finished(vocabulary=72))
