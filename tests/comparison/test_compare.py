"""`pike-mixing compare` and `noise`: what they read, pair, say and refuse."""

import csv
import gzip
import io
import json
import os
import random
import re
import sys
import xml.etree.ElementTree as ET

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from logged import DATE, line, write, write_lighteval, write_opencompass
from pyarrow import parquet
from repository import run as start
from scipy import stats

from benchmarks import comparison_rates
from benchmarks.comparison_rates import Cell
from pike_mixing.__main__ import main
from pike_mixing.comparison.detectable import detectable_difference, detection_power
from pike_mixing.comparison.mean_difference import Estimate


@pytest.fixture
def said(capsys):
    """Runs a command and returns its exit code, output and errors."""

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def refused(said):
    """What `compare` says where it refuses."""

    def run(*words):
        code, out, err = said("compare", *words)
        assert (code, out, err[:21]) == (2, "", "pike-mixing compare: ")
        return err

    return run


@pytest.fixture
def numbers(said):
    """What `compare --format json` says."""

    def run(*words):
        code, out, err = said("compare", *words, "--format", "json")
        assert code == 0, err
        return json.loads(out)

    return run


def points(folder, values, **options):
    """A run on the task `sums` with these points."""
    return write(
        folder, {"sums": [line(n, {"acc": float(v)}) for n, v in enumerate(values)]}, **options
    )


