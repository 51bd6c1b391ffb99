import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders import mixmin

VECTORS = Path(__file__).parent / "vectors"


def test_shares_of_domains_that_do_not_overlap_are_those_of_the_target():
    # Each example has probability 0.5 under one proxy alone: three of four are of the first.
    log_probability_ExK = np.log(np.array([[0.5, 0], [0.5, 0], [0, 0.5], [0.5, 0]]) + 1e-300)
    found = mixmin.find_weights(log_probability_ExK)
    assert_allclose(found.weights_K, [0.75, 0.25], rtol=1e-6)
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert found.loss == pytest.approx(entropy + np.log(2))


def test_lengths_weigh_examples():
    # Slope of w: sum over examples of 1 / (length w_k); the long one counts half of the short.
    log_probability_ExK = np.log(np.array([[1.0, 1e-300], [1e-300, 1.0]]))
    found = mixmin.find_weights(log_probability_ExK, np.array([1.0, 2.0]))
    assert_allclose(found.weights_K, [2 / 3, 1 / 3], rtol=1e-6)


def test_a_proxy_that_is_best_everywhere_takes_all():
    found = mixmin.find_weights(np.log(np.array([[0.9, 0.1, 0.2], [0.8, 0.3, 0.7]])))
    assert found.weights_K[0] > 0.999
    assert found.loss == pytest.approx(-np.log(0.9 * 0.8) / 2, abs=1e-6)


def test_the_minimum_is_that_of_the_authors_code():
    """The recorded descent of Anvith-Thudi/MixMin (7212abe), `LLM_DataMixing/mixmin_gen.py`."""
    recorded = json.loads((VECTORS / "mixmin.json").read_text())
    log_probability_ExK = np.array(recorded["log_probability_ExK"])
    found = mixmin.find_weights(log_probability_ExK, np.array(recorded["length_E"]), tolerance=1e-9)
    assert found.loss == pytest.approx(recorded["loss"], abs=1e-8)
    assert_allclose(found.weights_K, recorded["weights_K"], atol=1e-4)
    uniform = mixmin.find_weights(log_probability_ExK, np.array(recorded["length_E"]), tolerance=9)
    assert uniform.loss == pytest.approx(recorded["loss_uniform"])


@effort(max_examples=20)
@given(st.integers(0, 10**6))
def test_no_mixture_is_better_than_the_gap_allows(seed):
    random = np.random.default_rng(seed)
    log_probability_ExK = -random.exponential(3, (30, 4))
    found = mixmin.find_weights(log_probability_ExK, tolerance=1e-3)
    assert found.gap <= 1e-3
    others_S = mixmin.mixture_losses(log_probability_ExK, random.dirichlet(np.ones(4), 200))
    assert found.loss <= others_S.min() + found.gap


def test_losses_of_mixed_predictions_by_hand():
    # Equal weights: means of (0.8, 0.2) and (0.1, 0.5); the first alone: 0.8 and 0.1.
    log_probability_ExK = np.log(np.array([[0.8, 0.2], [0.1, 0.5]]))
    found_S = mixmin.mixture_losses(log_probability_ExK, np.array([[0.5, 0.5], [1.0, 0.0]]))
    assert_allclose(found_S, [-np.log(0.5 * 0.3) / 2, -np.log(0.8 * 0.1) / 2])


def test_very_small_probabilities_are_no_zeros():
    found = mixmin.find_weights(np.array([[-5000.0, -5001.0], [-4000.0, -3999.0]]))
    assert_allclose(found.weights_K, [0.5, 0.5], atol=1e-4)
    assert np.isfinite(found.loss)


@pytest.mark.parametrize(
    ("log_probability", "changes", "message"),
    [
        ([0.0], {}, "log_probability_ExK: give a finite number"),
        ([[np.nan, 0.0]], {}, "log_probability_ExK: give a finite number"),
        ([[-np.inf, -np.inf]], {}, "no proxy gives example 0 any probability"),
        ([[0.0, 0.0]], {"length_E": np.zeros(1)}, "length_E: give one positive length"),
        ([[0.0, -1.0], [-1.1, 0.0]], {"steps": 2}, "above the minimum after 2 steps"),
    ],
)
def test_what_has_no_answer_is_refused(log_probability, changes, message):
    with pytest.raises(InputError, match=message):
        mixmin.find_weights(np.array(log_probability), **changes)
