"""A mixture from a table of one's own, as `python -m pike_mixing fit` prints it."""

import dataclasses
import gzip
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from known_law import DOMAINS, optimum, proxies

from pike_mixing.errors import InputError
from pike_mixing.finders import saved_predictors, swarm_table
from pike_mixing.finders.best_run import Best
from pike_mixing.finders.fit import fit
from pike_mixing.finders.interface import FinderResult, Swarm
from pike_mixing.finders.mixing_law import MixingLaw
from pike_mixing.finders.regmix import RegMix

HEADER = ["run", *(f"weight/{d}" for d in DOMAINS), *(f"loss/{d}" for d in DOMAINS)]
ROW = ["a", 0.5, 0.25, 0.25, 1.0, 2.0, 3.0]


@pytest.fixture
def swarm(write):
    """Writes a table of proxies."""

    def made(runs):
        return write(HEADER, [[run.name, *run.weights_K, *run.loss_K] for run in runs])

    return made


def asked(path, *options):
    return ["fit", options[0], path, "--target", *DOMAINS, *options[1:]]


@pytest.mark.slow
def test_the_best_mixture_of_a_known_law_lies_within_the_uncertainty(swarm, said):
    options = ["--set", "kl=0", "--format", "json", "--resamples", "30"]
    found = json.loads(said(*asked(swarm(proxies(40, noise=0.02)), "mixing-law", *options)))
    truth = dict(zip(DOMAINS, optimum()[0], strict=True))
    for domain, weight in found["mixture"].items():
        assert 0.001 < found["standard_error"][domain] < 0.02
        assert abs(weight - truth[domain]) < 3 * found["standard_error"][domain] + 0.002
        assert found["low"][domain] <= weight <= found["high"][domain]
    assert found["diagnostics"]["held_out_spearman"] > 0.95
    assert found["resamples"] == 30
    assert found["warnings"] == []
    assert found["interval"]["low"] < found["diagnostics"]["predicted_loss"]
    assert (found["interval"]["of"], found["interval"]["level"]) == (40, 0.9)
    assert 0.8 < found["interval"]["coverage"] <= 1


def test_a_target_weighs_losses_that_need_be_no_domains(said, write):
    # Of the losses (1, 4) and (2, 2) the means are 5/2 and 2, with weights 3 and 1 7/4 and 2.
    header = ["weight/en", "weight/de", "loss/easy", "loss/hard"]
    path = write(header, [[0.5, 0.5, 1, 4], [0.25, 0.75, 2, 2]])
    options = ["fit", "best", path, "--resamples", "0", "--target"]
    found = json.loads(said(*options, "easy=3", "loss/hard", "--format", "json"))
    assert found["mixture"] == {"en": 0.5, "de": 0.5}
    assert found["diagnostics"]["loss"] == 7 / 4
    assert found["diagnostics"]["runner_up_loss"] == 2
    assert found["standard_error"] == {"en": None, "de": None}
    # A star is all losses of the table; a second target is fitted by itself.
    every, weighed = said(*options, "*", "--target", "*", "easy=3").split("\n\nbest")
    assert every.startswith("best: 2 rows, 2 domains, target easy=1 hard=1\n\ndomain  weight\n")
    assert re.search(r"(?m)^en +0\.2500$", every)
    assert re.search(r"(?m)^en +0\.5000$", weighed)


@pytest.mark.parametrize(
    ("rows", "header", "target", "message"),
    [
        ([ROW], ["run", "a", "b", "c", *HEADER[4:]], "code", "0 column(s) are named weight/*"),
        ([ROW], [*HEADER[:4], "x", "y", "z"], "code", "0 column(s) are named loss/*"),
        ([ROW], HEADER, "cod", "target: 'cod' is unknown: did you mean 'code'?"),
        ([ROW], [*HEADER[:2], *HEADER[1:3], *HEADER[4:]], "code", "'weight/code' is there twice"),
        ([["a", 0.5, 0.25, 0.239, 1, 2, 3]], HEADER, "code", "the weights sum to 0.989, not 1"),
        ([["a", 1.5, -0.25, -0.25, 1, 2, 3]], HEADER, "code", "row 1: a weight is negative"),
        ([ROW, ["b", 0.5, 0.5, 0, "nan", 2, 3]], HEADER, "code", "row 2: loss/code is 'nan', no f"),
        ([ROW, ["b", 0.5, "", 0, 1, 2, 3]], HEADER, "code", "row 2: weight/prose is nothing, no f"),
        ([ROW[:-1]], HEADER, "code", "row 1: 6 values for 7 columns"),
        ([], HEADER, "code", "has no rows"),
    ],
)
def test_a_table_that_is_no_swarm_is_refused(said, write, rows, header, target, message):
    path = write(header, rows)
    refusal = said("fit", "best", path, "--target", target, code=2)
    assert refusal.startswith(f"pike-mixing fit: {path}")
    assert message in refusal


