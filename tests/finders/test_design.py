import contextlib
import json
from argparse import Namespace

import numpy as np
import pytest
from edits import edited
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from known_law import DOMAINS, LAWS, optimum, proxies

from pike_mixing.__main__ import main
from pike_mixing.errors import InputError
from pike_mixing.finders import fit_command, saved_predictors
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.mixing_law import MixingLaw
from pike_mixing.finders.mixture_design import (
    MixtureDistribution,
    propose_mixtures,
    smallest_visible_loss_difference,
)
from pike_mixing.numerics.simplex import capped_weights

FREE = MixtureDistribution(np.full(3, 1 / 3), np.full(3, np.inf))
NOTHING = np.empty((0, 3))


@pytest.mark.parametrize(
    ("weights", "caps", "capped"),
    [
        # 0.6 to 0.5: 0.1 goes to 0.3 and 0.1 as 3 : 1. Then the second may be above its own.
        ([0.6, 0.3, 0.1], [0.5, 1, 1], [0.5, 0.375, 0.125]),
        ([0.6, 0.3, 0.1], [0.5, 0.35, 1], [0.5, 0.35, 0.15]),
        ([0.2, 0.3, 0.5], [0.5, 1, 1], [0.2, 0.3, 0.5]),
        ([1.0, 0, 0], [0.4, 1, 1], [0.4, 0.3, 0.3]),
    ],
)
def test_what_is_above_a_cap_goes_to_the_others_in_proportion(weights, caps, capped):
    assert capped_weights(np.array([weights]), np.array(caps))[0].tolist() == pytest.approx(capped)


@effort(max_examples=30)
@given(st.lists(st.floats(0.05, 1), min_size=3, max_size=6), st.integers(0, 99))
def test_caps_hold_and_weights_sum_to_one(caps, seed):
    cap_K = np.array(caps) / min(1, sum(caps))
    draw = MixtureDistribution(np.full(len(caps), 1 / len(caps)), cap_K)
    drawn_NxK = draw.mixtures(20, seed)
    assert (drawn_NxK <= cap_K + 1e-9).all()
    np.testing.assert_allclose(drawn_NxK.sum(axis=1), 1)


def test_a_d_optimal_design_of_three_runs_goes_to_the_corners():
    # |X'X| of three mixtures is largest for the identity.
    chosen_NxK = propose_mixtures("d-optimal", 3, FREE, NOTHING)
    assert sorted(chosen_NxK.argmax(axis=1).tolist()) == [0, 1, 2]
    assert chosen_NxK.max(axis=1).min() > 0.9
    # Nine runs go to each of them equally often: what is chosen counts like what is trained.
    nine_NxK = propose_mixtures("d-optimal", 9, FREE, NOTHING)
    assert np.bincount(nine_NxK.argmax(axis=1)).tolist() == [3, 3, 3]
    # Where two corners are trained, the third is next.
    (next_K,) = propose_mixtures("d-optimal", 1, FREE, np.eye(3)[:2])
    assert next_K.argmax() == 2
    again, other = (propose_mixtures("d-optimal", 3, FREE, NOTHING, seed=seed) for seed in (0, 1))
    assert np.array_equal(again, chosen_NxK)
    assert not np.array_equal(other, chosen_NxK)


def test_what_runs_show_by_hand():
    # Optima (1, 0) and (0, 1), each trained 4 times with noise 0.1: a coefficient's standard error
    # is 0.1 / 2; of (s_1 - s_2) / 2 it is 0.1 / 2 / sqrt 2.
    trained = np.repeat(np.eye(2), 4, axis=0)
    shown = smallest_visible_loss_difference(np.eye(2), trained, 0.1)
    assert shown == pytest.approx(1.96 * 0.05 / 2**0.5, rel=1e-3)
    assert smallest_visible_loss_difference(
        np.eye(2), np.concatenate([trained] * 4), 0.1
    ) == pytest.approx(shown / 2, rel=1e-3)


def optimum_of(runs):
    return MixingLaw(kl=0, starts=2).fit(Swarm(DOMAINS, runs)).optimum()


def regrets_after(seed):
    """True loss above the lowest of the law's optimum, after six more runs by each design."""
    random, runs = np.random.default_rng(seed), proxies(10, noise=0.05, seed=seed)
    draws = [[runs[n] for n in random.integers(0, 10, 10)] for _ in range(8)]
    optimum_SxK = np.array([optimum_of(drawn) for drawn in draws])
    noise_NxK = random.normal(0, 0.05, (6, 3))
    result = {}
    for kind in ("dirichlet", "d-optimal", "informative"):
        trained_NxK = Swarm(DOMAINS, runs).weights_and_losses()[0]
        new_NxK = propose_mixtures(kind, 6, FREE, trained_NxK, optimum_SxK, seed=seed)
        assert len(np.unique(new_NxK, axis=0)) == 6
        loss_NxK = LAWS.losses(new_NxK) + noise_NxK
        new = [
            Proxy(f"new{n}", weights_K=w, loss_K=loss)
            for n, (w, loss) in enumerate(zip(new_NxK, loss_NxK, strict=True))
        ]
        weights_K = optimum_of([*runs, *new])
        result[kind] = float(LAWS.losses(weights_K[None]).mean() - optimum()[1])
    return result