def table(path, rows, columns="model,item,score"):
    path.write_text("\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


# One run a side --------------------------------------------------------------------------------


def test_two_checkpoints_by_hand(tmp_path, numbers):
    # Of 40 items A alone solves 9, B alone 1: 8/40; exactly, by 10 coins: 2 (1 + 10) / 1024.
    a = points(tmp_path / "a", [1] * 9 + [0] + [1] * 10 + [0] * 20)
    b = points(tmp_path / "b", [0] * 9 + [1] + [1] * 10 + [0] * 20)
    found = numbers("--a", a, "--b", b)
    assert numbers(a, b) == found
    (task,) = found["tasks"]
    assert found["about"] == "checkpoints"
    assert (task["a"], task["b"], task["items"]) == (0.475, 0.275, 40)
    assert task["difference"] == pytest.approx(0.2)
    assert task["p"] == pytest.approx(22 / 1024)
    assert task["verdict"] == "better"
    # SE^2 = (10 - 40 * 0.2^2) / 39 / 40. 30 of 40 documents tell none, 10 do: 20/40 of 1/40.
    items = (10 - 1.6) / 39 / 40
    half = np.hypot(stats.t.ppf(0.975, 39) * items**0.5, np.log(0.05) * 0.5 / 40)
    assert task["high"] - task["difference"] == pytest.approx(half)


@pytest.mark.parametrize(
    ("a", "b", "apart"), [([1, 0] * 50, [1, 0] * 50, 0), ([1] * 100, [0] * 100, 1)]
)
def test_where_all_items_tell_the_same_the_interval_is_three_over_n(tmp_path, numbers, a, b, apart):
    words = (points(tmp_path / "a", a), points(tmp_path / "b", b), "--margin", 0.05)
    (task,) = numbers(*words)["tasks"]
    assert (task["low"] - apart, task["high"] - apart) == pytest.approx(
        (-0.02996, 0.02996), rel=1e-3
    )
    assert (task["verdict"], task["documents_alike"]) == ("better" if apart else "equal", 100)


def test_where_few_items_differ_the_interval_is_wide_and_says_so(tmp_path, numbers, capsys):
    # Two of 100 items are A's, two B's, by 1: the error is sqrt(4 / 99 / 100) = 0.0201. Of t(99)
    # 1.984 of it is 0.0399, and ln(0.05) (96 - 4) / 100 / 100 = 0.0276 is room for others.
    a = points(tmp_path / "a", [1, 1, 0, 0] + [1, 0] * 48)
    b = points(tmp_path / "b", [0, 0, 1, 1] + [1, 0] * 48)
    (task,) = numbers("--a", a, "--b", b)["tasks"]
    assert task["high"] == pytest.approx((0.0399**2 + 0.0276**2) ** 0.5, rel=2e-3)
    assert task["wide"]
    assert task["documents_alike"] == 96
    # Half of them differ: no room is asked for, and nothing is said of it.
    even, odd = (points(tmp_path / str(n), [n, 1 - n] * 25 + [0] * 50) for n in (0, 1))
    (task,) = numbers("--a", even, "--b", odd)["tasks"]
    assert task["high"] == pytest.approx(1.984 * (50 / 99 / 100) ** 0.5, rel=1e-3)
    assert not task["wide"]


def test_a_name_says_more_than_an_option_for_all(tmp_path, numbers):
    rows = [(m, n, v, t) for m, v in (("x", 1), ("y", 2)) for n in range(30) for t in "ab"]
    path = table(tmp_path / "t.csv", rows, "model,item,score,task")
    for words in (("--higher", "--lower", "b"), ("--lower", "b", "--higher")):
        found = numbers(path, "--models", "x", "y", *words)["tasks"]
        assert [one["verdict"] for one in found] == ["worse", "better"]


def test_continuous_scores_are_the_paired_t_test(tmp_path, numbers):
    draw = np.random.default_rng(2)
    a, b = draw.normal(size=50) + 0.3, draw.normal(size=50)
    path = table(
        tmp_path / "t.csv", [(m, n, v) for m, of in (("x", a), ("y", b)) for n, v in enumerate(of)]
    )
    (task,) = numbers(path, "--models", "x", "y", "--higher")["tasks"]
    expected = stats.ttest_rel(a, b)
    assert task["p"] == pytest.approx(expected.pvalue)
    assert (task["low"], task["high"]) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert numbers(path, "--models", "x", "y", "--lower")["tasks"][0]["higher_is_better"] is False


def test_weights_make_the_mean_by_token_and_items_of_a_document_count_once(tmp_path, numbers):
    # Documents of 2 and 3 tokens an item; x scores 0 and 1 there, y 0.2: 3 / 5 - 0.2.
    items = [(n, item) for n in range(40) for item in range(5)]
    rows = [
        (model, f"{n}-{item}", n % 2 if model == "x" else 0.2, n, 2 + n % 2)
        for n, item in items for model in "xy"
    ]  # fmt: skip
    single = [row for row in rows if row[1].endswith("-0")]
    columns = "model,item,score,document,weight"
    (many,), (few,) = (
        numbers(table(tmp_path / name, of, columns), "--models", "x", "y", "--lower")["tasks"]
        for name, of in (("many.csv", rows), ("few.csv", single))
    )
    assert many["difference"] == pytest.approx(0.4)
    for name in ("difference", "low", "high", "p", "documents", "effective_documents"):
        assert many[name] == pytest.approx(few[name])
    assert (many["items"], few["items"], many["documents"]) == (200, 40, 40)


# Several runs ----------------------------------------------------------------------------------


def recipes(tmp_path, seed_names):
    """A table of four runs of x and of y, and the means of each; seeds begin with these names."""
    draw = np.random.default_rng(3)
    item, rows, means = draw.normal(size=60), [], {"x": [], "y": []}
    for model, name in zip("xy", seed_names, strict=True):
        for run in range(4):
            of = item + draw.normal() + draw.normal(size=60) * 1e-9
            means[model].append(of.mean())
            rows += [(model, n, v, f"{name}{run}") for n, v in enumerate(of)]
    path = table(tmp_path / "runs.csv", rows, "model,item,score,seed")
    return path, means["x"], means["y"]


def test_two_recipes_are_a_t_test_over_their_runs(tmp_path, numbers):
    # Items alike in all runs: only seeds are random. Same seeds: paired; others: Welch's test.
    path, x, y = recipes(tmp_path, ("s", "s"))
    words = ("--models", "x", "y", "--higher")
    found = numbers(path, *words)
    assert (found["about"], found["paired_by_seed"]) == ("recipes", True)
    assert found["tasks"][0]["p"] == pytest.approx(stats.ttest_rel(x, y).pvalue, rel=1e-4)
    path, x, y = recipes(tmp_path, ("a", "b"))
    found = numbers(path, *words)
    assert (found["about"], found["paired_by_seed"]) == ("recipes", False)
    expected = stats.ttest_ind(x, y, equal_var=False)
    assert found["tasks"][0]["p"] == pytest.approx(expected.pvalue, rel=1e-4)
    assert found["tasks"][0]["runs_wanted"] > 4


@pytest.mark.parametrize(("a", "b", "about"), [(5, 2, "check"), (3, 3, "recipes")])
def test_recipes_take_three_runs_a_side(tmp_path, said, a, b, about):
    places = [
        [points(tmp_path / side / str(run), np.random.default_rng(run + 9 * n).integers(0, 2, 30))
         for run in range(count)]
        for n, (side, count) in enumerate((("a", a), ("b", b)))
    ]  # fmt: skip
    code, out, _ = said("compare", "--a", *places[0], "--b", *places[1])
    assert code == 0
    assert ("these two recipes" in out) == (about == "recipes")
    assert ("checkpoints, on items like these" in out) == (about == "check")


def test_a_run_that_is_given_twice_is_named(tmp_path, said):
    same = [points(tmp_path / side / run, [1, 0] * 20) for side in "ab" for run in "123"]
    code, out, _ = said("compare", "--a", *same[:3], "--b", *same[3:])
    assert (code, out.count("have the same score on every item")) == (0, 5)
    assert " equal here\n" in out
    out = said("compare", *(points(tmp_path / "few" / side, [1, 0] * 5) for side in "ab"))[1]
    assert " equal here\n" in out
    assert "on other items, no verdict: 10 documents; a verdict needs 20: add documents." in out


def test_a_run_on_both_sides_is_refused_wherever_its_folder_was_given(tmp_path, refused):
    one = points(tmp_path / "both" / "one", [1, 0] * 20)
    points(tmp_path / "both" / "two", [1, 1] * 20)
    (tmp_path / "link").symlink_to(one)
    for a, b in ((one, one), (tmp_path / "both", one), (tmp_path / "link", one)):
        assert "is on both sides" in refused("--a", a, "--b", b)
    assert "is given twice" in refused("--a", tmp_path / "both", one, "--b", tmp_path / "none")


def test_a_run_far_off_is_named(tmp_path, numbers):
    score = np.random.default_rng(0).normal(0, 0.1, size=(2, 8, 40))
    score[0, 3] += 9
    rows = [("xy"[m], n, v, run) for (m, run, n), v in np.ndenumerate(score)]
    path = table(tmp_path / "t.csv", rows, "model,item,score,run")
    found = numbers(path, "--models", "x", "y", "--lower")
    assert found["tasks"][0]["verdict"] == "cannot tell"
    assert "x/3 of side A is far from the others on items" in found["warnings"][0]


def test_tasks_on_one_text_count_once(tmp_path, numbers):
    draw = np.random.default_rng(5)
    a, b = draw.normal(size=(2, 40))
    rows = [
        (m, n, v, task, n) for m, of in (("x", a), ("y", b)) for task in ("one", "two")
        for n, v in enumerate(of)
    ]  # fmt: skip
    shared = table(tmp_path / "s.csv", rows, "model,item,score,task,document")
    found = numbers(shared, "--models", "x", "y", "--higher")
    assert found["mean"]["documents"] == 40
    for name in ("difference", "low", "high", "p"):
        assert found["mean"][name] == pytest.approx(found["tasks"][0][name])
    # Holm of two equal p-values doubles both.
    assert found["tasks"][0]["p_holm"] == pytest.approx(min(1, 2 * found["tasks"][0]["p"]))


def test_two_way_clusters_agree_with_statsmodels(tmp_path, numbers):
    """Runs one way, documents the other; theirs is lower by 1 / S of what documents add."""
    sm = pytest.importorskip("statsmodels.api")
    draw = np.random.default_rng(7)
    S, G = 60, 200
    apart = 0.05 + draw.normal(0, 0.1, (S, 1)) + draw.normal(size=(1, G)) + draw.normal(size=(S, G))
    rows = [("x", g, v, s) for (s, g), v in np.ndenumerate(apart)]
    rows += [("y", g, 0.0, s) for s, g in np.ndindex(S, G)]
    path = table(tmp_path / "t.csv", rows, "model,item,score,seed")
    (task,) = numbers(path, "--models", "x", "y", "--higher")["tasks"]
    groups = np.stack(np.indices((S, G)), axis=-1).reshape(-1, 2)
    fit = sm.OLS(apart.ravel(), np.ones(S * G)).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": True}
    )
    assert task["difference"] == pytest.approx(fit.params[0])
    error = np.hypot(task["error_of_seeds"], task["error_of_items"])
    assert error == pytest.approx(fit.bse[0], rel=0.02)


# Evaluations that are no runs ------------------------------------------------------------------

DAYS = ("21", "22", "23")