@pytest.mark.parametrize("weight", ["-1", "nan", "x"])
def test_a_targets_weight_that_is_no_weight_is_told_where_it_stands(said, write, weight):
    # It was called --set.target.code.
    refusal = said("fit", "best", write(HEADER, [ROW]), "--target", f"code={weight}", code=2)
    assert refusal.startswith("pike-mixing fit: --target: code=")
    assert "is no finite number of at least 0" in refusal


@pytest.mark.parametrize("mark", [";", "\t"])
def test_columns_between_other_marks_are_named(said, tmp_path, mark):
    (tmp_path / "t.csv").write_text(mark.join(HEADER) + "\n" + mark.join(map(str, ROW)) + "\n")
    refusal = said("fit", "best", tmp_path / "t.csv", "--target", "code", code=2)
    assert f"columns stand between {mark!r}: write commas" in refusal


def test_a_mixture_that_is_held_near_a_prior_is_said_to_be_and_few_have_no_interval(said, swarm):
    ask = asked(swarm(proxies(8)), "mixing-law", "--resamples", "0")
    told = said(*ask)
    assert "by kl 0.05 (--set kl=0" in told
    assert "no interval: the mixtures are too few" in told
    assert "prior" not in said(*ask, "--set", "kl=0")


def test_of_many_wrong_rows_the_first_are_named(write):
    path = write(HEADER, [["a", 9, 9, 9, 1, 2, 3]] * 30)
    with pytest.raises(InputError) as caught:
        swarm_table.read_swarm(path, ["code"])
    lines = str(caught.value).splitlines()
    assert len(lines) == 6
    assert lines[-1].endswith("25 more")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["regmix"], r"1 proxy run(s) are too few, at least 10 are needed"),
        (["regmx"], "finder: 'regmx' is unknown: did you mean 'regmix'?"),
        (["average"], "the finder 'average' reads the state of a run, not a table"),
        (["best", "--set", "targt=1"], "--set: 'targt' is unknown: did you mean 'target'?"),
        (["best", "--set", "target"], "--set: 'target' is not NAME=VALUE"),
        (["best", "--resamples", "1"], "--resamples: must be at least 2, or 0"),
        (["best", "--seed", "-1"], "--seed: must not be negative"),
    ],
)
def test_wrong_options_are_refused(said, write, options, message):
    assert message in said(*asked(write(HEADER, [ROW]), *options), code=2)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "no.parquet").write_bytes(b"text")
    (tmp_path / "latin.csv").write_bytes("weight/é".encode("latin-1"))
    (tmp_path / "damaged.csv.gz").write_bytes(gzip.compress(b"a,b")[:10] + b"no block")
    for name in ("none.csv", "none.parquet", "no.parquet", "latin.csv", "damaged.csv.gz"):
        with pytest.raises(InputError, match=name):
            swarm_table.read_swarm(tmp_path / name, ["code"])


