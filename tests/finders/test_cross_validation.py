"""How well fits predict runs that they have not seen, and how predictions are scored."""

import dataclasses

import known_law
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.errors import InputError
from pike_mixing.finders import (
    build_finder,
    conformal_intervals,
    cross_validation,
    prediction_scores,
)
from pike_mixing.finders.fit import fit
from pike_mixing.finders.interface import Swarm


@given(st.integers(2, 60), st.integers(2, 12), st.integers(0, 5))
def test_every_proxy_is_held_out_once(runs, count, seed):
    parts = cross_validation.make_folds(np.eye(runs), count, seed)
    assert len(parts) == min(runs, count)
    assert sorted(np.concatenate([part for _, part in parts])) == list(range(runs))
    for rest, part in parts:
        assert sorted([*rest, *part]) == list(range(runs))
        assert abs(len(part) - runs / len(parts)) < 1


def test_folds_follow_the_seed():
    first, again, other = (
        cross_validation.make_folds(np.eye(20), 5, seed)[0][1].tolist() for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_all_runs_of_a_mixture_are_held_out_together():
    # Runs 0 and 2 are of one mixture, 1 and 4 of another: three mixtures make three parts.
    weights_NxK = np.array([[0.7, 0.3], [0.5, 0.5], [0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])
    assert cross_validation.mixture_of_each_run(weights_NxK).tolist() == [0, 1, 0, 2, 1]
    parts = cross_validation.make_folds(weights_NxK, 10, 0)
    assert sorted(part.tolist() for _, part in parts) == [[0, 2], [1, 4], [3]]


def test_scores_by_hand():
    actual, predicted = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])
    # Squared rank differences 0, 1, 1: 1 - 6 * 2 / (3 * 8).
    assert cross_validation.spearman(predicted, actual) == pytest.approx(0.5)
    # Errors 0, 1, -1 against a spread of 1 + 0 + 1.
    assert cross_validation.r_squared(predicted, actual) == pytest.approx(0)
    assert cross_validation.rmse(predicted, actual) == pytest.approx(np.sqrt(2 / 3))
    # Constants have no correlation.
    assert cross_validation.spearman(np.ones(3), actual) is None
    assert cross_validation.spearman(actual, np.ones(3)) is None
    assert cross_validation.r_squared(actual, np.ones(3)) is None


def test_the_quantile_of_scores_by_hand():
    # Of 9 mixtures the 9th score, of 19 the 18th; of 8 none is high enough for 90 %.
    assert conformal_intervals.score_quantile(np.arange(9.0), 9) == 8
    assert conformal_intervals.score_quantile(np.arange(19.0), 19) == 17
    assert conformal_intervals.score_quantile(np.arange(8.0), 8) == np.inf
    # Two runs each of 19 mixtures: the 36th of 38.
    assert conformal_intervals.score_quantile(np.arange(38.0), 19) == 35


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixing-law", "scheffe", "gaussian-process", "exposure-law"])
def test_intervals_hold_nine_of_ten_new_runs_and_say_so(name):
    text_K = np.array([500.0, 1000, 4000])
    covered, told = [], []
    for seed in range(6):
        runs = [
            dataclasses.replace(run, tokens=1000.0, available_K=text_K)
            for run in known_law.proxies(264, noise=0.05, seed=seed)
        ]
        train = Swarm(known_law.DOMAINS, runs[:64])
        weights_NxK, loss_NxM = Swarm(known_law.DOMAINS, runs[64:]).weights_and_losses()
        found = fit(build_finder.build_finder(name, {}, "here"), train, resamples=0)
        predictor = found.result.predictor
        error_N = np.abs(predictor.losses(weights_NxK) - loss_NxM.mean(axis=1))
        covered.append(error_N <= found.intervals.half_widths(predictor, weights_NxK))
        told.append(found.intervals.coverage)
    assert 0.86 < np.mean(covered) < 0.95
    assert 0.85 < np.mean(told) < 0.95


def test_scores_of_predictions_by_hand():
    # Ranks 1, 2, 3, 4 and 2, 1, 3, 4: 1 - 6 (1 + 1) / (4 * 15) = 0.8. The first is predicted best
    # and costs 2 - 1; the mean is 3. Slope: sum (x - 2.5) y / 5 with y = 2, 1, 4, 5.
    predicted, actual = np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 4, 5])
    result = prediction_scores.score_predictions(predicted, actual, resamples=200)
    assert result["spearman"]["value"] == pytest.approx(0.8)
    assert (result["regret"]["value"], result["worth"]["value"]) == (1, 1)
    assert result["regret_of_chance"] == 2
    assert result["slope"]["value"] == pytest.approx((-1.5 * 2 - 0.5 * 1 + 0.5 * 4 + 1.5 * 5) / 5)
    assert result["spearman"]["low"] <= 0.8 <= result["spearman"]["high"]
    assert result["runs"] == 4
    # The first two tie: ranks 1.5, 1.5, 3, 4 and 2, 3, 1, 4, 1.5 / sqrt(4.5 * 5); they cost 2 - 0.
    tied = prediction_scores.score_predictions(np.array([1.0, 1, 2, 3]), np.array([1.0, 3, 0, 5]))
    assert tied["spearman"]["value"] == pytest.approx(1.5 / 22.5**0.5)
    assert tied["regret"]["value"] == 2


def test_the_interval_covers_the_correlation_of_the_population():
    # Of bivariate normal numbers with correlation 0.8, Spearman's is 6 asin(0.4) / pi = 0.786.
    random, held = np.random.default_rng(1), 0
    for seed in range(60):
        pair = random.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 60)
        interval = prediction_scores.score_predictions(*pair.T, resamples=300, seed=seed)[
            "spearman"
        ]
        held += interval["low"] <= 6 * np.arcsin(0.4) / np.pi <= interval["high"]
    assert held >= 51


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(InputError, match="2 runs are too few"):
        prediction_scores.score_predictions(np.arange(2.0), np.arange(2.0))
    with pytest.raises(InputError, match="are equal: nothing to judge"):
        prediction_scores.score_predictions(np.ones(4), np.arange(4.0))