def inspect_log(path, values, model=None, status="success", pages=1):
    """A log of inspect_ai in a folder of several, by sample and epoch; returns it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = [
        {"id": n, "epoch": epoch, "input": f"q{n}", "metadata": {"page": n // pages},
         "scores": {"match": {"value": "C" if v else "I"}}}
        for n, of in enumerate(values) for epoch, v in enumerate(np.atleast_1d(of), 1)
    ]  # fmt: skip
    about = {"task": "sums", "model": "hf/local", "model_args": {"model_path": model, "seed": 1}}
    path.write_text(json.dumps({"status": status, "eval": about, "samples": samples}))
    return path


def evaluated(kind, folder, day, values, model):
    """Writes one of several evaluations into a folder; returns a path that names it alone."""
    date = DATE.replace("-28T", f"-{day}T")
    if kind == "lm_eval":
        points(folder, values, date=date, model=f"pretrained={model},dtype=float32")
        return folder / f"samples_sums_{date}.jsonl"
    if kind == "lighteval":
        write_lighteval(folder, values, date=date, model=model)
        return folder / "details" / "me" / "model" / date
    if kind == "inspect":
        return inspect_log(folder / f"{day}.json", values, model)
    write_opencompass(folder / day, values, model=model.replace("/", "-"))
    return folder / day


def three(tmp_path, kind, apart=""):
    """Three evaluations of each side, in one folder: of one model's name, or of three."""
    found = []
    for n, side in enumerate("ab"):
        draw = np.random.default_rng(n)
        values = [draw.integers(0, 2, 40) for _ in DAYS]
        folder = tmp_path / side / "model"
        names = [f"out/{side}{apart and day}" for day in DAYS]
        paths = [evaluated(kind, folder, *one) for one in zip(DAYS, values, names, strict=True)]
        found.append((folder, paths, np.mean(values, axis=1)))
    return found


KINDS = ("lm_eval", "lighteval", "inspect", "opencompass")
ASKS = (
    "are these 3 trained models (add --evaluations runs), or 3 evaluations of one (add "
    "--evaluations repeats)?"
)


@pytest.mark.parametrize("below", ["", "job/out"])
def test_folders_of_a_recipe_that_name_one_model_are_asked_for(tmp_path, said, below, refused):
    """Three jobs that each saved `out`: three models, or one that was evaluated three times."""
    for side, right in (("a", (20, 22, 24)), ("b", (10, 12, 14))):
        for seed, n in enumerate(right):
            folder = tmp_path / side / f"seed{seed}" / below
            points(folder, [i < n for i in range(40)], model="pretrained=out")
    a, b = (tmp_path / side for side in "ab")
    for words in (("compare", a, b), ("noise", a, b)):
        code, out, err = said(*words)
        assert (code, out, ASKS in err) == (2, "", True), err
        assert f"{a}/seed1" in err
        assert ("side A: " in err) == (words[0] == "compare")
        code, out, _ = said(*words, "--evaluations", "runs", "--format", "json")
        found = json.loads(out)
        runs = found["runs"]["a"] if words[0] == "compare" else found["recipes"][0]["runs"]
        assert (code, len(runs)) == (0, 3)
    # One of the three was evaluated twice: neither answer fits both, files do.
    again = a / "seed1" / below
    points(again, [0] * 40, model="pretrained=out", date=DATE.replace("-28T", "-29T"))
    for way in ("runs", "repeats"):
        told = f"{again} has 2 evaluations of sums, and 3 folders name its model"
        assert told in refused(a, b, "--evaluations", way)
    files = [one for one in a.rglob("samples*") if DATE in one.name]
    words = ("--a", *files, "--b", b, "--evaluations", "runs", "--format", "json")
    assert json.loads(said("compare", *words)[1])["tasks"][0]["a"] == pytest.approx(22 / 40)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reader_says_what_evaluations_under_one_name_are(tmp_path, numbers, kind, refused):
    (folder, a, mean_A), (other, b, mean_B) = three(tmp_path, kind)
    one_by_one, both = ("--a", *a, "--b", *b), ("--a", folder, "--b", other)
    err = refused(*one_by_one)
    assert ASKS in err
    assert "side A: 3 evaluations of sums" in err
    assert "out/a" in err.replace("out-a", "out/a")
    if kind != "opencompass":
        # OpenCompass has a folder for each date; others refuse a folder with several of one task.
        err = refused(*both)
        assert "has 3 evaluations of sums" in err
        assert ASKS in err
        assert f"give its file: {a[-1]}" in err
    for words in {one_by_one, both} if kind != "opencompass" else {one_by_one}:
        # The mean of the three means, one run a side; trained anew, a t-test over the runs.
        found = numbers(*words, "--evaluations", "repeats")
        (task,), (run,) = found["tasks"], found["runs"]["a"]
        assert (task["a"], task["b"]) == pytest.approx((mean_A.mean(), mean_B.mean()))
        assert (found["about"], found["warnings"]) == ("checkpoints", [])
        assert run.endswith("(mean of 3 evaluations)")
        found = numbers(*words, "--evaluations", "runs")
        assert (found["about"], len(set(found["runs"]["a"]))) == ("recipes", 3)
        assert (found["warnings"], found["tasks"][0]["a"]) == ([], pytest.approx(mean_A.mean()))


@pytest.mark.parametrize("kind", KINDS)
def test_evaluations_that_name_several_models_are_runs(tmp_path, numbers, kind):
    (_, a, mean_A), (_, b, _) = three(tmp_path, kind, apart="seed")
    found = numbers("--a", *a, "--b", *b)
    assert (found["about"], found["warnings"]) == ("recipes", [])
    assert found["tasks"][0]["a"] == pytest.approx(mean_A.mean())
    # Two evaluations of one folder are two sides.
    found = numbers("--a", a[0], "--b", a[1])
    assert (found["tasks"][0]["a"], found["tasks"][0]["b"]) == pytest.approx(tuple(mean_A[:2]))


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("pretrained=out", "pretrained=./out/,batch_size=4", True),
        ({"pretrained": "out"}, {"pretrained": "out", "revision": "main", "seed": 3}, True),
        ("model=mine,base_url=http://a", "model=mine,base_url=http://a", True),
        ({"pretrained": "out"}, {"pretrained": "out", "revision": "step10"}, False),
        ({"pretrained": "out"}, {"pretrained": "out", "peft": "adapter"}, False),
        ("model=mine,base_url=http://a", "model=mine,base_url=http://b", False),
        (None, None, False),
    ],
)
def test_what_the_harness_says_of_the_weights(tmp_path, said, first, second, is_one):
    a = points(tmp_path / "a", [1, 1] * 20, model=first)
    again = points(tmp_path / "again", [1, 0] * 20, model=second)
    b = points(tmp_path / "b", [1, 0] * 20)
    code, out, err = said("compare", "--a", a, again, "--b", b, "--format", "json")
    assert (code, "2 evaluations of sums name" in err) == ((2, True) if is_one else (0, False))
    assert is_one or len(json.loads(out)["runs"]["a"]) == 2


