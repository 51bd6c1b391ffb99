import math

import numpy as np
import pytest
from arrays import assert_close, observed, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.interface import Signals, Statistics
from pike_mixing.rules.dga import DGA, aligned
from pike_mixing.rules.pike import PiKE

DOMAINS = ("code", "prose", "target")
THIRD = {"code": 0, "prose": 0, "target": 1}


def estimate(gram, noise=0.0, step=0):
    """Signals of an estimate whose squared norms hold so much noise."""
    gram_KxK = np.array(gram, dtype=float)
    plug_in_K = gram_KxK.diagonal()
    ones_K = np.ones(len(plug_in_K))
    measured = Statistics(plug_in_K, plug_in_K - noise, 4 * noise * ones_K, ones_K, 4 * ones_K)
    return Signals(step, 8, statistics=measured, gram_KxK=gram_KxK)


def after(method, *seen):
    return method.weights(observed(method, *seen, domains=DOMAINS), len(seen))


def test_an_update_by_hand():
    # a = (2, 1, 4) = the column of the target; exp(ln 2 a) = (4, 2, 16) of 22.
    gram = [[9, 0, 2], [0, 9, 1], [2, 1, 4]]
    method = DGA(target=THIRD, rate=math.log(2), normalise=False)
    assert_close(after(method, estimate(gram)), np.array([4, 2, 16]) / 22)
    # The target itself is only measured: 4 : 2, and after a second update 16 : 4.
    only = {"code": 1, "prose": 1, "target": 0}
    method = DGA(target=THIRD, rate=math.log(2), normalise=False, prior=only)
    assert_close(after(method, estimate(gram)), np.array([4, 2, 0]) / 6)
    assert_close(after(method, estimate(gram), estimate(gram)), np.array([16, 4, 0]) / 20)


def test_the_noise_of_a_gradient_with_itself_does_not_count():
    # a = 5 - 3, 1 + 0, 2 + 0 with the first domain as the target.
    method = DGA(target=dict(zip(DOMAINS, (1, 0, 0), strict=True)), normalise=False)
    found_K = after(method, estimate([[5, 1, 2], [1, 9, 0], [2, 0, 9]], noise=3))
    assert_close(found_K, np.exp([2, 1, 2]) / np.exp([2, 1, 2]).sum())


def test_alignments_are_those_of_independent_rows_on_average():
    # Four rows of each domain, with a noise of 1 in each of 5 directions; true g . g_T by hand.
    true_KxP = np.array([[1, 0, 0, 0, 0], [0.5, 1, 0, 0, 0], [0, 0, 2, 0, 0]])
    target_K = vector(0.5, 0.5, 0)
    expected_K = vector(0.75, 0.875, 0)
    draw, found = np.random.default_rng(0), []
    for _ in range(4000):
        rows = [g + draw.normal(size=(4, 5)) for g in true_KxP]
        measured = Statistics.of_rows(rows, [np.ones(4)] * 3)
        mean_KxP = np.stack([r.mean(axis=0) for r in rows])
        unbiased_K = measured.squared_norm_unbiased_K
        found.append(aligned(mean_KxP @ mean_KxP.T, unbiased_K, target_K, normalise=False))
    error_K = np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - expected_K) < 4 * error_K).all()
    # Were the noise left in, the first two would be 5 / 4 / 2 higher.
    assert error_K.max() < 0.1


def test_the_served_weights_are_an_average_of_the_updates():
    gram = [[9, 0, 2], [0, 9, 1], [2, 1, 4]]
    method = DGA(target=THIRD, rate=math.log(2), normalise=False, new_share=0.25)
    once_K, twice_K = np.array([4, 2, 16]) / 22, np.array([16, 4, 256]) / 276
    first_K = 0.75 / 3 + 0.25 * once_K
    assert_close(after(method, estimate(gram)), first_K)
    expected_K = 0.75 * first_K + 0.25 * twice_K
    assert_close(after(method, estimate(gram), estimate(gram)), expected_K)


def test_normalised_alignments_have_no_unit():
    # Lengths 3, 3, 2, of which the mean is 8/3; |g_T| = 2: (2, 1, 4) / (16/3).
    gram = np.array([[9, 0, 2], [0, 9, 1], [2, 1, 4]])
    expected_K = np.exp(np.array([2, 1, 4]) * 3 / 16)
    for scale in (1, 1e-6, 1e8):
        found_K = after(DGA(target=THIRD), estimate(scale * gram))
        assert_close(found_K, expected_K / expected_K.sum())


def test_with_orthogonal_gradients_and_an_equal_target_it_is_pike_without_its_variance():
    measured = estimate(np.diag([9, 4, 1]), noise=0.5)
    pike = PiKE(zeta1=0.1, zeta2=0)
    state = pike.observe(pike.init(DOMAINS, 0), measured)
    # The target's weight of each domain is 1/3.
    found_K = after(DGA(rate=0.3, normalise=False), measured)
    assert_close(found_K, pike.weights(state, 1))


def test_nothing_measured_of_the_target_moves_nothing():
    gram = np.array([[9, 0, math.nan], [0, 9, math.nan], [math.nan] * 3])
    assert_close(after(DGA(target=THIRD), estimate(gram)), np.full(3, 1 / 3))
    assert_close(after(DGA(), Signals(0, 8, count_K=np.array([4, 4, 0]))), np.full(3, 1 / 3))


@pytest.mark.parametrize(("normalise", "rate"), [(True, 0.02), (False, 0.5)])
@pytest.mark.parametrize("aim", [0.25, 0.9])
def test_training_reaches_a_target_that_no_domain_has(aim, normalise, rate):
    # Losses (x - c)^2 / 2 with c = 0, 1 and, measured only, the aim: rows of the first two lead to
    # the aim where their shares are 1 - aim and aim. Mix stays at 1/2.
    centre_K = np.array([0, 1, aim])
    prior = {"code": 1, "prose": 1, "target": 0}
    method = DGA(target=THIRD, rate=rate, normalise=normalise, every=1, prior=prior)
    state, x = method.init(DOMAINS, 0), 0.5
    for step in range(4000):
        gradient_K = x - centre_K
        state = method.observe(state, estimate(np.outer(gradient_K, gradient_K), step=step))
        x -= 0.05 * float(method.weights(state, step) @ gradient_K)
    assert x == pytest.approx(aim, abs=0.01)
    assert_close(method.weights(state, 0), np.array([1 - aim, aim, 0]), atol=0.03)


@effort(max_examples=50)
@given(
    st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=3, max_size=3),
    st.floats(0.01, 10),
)
def test_normalised_alignments_change_no_odds_by_more_than_their_bound(rows, rate):
    # |a_k| <= |g_k| / mean_j |g_j| <= K.
    gradient_KxP = np.array(rows)
    found_K = after(DGA(rate=rate), estimate(gradient_KxP @ gradient_KxP.T))
    assert found_K.sum() == pytest.approx(1)
    log_odds = np.ptp(np.log(np.maximum(found_K, 1e-300)))
    assert log_odds <= 2 * 3 * rate + 1e-9