@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_fault():
    # As `| head` that has closed the pipe.
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        program = [sys.executable, "-m", "pike_mixing", "methods"]
        done = subprocess.run(program, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_rules_are_listed_with_their_settings(said):
    assert "    zeta2 (required)\n        Coefficient of the gra" in said("methods")
    assert "    kl = 0.05\n        Price of a nat" in said("methods", "mixing-law")
    unknown = said("methods", "pik", code=2)
    assert "'pik' is unknown: did you mean 'pike'? (a class of your own is named MODULE" in unknown


def test_a_rule_of_ones_own_is_found_in_the_current_folder(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import dataclasses\nfrom pike_mixing.rules.static import Mix\n"
        "@dataclasses.dataclass(frozen=True)\nclass Mine(Mix):\n    about = 'Of mine.'\n"
    )
    # Neither -m nor -c: these put the current folder on the path themselves.
    script = tmp_path / "bin" / "pike-mixing"
    script.parent.mkdir()
    script.write_text("import sys\nfrom pike_mixing.__main__ import main\nsys.exit(main())\n")
    program = [sys.executable, str(script), "methods", "mine:Mine"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Of mine." in done.stdout


@dataclasses.dataclass
class Said:
    """A finder with these diagnostics, whose fit cannot be repeated."""

    diagnostics: dict
    outside: bool
    reads = "losses"

    def find(self, swarm):
        weights = [1.0, 0, 0] if self.outside else [1 / 3] * 3
        return FinderResult(np.array(weights), self.diagnostics)

    def fit(self, swarm, like):
        raise InputError("too few")


@pytest.mark.parametrize(
    ("spearman", "r_squared", "outside", "expected"),
    [
        # Of 26 mixtures noise gives up to 1.645 / sqrt(25) = 0.329.
        (0.34, 0.1, False, []),
        (0.32, 0.1, False, ["the fit explains nothing: on held-out rows"]),
        (0.34, 0.0, False, ["the fit explains nothing"]),
        (None, None, False, ["the fit explains nothing: on held-out rows"]),
        (0.9, 0.9, True, ["the mixture lies outside of all averages of the rows"]),
    ],
)
def test_what_is_warned_of(spearman, r_squared, outside, expected):
    scores = {"held_out_spearman": spearman, "held_out_r_squared": r_squared}
    finder = Said(scores, outside)
    swarm = Swarm(DOMAINS, proxies(26))
    told = fit(finder, swarm, resamples=0).warnings
    assert len(told) == len(expected)
    assert all(a.startswith(b) for a, b in zip(told, expected, strict=True))
    told = fit(finder, swarm, resamples=4)
    assert told.warnings[-1].startswith("only 0 of 4 resampled tables could be fitted")
    assert np.isnan(told.standard_error).all()


@pytest.mark.slow
@pytest.mark.parametrize("finder", [RegMix(rounds=50, samples=2000), MixingLaw(starts=1)])
def test_repeats_explain_nothing_of_a_mixture_that_no_run_has(finder):
    # 12 mixtures with four seeds each, whose losses are no function of the mixture.
    random = np.random.default_rng(0)
    base = [dataclasses.replace(r, loss_K=random.normal(2, 0.1, 3)) for r in proxies(12)]
    runs = [
        dataclasses.replace(r, name=f"{n}", loss_K=r.loss_K + random.normal(0, 0.005, 3))
        for n, r in enumerate(base * 4)
    ]
    found = fit(finder, Swarm(DOMAINS, runs), resamples=0)
    assert found.result.diagnostics["held_out_r_squared"] < 0.5
    assert "noise gives up to 0.50 with 12 mixtures" in found.warnings[0]


def test_the_uncertainty_counts_mixtures(said, write):
    # Three runs of one mixture and three of another: a drawn table lacks the better one in a
    # quarter of all cases, not in one of 64.
    rows = [[1, 0, 1.0]] * 3 + [[0, 1, 2.0]] * 3
    path = write(["weight/en", "weight/de", "loss/en"], rows)
    found = fit(Best(), swarm_table.read_swarm(path, ["en"]), resamples=400)
    assert found.result.weights_K.tolist() == [1, 0]
    # The standard deviation of a draw with probability 1/4: sqrt(3)/4.
    assert found.standard_error == pytest.approx(3**0.5 / 4, abs=0.04)
    assert found.weight_quantile(0.05).tolist() == [0, 0]
    assert found.weight_quantile(0.95).tolist() == [1, 1]
    refusal = said("fit", "regmix", path, "--target", "en", code=2)
    assert "6 proxy run(s) of 2 mixtures are too few, at least 10 are needed" in refusal


@pytest.mark.slow
def test_repeats_among_test_rows_are_no_further_mixtures(swarm, said, write):
    runs = proxies(12, noise=0.02)
    rows = [[run.name, *run.weights_K.tolist(), *run.loss_K.tolist()] for run in runs]
    ask = [*asked(swarm(runs), "mixing-law", "--resamples", "0"), "--test"]
    once, twice = (said(*ask, write(HEADER, rows * n, f"{n}.csv")) for n in (1, 2))
    assert "on 12 test mixtures, with 95 % over them:" in once
    assert twice == once


def test_many_losses_of_one_weight_are_counted_not_named(said, write):
    names = [f"loss/{n}" for n in range(21)]
    path = write(["weight/a", "weight/b", *names], [[0.5, 0.5, *[1] * 21], [0.2, 0.8, *[2] * 21]])
    printed = said("fit", "best", path, "--target", "*", "--resamples", "0")
    assert "2 rows, 2 domains, target the mean of 21 losses\n" in printed


STOCK = ["weight/a", "weight/b", "loss/l", "tokens", "available/a", "available/b"]


@pytest.mark.parametrize(
    ("given", "epochs", "warned"),
    [
        # The best row reads a quarter of 100 tokens of 10 of a, three quarters of them of 300 of b.
        ([], {"a": 2.5, "b": 0.25}, None),
        # Of 400 tokens four times as much of both.
        (["--budget", "400"], {"a": 10, "b": 1}, "a 10 times (the runs: 2.5), b 1 times"),
        # Twice is not more than twice; of 31 tokens a is read less than half as often.
        (["--available", "a=20", "b=150"], {"a": 1.25, "b": 0.5}, None),
        (["--available", "a=31", "b=300"], {"a": 25 / 31, "b": 0.25}, "a 0.806 times"),
    ],
)
def test_epochs_stand_beside_weights_and_those_of_the_runs_are_compared(
    said, write, given, epochs, warned
):
    rows = [[0.25, 0.75, 1, 100, 10, 300], [0.5, 0.5, 2, 100, 10, 300]]
    ask = ["fit", "best", write(STOCK, rows), "--target", "l", "--resamples", "0", *given]
    found = json.loads(said(*ask, "--format", "json"))
    assert found["epochs"] == pytest.approx(epochs)
    warnings = [w for w in found["warnings"] if "other epochs" in w]
    assert len(warnings) == (warned is not None)
    assert warned is None or f"the runs did: {warned}" in warnings[0]
    assert re.search(rf"(?m)^a +0\.2500 +{epochs['a']:.4f}$", said(*ask))


def test_an_inventory_of_which_a_part_is_missing_is_refused_or_unknown(said, write):
    ask = ["fit", "best", write(STOCK[:3], [[1, 0, 1], [0, 1, 2]]), "--target", "l"]
    ask += ["--resamples", "0"]
    assert json.loads(said(*ask, "--format", "json"))["epochs"] is None
    for given, message in (
        (["--budget", "5"], "--available: give the text of the training"),
        (["--available", "a=5", "b=5"], "--budget: give the tokens of the training"),
        (["--available", "a=5", "b=0"], "--available: b must be above 0"),
        (["--available", "a=5"], "--available: domain 'b' has no text"),
        (["--budget", "0"], "--budget: 0 must be a finite number of tokens above 0"),
    ):
        assert message in said(*ask, *given, code=2)
    both = ["--available", "a=5", "b=10", "--budget", "20", "--format", "json"]
    assert json.loads(said(*ask, *both))["epochs"] == {"a": 4, "b": 0}
    with pytest.raises(InputError, match="row 1: available/b must be above 0"):
        swarm_table.read_swarm(write(STOCK, [[1, 0, 1, 5, 1, -1]]))
    with pytest.raises(InputError, match="the column available/b is missing"):
        swarm_table.read_swarm(write(STOCK[:5], [[1, 0, 1, 5, 1]]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("finder", "settings"),
    [("mixing-law", ["kl=0"]), ("regmix", ["samples=2000", "kept=8", "rounds=100"])],
)
def test_a_cap_on_epochs_takes_its_inventory_from_the_table(
    said, write, tmp_path, finder, settings
):
    # 100 tokens of code for a run of 400: twice is half of it. Of talk, which hurts all, nothing.
    header = [*HEADER[1:], "tokens", *(f"available/{d}" for d in DOMAINS)]
    rows = [[*r.weights_K, *r.loss_K, 400, 100, 9e3, 9e3] for r in proxies()]
    saved = tmp_path / "law.json"
    ask = ["fit", finder, write(header, rows), "--target", "code", "--resamples", "0"]
    ask += ["--format", "json", "--save", saved, "--set", *settings]
    # Nine times is more than any weight reads.
    assert json.loads(said(*ask, "epochs=9"))["epochs"]["code"] > 2
    found = json.loads(said(*ask, "epochs=2"))
    assert 0.4 < found["mixture"]["code"] < 0.5 + 1e-9
    again = saved_predictors.load_predictor(saved).predictor.optimum()
    assert again.tolist() == list(found["mixture"].values())
    ask[2] = write(HEADER[1:], [row[:6] for row in rows], "bare.csv")
    assert "epochs: how much text there is" in said(*ask, "epochs=2", code=2)


def test_no_run_within_a_cap_is_refused(said, write):
    # 10 tokens of a for a run of 100: of weight 0.3 and more they are read three times at least.
    rows = [[0.3, 0.7, 1, 100, 10, 300], [0.5, 0.5, 2, 100, 10, 300]]
    ask = ["fit", "best", write(STOCK, rows), "--target", "l", "--resamples", "0", "--set"]
    assert "the mixture of every run reads a domain more than 2.9" in said(
        *ask, "epochs=2.9", code=2
    )
    assert "0.3000" in said(*ask, "epochs=3")