def test_tasks_of_one_folder_that_were_evaluated_apart(tmp_path, refused, numbers):
    def run(folder, task, day, right, **options):
        lines = [line(n, {"acc": float(n < right)}) for n in range(40)]
        date = DATE.replace("-28T", f"-{day}T")
        return write(folder, {task: lines}, date=date, metrics={"acc": ("mean", True)}, **options)

    for side, right in (("a", 24), ("b", 20)):
        for day, task in (("21", "one"), ("22", "two"), ("23", "one")):
            run(tmp_path / side, task, day, int(day), model=f"pretrained=out/{side}")
        # Of one model, each task in a folder of its own: one run as well.
        for task in ("one", "two"):
            apart = tmp_path / f"apart-{side}" / task
            run(apart, task, "24", right, model=f"pretrained=out/{side}")
    both = ("--a", tmp_path / "a", "--b", tmp_path / "b")
    found = numbers(*both, "--tasks", "two")
    assert (found["runs"]["a"], found["tasks"][0]["a"]) == ([str(tmp_path / "a")], 22 / 40)
    # The second task was evaluated once: it is of the mean of both evaluations of the first.
    found = numbers(*both, "--evaluations", "repeats")
    assert [one["a"] for one in found["tasks"]] == pytest.approx([22 / 40, 22 / 40])
    assert "2 evaluations of one and 1 of two: which belong together" in refused(
        *both, "--evaluations", "runs"
    )
    found = numbers("--a", tmp_path / "apart-a", "--b", tmp_path / "apart-b")
    assert (len(found["runs"]["a"]), len(found["tasks"]), found["warnings"]) == (1, 2, [])


def test_names_that_are_given_one_by_one_are_one_list(tmp_path, numbers):
    rows = [(m, n, n % 2, t) for m in "xy" for n in range(30) for t in ("a", "b", "c")]
    path = table(tmp_path / "t.csv", rows, "model,item,score,task")
    given = ("--models", "x", "--models", "y", "--higher", "a", "--higher", "b", "--lower", "c")
    once = ("--models", "x", "y", "--higher", "a", "b", "--lower", "c")
    assert numbers(path, *given) == numbers(path, *once)
    a, b, c = (points(tmp_path / name, [1, 0] * 20) for name in "abc")
    assert numbers("--a", a, "--a", c, "--b", b) == numbers("--a", a, c, "--b", b)


# Pairing ---------------------------------------------------------------------------------------


def test_items_are_paired_by_identity_whatever_their_order(tmp_path, numbers):
    lines = [line(n, {"acc": float(n % 3 == 0)}) for n in range(60)]
    other = [line(n, {"acc": float(n % 2)}) for n in range(60)]
    a = write(tmp_path / "a", {"sums": lines})
    b, mixed = write(tmp_path / "b", {"sums": other}), list(other)
    random.Random(0).shuffle(mixed)
    c = write(tmp_path / "c", {"sums": mixed})
    assert numbers("--a", a, "--b", b)["tasks"] == numbers("--a", a, "--b", c)["tasks"]


def test_items_of_one_side_are_counted_and_more_than_one_in_a_hundred_refused(
    tmp_path, said, numbers, refused
):
    a = points(tmp_path / "a", [1, 0] * 100)
    b = points(tmp_path / "b", [1, 0] * 99)
    found = numbers("--a", a, "--b", b)
    assert (found["tasks"][0]["items"], "2 only on side A" in found["warnings"][0]) == (198, True)
    c = points(tmp_path / "c", [1, 0] * 98)
    assert "allow it with --missing SHARE" in (err := refused("--a", a, "--b", c))
    assert "4 are only on side A" in err
    assert said("compare", "--a", a, "--b", c, "--missing", 0.05)[0] == 0


def test_other_prompts_are_other_items_unless_documents_are_asked_for(tmp_path, refused, numbers):
    a = points(tmp_path / "a", [1, 0] * 20)
    b = write(tmp_path / "b", {"sums": [line(n, {"acc": 1.0}, prompt="<user>") for n in range(40)]})
    assert "--same-document" in refused("--a", a, "--b", b)
    assert numbers("--a", a, "--b", b, "--same-document")["tasks"][0]["items"] == 40


# The harness's files ---------------------------------------------------------------------------


def test_metrics_filters_and_directions_of_the_harness(tmp_path, refused, numbers):
    def run(side, shift):
        rolling = [
            line(n, {"word_perplexity": [-(2.0 + shift) * (n + 1), n + 1], "bleu": [1, 2]})
            for n in range(60)
        ]
        words = [
            line(n, {"exact_match": float(n % 2)}, filter_=name)
            for name in ("strict", "loose") for n in range(60)
        ]  # fmt: skip
        folder = tmp_path / side
        write(folder, {"words": words}, metrics={"exact_match": ("mean", True)})
        kept = (folder / f"results_{DATE}.json").read_text()
        later = {"word_perplexity": ("weighted_perplexity", False), "bleu": ("bleu", True)}
        write(folder, {"text": rolling}, metrics=later)
        both, first = (json.loads(t) for t in ((folder / f"results_{DATE}.json").read_text(), kept))
        merged = {part: {**first[part], **of} for part, of in both.items()}
        (folder / f"results_{DATE}.json").write_text(json.dumps(merged))
        return folder

    a, b = run("a", 0.5), run("b", 0.0)
    assert "exact_match,strict, exact_match,loose" in refused("--a", a, "--b", b)
    found = numbers("--a", a, "--b", b, "--metric", "exact_match,strict", "word_perplexity")
    text, words = found["tasks"]
    # Every word of A costs half a nat more, whatever the lengths; lower is better.
    assert text["difference"] == pytest.approx(0.5)
    assert (text["metric"], text["verdict"]) == ("word_perplexity (nats per word)", "worse")
    assert words["metric"] == "exact_match,strict"
    assert found["mean"] is None
    assert "bleu is left out: it is no mean over items" in refused(
        "--a", a, "--b", b, "--metric", "bleu", "--tasks", "text"
    )


