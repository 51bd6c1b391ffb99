"""Finders that fit one smooth formula: their equations, optima, records and refusals."""

import dataclasses
import json

import numpy as np
import pytest
from known_law import DOMAINS, LAWS, mixtures, optimum, proxies
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders import build_finder, saved_predictors
from pike_mixing.finders.exposure_law import ExposureLaw, exposure_features
from pike_mixing.finders.interface import Inventory, Proxy, Swarm
from pike_mixing.finders.scheffe import Scheffe, polynomial_terms

TEXT_K = np.array([200.0, 1000.0, 4000.0])


def known(count=40):
    """Runs of 1,000 tokens each whose losses follow an exponential law."""
    runs = [
        dataclasses.replace(run, tokens=1000.0, available_K=TEXT_K)
        for run in proxies(count, noise=0.005)
    ]
    return Swarm(DOMAINS, runs)


def test_equations_by_hand():
    # E = 2, rho = 1/2, p = 1: benefit 1 - 1/e; tau = log 3: softplus(0) = log 2.
    assert_allclose(
        exposure_features(np.array([[2.0]]), 0.5, 1.0, np.log(3)),
        [[1, np.exp(-1) - 1, np.log(2) ** 2]],
    )
    assert polynomial_terms(np.array([[0.5, 0.25, 0.25]])).tolist() == [
        [0.5, 0.25, 0.25, 0.125, 0.125, 0.0625]
    ]
    # Four times w (1 - w) has its highest point of 1 in the middle: so has its fit.
    w = np.linspace(0, 1, 12)
    runs = [
        Proxy(str(n), np.array([x, 1 - x]), np.array([4 * x * (1 - x)])) for n, x in enumerate(w)
    ]
    fitted = Scheffe().fit(Swarm(("a", "b"), runs, ("l",)))
    assert fitted.losses(np.array([[0.5, 0.5]]))[0] == pytest.approx(1, abs=1e-3)
    assert max(fitted.optimum()) == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "error"), [("exposure-law", 0.06), ("scheffe", 0.05), ("gaussian-process", 0.035)]
)
def test_known_losses_are_predicted_and_the_optimum_is_found_again(name, error, tmp_path):
    swarm, finder = known(), build_finder.build_finder(name, {}, "here")
    result = finder.find(swarm)
    new_SxK = mixtures(50, seed=9)
    true_S = LAWS.losses(new_SxK).mean(axis=1)
    predicted_S = result.predictor.losses(new_SxK)
    assert np.sqrt(((predicted_S - true_S) ** 2).mean()) < error
    assert result.diagnostics["held_out_rmse"] < 2 * error
    assert LAWS.losses(result.weights_K[None]).mean() - optimum()[1] < error
    path = tmp_path / "it.json"
    path.write_text(json.dumps(saved_predictors.predictor_record(name, finder, swarm, result)))
    again = saved_predictors.load_predictor(path)
    assert_allclose(again.predictor.losses(new_SxK), predicted_S, rtol=1e-10)
    assert_allclose(again.predictor.optimum(), result.weights_K, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exposure-law", "scheffe", "gaussian-process"])
def test_no_domain_is_read_more_often_than_allowed(name):
    def capped(epochs):
        settings = {"epochs": epochs, "target": {"code": 1, "prose": 0, "talk": 0}}
        return build_finder.build_finder(name, settings, "here").find(known())

    # Once is 200 of 1,000 tokens; a tenth of all text is 520.
    assert capped(1.0).weights_K[0] == pytest.approx(0.2, abs=1e-4)
    with pytest.raises(InputError, match=r"the repetition caps sum to 0\.52, less than a whole"):
        capped(0.1)


def world(count, seed):
    """Runs of 1,000 tokens whose losses depend on epochs alone: they fall to 4, then rise."""
    random = np.random.default_rng(seed)
    weights_NxK = random.dirichlet(np.ones(3), count)
    text_SxK = 1000 / np.exp(random.uniform(np.log(0.3), np.log(30), (count, 3)))
    epochs_NxK = weights_NxK * 1000 / text_SxK
    harm_NxK = np.logaddexp(0, np.log1p(epochs_NxK) - np.log(5)) ** 2
    loss_N = 4 - (1 - np.exp(-np.sqrt(epochs_NxK))).sum(axis=1) + harm_NxK @ [0.5, 0.3, 0.1]
    rows = zip(weights_NxK, loss_N, text_SxK, strict=True)
    runs = [
        Proxy(f"{n:03}", w, np.array([loss]), tokens=1000.0, available_K=text_K)
        for n, (w, loss, text_K) in enumerate(rows)
    ]
    return Swarm(("a", "b", "c"), runs, ("l",))


def test_runs_with_other_inventories_are_predicted_by_their_epochs():
    train, test = world(60, 0), world(40, 1)
    weights_NxK, loss_NxM = test.weights_and_losses()
    fitted = ExposureLaw().fit(train)
    actual_N = loss_NxM[:, 0]
    error = np.abs(fitted.losses(weights_NxK, test.epochs_of_runs()) - actual_N).max()
    assert error < 0.02 < 0.1 * actual_N.std()
    # With the inventories of other domains it is far off.
    swapped = np.roll(test.epochs_of_runs(), 1, axis=1)
    assert np.abs(fitted.losses(weights_NxK, swapped) - actual_N).max() > 5 * error
    # The runs have no inventory in common: one must be named for a mixture.
    with pytest.raises(InputError, match="the finder 'exposure-law' reads epochs"):
        fitted.optimum()
    final = Inventory(1000.0, np.array([10.0, 2000, 2000]))
    found_K = (
        ExposureLaw().fit(Swarm(train.domains, train.runs, train.losses, final=final)).optimum()
    )
    assert found_K[0] < 0.1 < found_K[1:].min()


@pytest.mark.slow
def test_the_interval_is_of_runs_that_read_as_many_epochs(write, said):
    swarm = known(24)
    header = [*(f"weight/{d}" for d in DOMAINS), "loss/l", "tokens"]
    header += [f"available/{d}" for d in DOMAINS]
    rows = [[*r.weights_K, r.loss_K[0], 1000, *TEXT_K] for r in swarm.runs]
    path = write(header, rows)
    for finder, budget, has in (
        ("exposure-law", "1000", True),
        ("exposure-law", "4000", False),
        ("scheffe", "4000", True),
    ):
        ask = ["fit", finder, path, "--target", "l", "--resamples", "0", "--budget", budget]
        text = said(*ask)
        assert ("such intervals held" in text) == has
        assert ("no interval: the mixtures are too few, or the runs read" in text) != has


def test_what_cannot_be_fitted_is_refused():
    few = Swarm(DOMAINS, proxies(9))
    for name in ("exposure-law", "scheffe", "gaussian-process"):
        with pytest.raises(InputError, match="at least 10 are needed: a formula"):
            build_finder.build_finder(name, {}, "here").fit(few)
    with pytest.raises(InputError, match="reads epochs: give the table columns"):
        ExposureLaw().fit(Swarm(DOMAINS, proxies(12)))
    with pytest.raises(InputError, match="knows no phases: use 'mixing-law'"):
        Scheffe().fit(Swarm(("0/a", "1/a"), proxies(12), phases=(1.0, 1.0)))