@pytest.mark.slow
def test_runs_that_were_designed_are_worth_more_than_runs_that_were_drawn():
    # Over 24 seeds 0.0004 and 0.0011 nats were left, of drawn ones 0.0023.
    regrets = [regrets_after(seed) for seed in range(8)]
    mean = {kind: np.mean([regret[kind] for regret in regrets]) for kind in regrets[0]}
    assert mean["d-optimal"] < 0.6 * mean["dirichlet"]
    assert mean["informative"] < 0.8 * mean["dirichlet"]


def test_designs_that_cannot_be_made_are_refused(said):
    with pytest.raises(InputError, match="needs a table and --target"):
        propose_mixtures("informative", 2, FREE, NOTHING)
    with pytest.raises(InputError, match=r"the caps sum to 0\.9"):
        MixtureDistribution(np.full(3, 1 / 3), np.full(3, 0.3)).mixtures(2, 0)
    command = ["design", "--count", "3"]
    assert "--domains: name two at least" in said(*command, code=2)
    command += ["--domains", "a", "b"]
    for options, told in (
        (["--cap", "c=1"], "--cap: 'c' is unknown"),
        (["--cap", "a=-.1"], "--cap: a=-0.1 must not be negative"),
        (["--concentration", "0"], "--concentration: must be a finite number above 0"),
        (["--seed", "-1"], "--seed: must not be negative"),
        (["--phases", "0.8", "0.2"], "--phases: a design is of one mixture"),
    ):
        assert told in said(*command, *options, code=2)
    told = "--domains takes every word behind it, 's.csv' too: type the table first"
    assert told in said(*command, "s.csv", code=2)
    assert "--domains: a b a: name each domain once" in said(*command, "a", code=2)
    with pytest.raises(InputError, match="2001 mixtures cannot be chosen among 2000 candidates"):
        propose_mixtures("d-optimal", 2001, FREE, NOTHING)


def test_the_command_prints_a_table_that_fit_reads(said):
    command = ["design", "--domains", "en", "de", "--count", "4", "--cap", "en=0.4"]
    header, *rows = said(*command).split()
    assert header == "weight/en,weight/de"
    weights = [[float(value) for value in row.split(",")] for row in rows]
    assert len(weights) == 4
    assert all(en <= 0.4 and en + de == pytest.approx(1, abs=1e-5) for en, de in weights)


@pytest.mark.slow
def test_a_saved_predictor_says_the_same_and_warns_when_it_extrapolates(
    said, write, tmp_path, capsys
):
    saved = tmp_path / "predictor.json"
    rows = [[*run.weights_K.tolist(), *run.loss_K.tolist()] for run in proxies(24, noise=0.01)]
    path = write([f"weight/{d}" for d in DOMAINS] + [f"loss/{d}" for d in DOMAINS], rows)
    for finder in ("mixing-law", "regmix"):
        command = ["fit", finder, path, "--target", *DOMAINS, "--resamples", "3"]
        found = json.loads(said(*command, "--test", path, "--save", saved, "--format", "json"))
        assert found["test"]["spearman"]["value"] > 0.9
        assert found["gain"]["low"] <= found["gain"]["high"]
        mixture = [f"{name}={weight!r}" for name, weight in found["mixture"].items()]
        predicted = json.loads(said("predict", saved, "--format", "json", "--mixture", *mixture))
        assert predicted["loss"] == predicted["loss_of_optimum"]
        assert predicted["loss"] == pytest.approx(found["diagnostics"]["predicted_loss"], abs=1e-12)
        told = said("predict", saved, "--mixture", "code=3")
        assert told.startswith("mixture, as shares: code 1\n")
        assert "WARNING: the mixture lies outside" in told
    assert "--save: " in said(*command, "--save", tmp_path / "none" / "x.json", code=2)
    record = json.loads(saved.read_text())
    del record["settings"], record["phases"]
    saved.write_text(json.dumps(record))
    assert "is not whole ('settings'): make it anew" in said(
        "predict", saved, "--mixture", "code=1", code=2
    )
    command = ["design", str(path), "--count", "2", "--kind", "informative", "--target", *DOMAINS]
    assert main(command) == 0
    printed = capsys.readouterr()
    _, first, _ = printed.out.splitlines()
    assert printed.err.startswith("differences between possible optima that a fit sees: ")
    assert np.abs(np.array(first.split(","), dtype=float) - optimum()[0]).max() < 1