def test_lines_of_older_versions_have_their_filters_from_the_results_file(
    tmp_path, refused, numbers
):
    def run(side, right):
        rows = [
            json.loads(line(n, {"exact_match": float(n % 4 < right - loose)}))
            for loose in (0, 1) for n in range(40)
        ]  # fmt: skip
        for row in rows:
            del row["filter"], row["metrics"]
        lines = [f"{json.dumps(row)}\n" for row in rows]
        folder = write(tmp_path / side, {"old": lines}, metrics={"exact_match": ("mean", True)})
        path = folder / f"results_{DATE}.json"
        results = json.loads(path.read_text())
        results["configs"]["old"]["filter_list"] = [{"name": "strict"}, {"name": "loose"}]
        path.write_text(json.dumps(results))
        return folder

    a, b = run("a", 3), run("b", 2)
    for name, means in (("strict", (0.75, 0.5)), ("loose", (0.5, 0.25))):
        (task,) = numbers("--a", a, "--b", b, "--metric", f"exact_match,{name}")["tasks"]
        assert (task["a"], task["b"]) == means
    (b / f"results_{DATE}.json").unlink()
    assert "says of which filter" in refused("--a", a, "--b", b, "--metric", "exact_match,strict")


def damage(path, how):
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    path.write_bytes("".join(how(lines)).encode("utf-8", "surrogateescape"))


def spoil(what, by):
    """Damage of the third line, in the middle."""
    return lambda ls: [*ls[:2], ls[2].replace(what, by, 1), *ls[3:]]


DAMAGED = {
    "a cut line": (lambda ls: [*ls[:-1], ls[-1][:-9]], "line 40 is cut or damaged"),
    "a cut file": (lambda ls: ls[:-3], "37 of 40 documents"),
    "lost line ends": (lambda ls: [ls[0][:-1], *ls[1:]], "line 1 is cut or damaged"),
    "an item twice": (lambda ls: [*ls, ls[4]], "line 41: document 4 again, after line 5"),
    "half a letter": (spoil("document", "docu\udce6\udcbcment"), "line 3 is cut or damaged"),
    "lost bytes": (spoil("document", "doc\0\0\0nt"), "line 3 is cut or damaged"),
    "a lost block": (spoil('"target": "1", "arg', "arg"), "line 3 is cut or damaged"),
    "half a line and the next": (
        lambda ls: [ls[0], ls[1][:200] + ls[2], *ls[3:]],
        "line 2 is cut or damaged",
    ),
    "two halves": (lambda ls: [ls[0], ls[1][:60] + ls[2][150:], *ls[3:]], "line 2 is cut or"),
    "no hash": (lambda ls: [re.sub(r'"doc_hash": "\w+", ', "", ls[0]), *ls[1:]], "since 0.4.3"),
    "no number": (
        lambda ls: [*ls[:2], ls[2].replace('"acc": 1.0', '"acc": NaN'), *ls[3:]],
        "line 3: acc is nan",
    ),
    "nothing": (lambda _: [], "is empty"),
    "brackets": (lambda ls: ["[" * 200_000, *ls[1:]], "line 1 is cut or damaged"),
    "a list": (lambda ls: ["[1]\n", *ls[1:]], "line 1 is no JSON object"),
    "another text": (
        lambda ls: [*ls[:-1], line(39, {"acc": 1.0}, document=77)],
        "1 are only on side A",
    ),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files_are_refused_by_name(tmp_path, kind, refused):
    a, b = (points(tmp_path / side, [1] * 40) for side in "ab")
    how, expected = DAMAGED[kind]
    path = b / f"samples_sums_{DATE}.jsonl"
    damage(path, how)
    assert expected in refused("--a", a, "--b", b)


def device(path):
    path.symlink_to("/dev/zero")


def sparse(path):
    path.touch()
    os.truncate(path, 2**31)


@pytest.mark.parametrize(
    ("name", "make", "expected"),
    [
        (f"results_{DATE}.json", os.mkfifo, "is no file: evaluate"),
        (f"results_{DATE}.json", device, "is no file: evaluate"),
        (f"results_{DATE}.json", sparse, "2,147,483,648 bytes, too many for JSON"),
        (f"samples_more_{DATE}.jsonl", os.mkfifo, "is no file: evaluate again"),
        ("other/log.json", os.mkfifo, "is no file: write the log again"),
        ("other/results/m/t.json", os.mkfifo, "is no file: evaluate again"),
    ],
)
def test_what_is_found_in_a_folder_and_is_no_file_is_refused_at_once(
    tmp_path, name, make, expected, refused
):
    a, b = (points(tmp_path / side, [1] * 40) for side in "ab")
    (b / name).unlink(missing_ok=True)
    (b / name).parent.mkdir(parents=True, exist_ok=True)
    make(b / name)
    assert expected in refused("--a", a, "--b", b / "other" if "other" in name else b)


def test_other_versions_are_refused_by_name(tmp_path, refused):
    a, b = points(tmp_path / "a", [1] * 40), points(tmp_path / "b", [1] * 40, version=2)
    assert "its version differs: 1 in" in refused("--a", a, "--b", b)


# Output ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "gate", "code"),
    [
        (100, 0, ("better",), 0),
        (0, 100, ("better",), 1),
        (100, 98, ("better",), 3),
        (98, 100, ("not-worse", "--margin", 0.2), 0),
        (0, 100, ("not-worse", "--margin", 0.2), 1),
        (98, 100, ("not-worse", "--margin", 0.01), 3),
        (98, 100, ("not-worse",), 2),
        (98, 100, ("better", "--margin", 0.2), 1),
    ],
)
def test_gates_by_exit_code(tmp_path, said, a, b, gate, code):
    # Of a hundred items so many are right.
    places = [points(tmp_path / s, [1] * n + [0] * (100 - n)) for s, n in (("a", a), ("b", b))]
    assert said("compare", *places, "--gate", *gate)[0] == code


def test_an_interval_without_zero_that_decides_nothing_says_why(tmp_path, said):
    # Seven of forty items are better, one is worse: of 256 sign patterns 18 are as far, p = 0.07.
    a, b = points(tmp_path / "a", [1] * 39 + [0]), points(tmp_path / "b", [0] * 7 + [1] * 33)
    (row,) = json.loads(said("compare", a, b, "--format", "json")[1])["tasks"]
    assert (row["verdict"], row["low"] > 0) == ("cannot tell", True)
    assert row["p_holm"] == pytest.approx(18 / 256)
    assert "does not include 0, but p is stricter" in said("compare", a, b)[1]
    assert "p is stricter" not in said("compare", a, points(tmp_path / "c", [0] * 40))[1]


def test_all_forms_say_the_same(tmp_path, said):
    a, b = points(tmp_path / "a", [1] * 30 + [0] * 10), points(tmp_path / "b", [0] * 10 + [1] * 30)
    words = ["compare", a, b, "--margin", 0.6, "--plot", tmp_path / "p.svg", "--format"]
    whole = json.loads(said(*words, "json")[1])
    (row,) = csv.DictReader(io.StringIO(said(*words, "csv")[1]))
    assert float(row["low"]) == whole["tasks"][0]["low"]
    for form in ("text", "markdown"):
        out = said(*words, form)[1]
        assert "equal within 0.6" in out
        assert f"{whole['tasks'][0]['low']:.4f} to {whole['tasks'][0]['high']:.4f}" in out
    figure = ET.parse(tmp_path / "p.svg").getroot()
    texts = [e.text for e in figure.iter("{http://www.w3.org/2000/svg}text")]
    assert {"sums", "equal within 0.6", "A - B, with 95 % intervals"} <= set(texts)
    assert "sums: 0 (" in figure.get("aria-label")


MISTAKES = [
    ((), "give runs of both sides"),
    (("--a", "nowhere", "--b", "nothing"), "nowhere is not there: check the path"),
    (("t.csv",), "--models A B"),
    (("t.csv", "--models", "x", "z"), "'z' is unknown"),
    (("t.csv", "--models", "x"), "--models: x: name two, first A, then B: --models A B"),
    (("t.csv", "--models", "x", "x"), "name two"),
    (("t.csv", "--models", "x", "y"), "add --higher or --lower"),
    (("t.csv", "--models", "x", "y", "--higher", "--margin", "0"), "--margin 0"),
    (("t.csv", "--models", "x", "y", "--higher", "--columns", "score"), "WHAT=NAME"),
    (("t.csv", "--models", "x", "y", "--higher", "--columns", "score=right"), "no column 'right'"),
    (("t.csv", "--models", "x", "y", "--higher", "--tasks", "sums"), "no scores of 'sums'"),
    (("t.csv", "--models", "x", "y", "--higher", "scroe"), "did you mean 'score'"),
    (("t.csv", "--models", "x", "y", "--higher", "--lower"), "--higher and --lower are said of it"),
    (("t.csv", "--models", "x", "y", "--higher", "--margin", "5"), "of five points give 0.05"),
    (("run",), "run has logs of one side, A: give the folder of B, too: pike-mixing compare run"),
    (("both",), "both has several folders of logs: say which two to compare: pike-mixing compare"),
    (("--a", "run"), "side B has no runs: give its folder, too: --b PATH"),
    (("--b", "run", "--higher", "log.json"), "log.json was read as a name of --higher: put files"),
    (("elsewhere",), "elsewhere is not there: check the path"),
    (("begun",), "say which two of the source to compare"),
    (("run", "poor/samples_sums.jsonl"), "line 1 has no doc_hash, no prompt_hash: it is not as lm"),
    (("run", "samples_sums.jsonl"), "or write a CSV with the columns model, item and score"),
    (("run", "--models", "x", "y"), "of logs give the folders of both sides"),
    (("run/results_1.json", "log.json"), "run/results_1.json has no scores by item: give the fold"),
    (("bare", "run"), "bare is nothing that can be read: give a folder of lm-evaluation-harness"),
    (("log.json", "t.csv"), "log.json: sample 1 is none of inspect_ai"),
    (("run", "run2", "--metric", "bleu"), "left out: sums (has acc)"),
    (("huge.csv", "--models", "x", "y", "--higher"), "a score of 1e+300 is too large"),
    (("bad.csv", "--models", "x", "y", "--higher"), "row 2: score 'none' is no number"),
    (("tokens.csv", "--models", "x", "y", "--lower"), "scores by token of different tokenizers"),
    (("readme.txt", "--models", "x", "y"), "nothing that can be read"),
    # Of results of this project: the database, or the folder that holds it.
    (("begun", "--models", "s/m/mine", "s/m/pike"), "begun is a results folder of this project wi"),
    (("own/pike.duckdb", "--models", "mine", "pike"), "mine is not enough: type s/m/mine\n"),
    (("own", "--models", "pike", "mine"), "pike is not enough: type one of s/m/pike, t/m/pike\n"),
    (("own", "--models", "s/m/mine", "s/m/pik"), "'s/m/pik' is unknown: did you mean 's/m/pike'?"),
    (("own/pike.duckdb", "own"), "no name is not enough: type one of s/m/mine, s/m/pike, t/m/pike"),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES)