@pytest.fixture(scope="module")
def record():
    """What a file holds of a mixing law that was fitted."""
    swarm, finder = Swarm(DOMAINS, proxies(24, noise=0.01)), MixingLaw(starts=1)
    return saved_predictors.predictor_record("mixing-law", finder, swarm, finder.find(swarm))


@pytest.mark.slow
@effort(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_edit_of_a_saved_predictor_ends_in_a_traceback(record, tmp_path, data):
    saved_to = tmp_path / "law.json"
    # A change of one number among many may leave a predictor, which then predicts a number.
    saved_to.write_text(data.draw(edited(record)), encoding="utf-8")
    asked = Namespace(predictor=saved_to, mixture=[f"{DOMAINS[0]}=1"], format="text")
    with contextlib.suppress(InputError):
        assert "predicted loss: " in fit_command.predicted_loss_text(asked)


@pytest.mark.parametrize("phases", [[0], [-1], [1e999], [float("nan")]])
def test_a_saved_predictor_has_phases_of_positive_length(record, tmp_path, phases):
    (tmp_path / "law.json").write_text(json.dumps(record | {"phases": phases}), encoding="utf-8")
    with pytest.raises(InputError, match=r"is not whole|cannot be read"):
        saved_predictors.load_predictor(tmp_path / "law.json")


def test_several_targets_are_fitted_each_by_itself(said, write, tmp_path):
    path = write(["weight/a", "weight/b", "loss/x", "loss/y"], [[1, 0, 1, 4], [0, 1, 2, 2]])
    saved, command = tmp_path / "p", ["fit", "best", path, "--resamples", "0", "--target", "x"]
    both = [*command, "--target", "y"]
    first, second = json.loads(said(*both, "--format", "json"))["targets"]
    assert first["mixture"] == {"a": 1, "b": 0}
    assert second["mixture"] == {"a": 0, "b": 1}
    assert "--save: a file holds one predictor" in said(*both, "--save", saved, code=2)
    assert "'best' predicts no losses" in said(*command, "--save", saved, code=2)
    saved.write_text("{}")
    assert "is no saved predictor" in said("predict", saved, "--mixture", "a=1", code=2)


def test_an_old_mixture_is_reused(said):
    old = ["reuse", "--old", "code=0.5", "prose=0.3", "web=0.2", "--changed", "web"]
    assert json.loads(said(*old)) == pytest.approx({"code": 5 / 8, "prose": 3 / 8})
    expected = {"code": 0.25, "prose": 0.15, "web": 0.35, "maths": 0.25}
    new = ["--new", "old=0.4", "web=0.35", "maths=0.25"]
    assert json.loads(said(*old, *new)) == pytest.approx(expected)
    assert said(*old, "--new", "old=.4", *new[2:]) == said(*old, *new)
    assert "--new: old=half is no finite number" in said(*old, "--new", "old=half", code=2)


def test_a_domain_that_no_run_reads_is_left_out_and_named(said, write):
    rows = [[*run.weights_K.tolist(), 0, *run.loss_K.tolist()] for run in proxies(24)]
    header = [f"weight/{d}" for d in (*DOMAINS, "unseen")] + [f"loss/{d}" for d in DOMAINS]
    path = write(header, rows)
    test = write(header, [[0.5, 0, 0.25, 0.25, 1, 1, 1], *rows[:4]], "test.csv")
    command = ["fit", "mixing-law", path, "--target", *DOMAINS, "--resamples", "0", "--test"]
    found = json.loads(said(*command, path, "--format", "json"))
    assert list(found["mixture"]) == list(DOMAINS)
    assert found["warnings"][0] == "no row reads 'unseen': it gets no weight, unseen"
    assert found["test"]["spearman"]["value"] > 0.99
    assert "its runs read unseen, but no run of the fit does" in said(*command, test, code=2)
    # Settings may name it all the same: without it this is the prior of equal weights.
    prior = json.dumps(dict.fromkeys(DOMAINS, 1) | {"unseen": 5})
    assert said(*command, path, "--set", f"prior={prior}") == said(*command, path)


def test_a_design_has_a_place_for_a_domain_that_no_run_reads_yet(write, capsys):
    # Three mixtures of a and b; of a new domain nothing is known, and d-optimal runs try it.
    rows = [[1, 0, 0, 1.0], [0, 1, 0, 2.0], [0.5, 0.5, 0, 1.5]]
    path = write(["weight/a", "weight/b", "weight/new", "loss/x"], rows)
    command = ["design", str(path), "--target", "x", "--finder", "best", "--count", "1"]
    assert main([*command, "--cap", "new=0.25"]) == 0
    printed = capsys.readouterr()
    header, row = printed.out.splitlines()
    assert header == "weight/a,weight/b,weight/new"
    assert float(row.split(",")[2]) == 0.25
    assert printed.err == "no row reads 'new': the fit gives it no weight, unseen\n"