def test_mistakes_have_one_sentence(tmp_path, monkeypatch, words, expected, refused):
    monkeypatch.chdir(tmp_path)
    both = [(m, n, n % 2) for m in "xy" for n in range(30)]
    table(tmp_path / "t.csv", both)
    table(tmp_path / "bad.csv", [("x", 0, 1), ("y", 0, "none")])
    table(tmp_path / "tokens.csv", [("x", 0, 1, 4), ("y", 0, 1, 5)], "model,item,score,weight")
    table(tmp_path / "huge.csv", [("x", 0, 1e300), ("y", 0, 1)])
    (tmp_path / "readme.txt").write_text("hello")
    (tmp_path / "poor").mkdir()
    (tmp_path / "poor/samples_sums.jsonl").write_text('{"doc_id": 0, "acc": 1.0}\n')
    lacking = {"doc_id": 0, "doc_hash": "a", "metrics": ["acc"]}
    (tmp_path / "samples_sums.jsonl").write_text(json.dumps(lacking) + "\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "begun").mkdir()
    for folder in ("begun", "own"):
        (tmp_path / folder / "experiment.json").write_text("{}")
    with duckdb.connect(str(tmp_path / "own" / "pike.duckdb")) as connection:
        connection.execute(
            "create table documents as select unnest(['s/m/mine/seed0', 's/m/pike/seed0', "
            "'t/m/pike/seed0']) as run, 1 as step, 'd' as domain, 'x' as document, 2.0 as nll, "
            "1 as tokens"
        )
    points(tmp_path / "run", [1, 0] * 20)
    points(tmp_path / "run2", [1, 0] * 20)
    for side in "ab":
        points(tmp_path / "both" / side, [1, 0] * 20)
    (tmp_path / "run" / "results_1.json").write_text("{}")
    # As lighteval leaves it without --save-details.
    (tmp_path / "bare" / "results" / "model").mkdir(parents=True)
    (tmp_path / "bare" / "results" / "model" / "results_1.json").write_text("{}")
    log = {"status": "success", "eval": {"task": "t"}, "samples": [{"input": "q"}]}
    (tmp_path / "log.json").write_text(json.dumps(log))
    assert expected in refused(*words)


def test_tables_in_three_forms_are_one(tmp_path, numbers):
    rows = [(m, n, (n % 3 == 0) if m == "x" else (n % 2 == 0)) for m in "xy" for n in range(40)]
    path = table(tmp_path / "t.csv", rows)
    lines = [json.dumps({"model": m, "item": n, "score": v}) for m, n, v in rows]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    found = [
        numbers(p, "--models", "x", "y", "--higher") for p in (path, *tmp_path.glob("t.jsonl*"))
    ]
    columns = dict(zip(("model", "item", "score"), map(list, zip(*rows, strict=True)), strict=True))
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    found.append(numbers(tmp_path / "t.parquet", "--models", "x", "y", "--higher"))
    assert len(found) == 4
    assert all(one == found[0] for one in found)


def test_power_with_more_runs_is_that_of_their_smaller_error():
    found = Estimate(0.0, of_seeds=0.6 / 2, of_items=0.2, seeds=4, degrees=1e9)
    assert detection_power(detectable_difference(found), found) == pytest.approx(0.8, abs=1e-3)
    # Sixteen runs in the place of four: half the error, and fifteen degrees.
    more = Estimate(0.0, of_seeds=0.3 / 2, of_items=0.2, seeds=16, degrees=1e9)
    assert detection_power(0.6, found, runs=4) == pytest.approx(detection_power(0.6, more))


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell",
    [
        Cell(1, 100, "equal", "0/1"),
        Cell(1, 20, "equal", "0/1, rarely different"),
        Cell(3, 100, tasks=3, shared=True),
        Cell(5, 1000, "cut, by length"),
        Cell(16, 100, collapse=True),
    ],
)
def test_equal_sides_are_rarely_told_apart(cell):
    random, draws = np.random.default_rng(8), 400
    counts = [comparison_rates.once(cell, random, others=False) for _ in range(draws)]
    given = sum(one["given"] for one in counts)
    assert given > draws / 2
    # Three standard errors above the level.
    assert sum(one["false"] for one in counts) / given < 0.05 + 3 * (0.05 * 0.95 / given) ** 0.5


# Noise -----------------------------------------------------------------------------------------


def test_noise_by_hand_and_its_warnings(tmp_path, said):
    item = np.random.default_rng(0).normal(size=50)
    recipes = {"calm": [1, 2, 3, 2, 2, 2], "same": [1] * 6, "wild": [1, 1, 1.2, 0.9, 1.1, 60]}
    rows = []
    for model, means in recipes.items():
        rows += [(model, n, v + m, s) for s, m in enumerate(means) for n, v in enumerate(item)]
    path = table(tmp_path / "t.csv", rows, "model,item,score,seed")
    code, out, _ = said("noise", path, "--higher", "--format", "json")
    calm, same, wild = json.loads(out)["recipes"]
    assert code == 0
    assert calm["sd"] == pytest.approx(0.4**0.5)
    assert calm["sd_high"] == pytest.approx((2 / stats.chi2.ppf(0.025, 5)) ** 0.5)
    assert calm["error_of_items"] == pytest.approx(item.std(ddof=1) / 50**0.5)
    assert calm["error_of_items_of_a_difference"] == pytest.approx(0, abs=1e-9)
    # By the SD of six runs: two seeds show a difference that is smaller by sqrt(2) than one.
    one, two, *more = calm["smallest_shown"].values()
    assert two == pytest.approx(one / 2**0.5, rel=1e-3)
    assert more == sorted(more, reverse=True)
    assert calm["warnings"] == []
    assert same["warnings"] == ["all runs have the same mean: does each run have a different seed?"]
    assert "wild/5 causes" in wild["warnings"][0]
    assert "the SD of wild is" in said("noise", path, "--higher")[1]


def test_noise_of_logs_is_that_of_each_folder(tmp_path, said):
    for side, shift in (("a", 0), ("b", 20)):
        for n in range(3):
            right = [1] * (10 + n + shift) + [0] * (30 - n - shift)
            points(tmp_path / "runs" / side / str(n), right, model=f"pretrained=out/{side}{n}")
    a, b = (tmp_path / "runs" / side for side in "ab")
    # Each recipe solves 10, 11, 12 of 40, or 30, 31, 32: SD 1/40.
    code, out, _ = said("noise", a, b, "--format", "json")
    found = json.loads(out)["recipes"]
    assert (code, [one["recipe"] for one in found]) == (0, [str(a), str(b)])
    assert [one["sd"] for one in found] == pytest.approx([1 / 40] * 2)
    assert f"{b}: runs of one recipe: {b}/0, {b}/1, {b}/2\n" in said("noise", a, b)[1]
    # One by one they are of one recipe, which it says.
    code, out, _ = said("noise", a / "0", a / "1", a / "2")
    begin = f"these runs: runs of one recipe: {a}/0, {a}/1, {a}/2. If they are several recipes, "
    assert (code, out.startswith(begin)) == (0, True)
    code, _, err = said("noise", a / "0", a / "1", b)
    assert (code, f"{a}/0: 1 run of sums: the SD" in err) == (2, True)


def test_logs_of_inspect_are_read_by_sample(tmp_path, numbers, refused):
    a = inspect_log(tmp_path / "a.json", [(1, 1)] * 60, "a", pages=2)
    b = inspect_log(tmp_path / "b.json", [(1, 0)] * 60, "b", pages=2)
    (task,) = numbers("--a", a, "--b", b, "--cluster", "page")["tasks"]
    # Two epochs of a sample are one item: of B each has one of two right.
    assert (task["a"], task["b"], task["items"], task["documents"]) == (1, 0.5, 60, 30)
    failed = inspect_log(tmp_path / "c.json", [1] * 60, status="error")
    assert "'error'" in refused("--a", a, "--b", failed)
    (tmp_path / "d.eval").touch()
    assert "convert --to json" in refused("--a", a, "--b", tmp_path / "d.eval")


OTHERS = {"lighteval": (write_lighteval, "acc"), "opencompass": (write_opencompass, "accuracy")}


@pytest.mark.parametrize("harness", OTHERS)
def test_logs_of_other_harnesses_by_hand(tmp_path, refused, numbers, harness):
    # Of 40 items A alone solves 9, B alone 1, as with the first harness; in any order.
    write_run, metric = OTHERS[harness]
    right = {"a": [1] * 9 + [0] + [1] * 10 + [0] * 20, "b": [0] * 9 + [1] + [1] * 10 + [0] * 20}
    a, b = (write_run(tmp_path / side, values) for side, values in right.items())
    for words in ((), ("--metric", metric), ("--same-document",)):
        (task,) = numbers("--a", a, "--b", b, *words)["tasks"]
        assert (task["a"], task["b"], task["items"], task["metric"]) == (0.475, 0.275, 40, metric)
        assert task["p"] == pytest.approx(22 / 1024)
    # Other prompts, other references, and a result that is not the scores' mean.
    other = write_run(tmp_path / "c", right["b"], prompt="<user>")
    assert "--same-document" in refused("--a", a, "--b", other)
    assert numbers("--a", a, "--b", other, "--same-document")["tasks"][0]["items"] == 40
    other = write_run(tmp_path / "d", right["b"], reference="other")
    assert "40 only on side B" in refused("--a", a, "--b", other, "--same-document")
    other = write_run(tmp_path / "e", right["b"], result=0.3)
    assert "no mean over items" in refused("--a", a, "--b", other)


def test_what_lighteval_logs_beside_means(tmp_path, said, numbers, refused):
    def run(side, shift):
        text = [{"logprobs": -(2.0 + shift) * (n + 1), "weights": n + 1} for n in range(40)]
        more = {"word_perplexity": text, "bleu": [{"golds": ["x"], "preds": ["y"]}] * 40}
        results = {"word_perplexity": np.exp(2.0 + shift), "bleu": 12.0}
        return write_lighteval(tmp_path / side, [1, 0] * 20, more=more, results=results, pages=2)

    a, b = run("a", 0.5), run("b", 0.0)
    found = numbers("--a", a, "--b", b, "--metric", "word_perplexity", "--cluster", "page")
    (task,) = found["tasks"]
    assert (task["difference"], task["documents"]) == (pytest.approx(0.5), 20)
    assert (task["higher_is_better"], task["metric"]) == (False, "word_perplexity (nats per word)")
    assert "bleu is left out" in said("compare", "--a", a, "--b", b, "--metric", "bleu")[2]
    old = write_lighteval(tmp_path / "old", [1, 0] * 20)
    (path,) = old.rglob("details_*.parquet")
    parquet.write_table(pa.table({"example": ["q"], "metrics": [1]}), path)
    assert "details of older versions of lighteval are not read" in refused(
        "--a", a, "--b", old, "--metric", "acc"
    )
    (results,) = b.rglob("results_*.json")
    results.unlink()
    assert "keep both folders, results and details" in refused(
        "--a", a, "--b", b, "--metric", "acc"
    )


def test_replicas_and_evaluators_of_opencompass(tmp_path, numbers, refused):
    a = write_opencompass(tmp_path / "a", [[1, 1]] * 40)
    b = write_opencompass(tmp_path / "b", [[1, 0]] * 40)
    (task,) = numbers("--a", a, "--b", b)["tasks"]
    assert (task["a"], task["b"], task["items"]) == (1, 0.5, 40)
    path = next(b.glob("results/*/*.json"))
    whole = json.loads(path.read_text())
    bare = [{k: v for k, v in one.items() if k != "correct"} for one in whole["details"]]
    cut = {**whole, "details": whole["details"][:-1]}
    for changed, expected in (
        ({"accuracy": 50.0}, "no scores by item: evaluate with --dump-eval-details"),
        ({**whole, "details": bare}, "make a table of its scores, with the columns model, item"),
        (cut, "78 answers, its predictions 80"),
    ):
        path.write_text(json.dumps(changed))
        assert expected in refused("--a", a, "--b", b)


def test_tasks_that_are_not_asked_for_are_not_read(tmp_path, refused, numbers):
    for side in "ab":
        points(tmp_path / side, [1, 0] * 20)
        (tmp_path / side / f"samples_broken_{DATE}.jsonl").write_text("{")
    sides = ("--a", tmp_path / "a", "--b", tmp_path / "b")
    assert numbers(*sides, "--tasks", "sums")["tasks"][0]["items"] == 40
    assert "there are broken, sums" in refused(*sides, "--tasks", "other")


HARNESS = """
import json, sys, torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
alphabet = pre_tokenizers.ByteLevel.alphabet()
words = Tokenizer(models.BPE())
words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
words.decoder = decoders.ByteLevel()
words.train_from_iterator(["red green"], trainers.BpeTrainer(
    vocab_size=260, special_tokens=["<end>"], initial_alphabet=alphabet))
made = dict(eos_token="<end>", bos_token="<end>", pad_token="<end>")
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **made)
for seed in (0, 1):
    torch.manual_seed(seed)
    shape = dict(n_positions=256, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **shape)).save_pretrained(f"m{seed}")
    tokenizer.save_pretrained(f"m{seed}")
colours = ["red", "green", "blue", "grey"]
with open("data.jsonl", "w") as file:
    for n in range(30):
        row = {"question": f"number {n}", "choices": colours, "gold": n % 4, "page": n // 2}
        file.write(json.dumps(row) + "\\n")
"""
TASK = """
task: colours
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}:"
doc_to_target: gold
doc_to_choice: "{{{{choices}}}}"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
"""


@pytest.mark.slow
def test_what_the_harness_itself_logs_is_compared(tmp_path, numbers):
    pytest.importorskip("lm_eval")
    pytest.importorskip("transformers")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    assert start(sys.executable, "-c", HARNESS, cwd=tmp_path, env=environment).returncode == 0
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "t.yaml").write_text(TASK.format(data=tmp_path / "data.jsonl"))
    means = []
    for model in ("m0", "m1"):
        words = f"--model hf --model_args pretrained={model} --include_path tasks --tasks colours"
        words += f" --device cpu --output_path out/{model} --log_samples"
        done = start(sys.executable, "-m", "lm_eval", *words.split(), cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        (results,) = (tmp_path / "out" / model).rglob("results_*.json")
        means.append(json.loads(results.read_text())["results"]["colours"]["acc,none"])
    out = tmp_path / "out"
    (task,) = numbers("--a", out / "m0", "--b", out / "m1")["tasks"]
    assert (task["a"], task["b"]) == pytest.approx(tuple(means))
    assert (task["items"], task["documents"], task["higher_is_better"]) == (30, 30, True)
    (task,) = numbers("--a", out / "m0", "--b", out / "m1", "--cluster", "page")["tasks"]
    assert (task["items"], task["documents"]) == (30, 15)
