import math

import numpy as np
from arrays import assert_close, observed, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.interface import Signals
from pike_mixing.rules.r_and_b import RAndB, alignment_weights

DOMAINS = ("code", "prose")


def batch(step, gram, count=(2, 2)):
    gram_KxK = np.array(gram, dtype=float)
    loss_K = np.where(np.isnan(gram_KxK.diagonal()), np.nan, 1.0)
    return Signals(step, sum(count), count_K=np.array(count), loss_K=loss_K, gram_KxK=gram_KxK)


def after(method, *batches):
    return method.weights(observed(method, *batches, domains=DOMAINS), len(batches))


def test_a_round_by_hand():
    # G p = (4, 1) / 2 + (1, 2) / 2 = (2.5, 1.5) in the mean, of length sqrt(8.5): the odds are
    # exp(strength (2.5 - 1.5) / sqrt(8.5)).
    method = RAndB(strength=math.log(3) * 8.5**0.5, every=2)
    gram_2x2 = np.array([[4, 1], [1, 2]])
    assert_close(after(method, batch(0, gram_2x2)), vector(0.5, 0.5))
    found_K = after(method, batch(0, gram_2x2 + 1), batch(1, gram_2x2 - 1))
    assert_close(found_K, vector(0.75, 0.25))


def test_products_count_by_rows_and_a_round_forgets_the_last():
    # 1 of 3 and 3 of 1 rows: the diagonals are means by 1 : 9 and by 9 : 1, products by 3 : 3.
    method = RAndB(every=2)
    first, second = np.array([[10.0, 2], [2, 10]]), np.array([[20.0, 4], [4, 20]])
    mean_2x2 = np.array([[19, 3], [3, 11]])
    expected_K = alignment_weights(mean_2x2, vector(0.5, 0.5), 3)
    round_2 = [batch(2, first, (1, 3)), batch(3, second, (3, 1))]
    assert_close(after(method, *round_2), expected_K)
    assert_close(
        after(method, batch(0, second), batch(1, second[::-1, ::-1]), *round_2), expected_K
    )


def test_the_target_decides_what_agreement_is_with():
    method = RAndB(every=1, target={"code": 0, "prose": 2})
    # G p is the column of prose, (-3, 4): (-0.6, 0.8) of length 1.
    odds = math.exp(3 * (0.8 + 0.6))
    assert_close(after(method, batch(0, [[9, -3], [-3, 4]])), np.array([1, odds]) / (1 + odds))


def test_a_domain_absent_for_a_round_keeps_its_weight():
    gram = [[9, math.nan], [math.nan, math.nan]]
    assert_close(after(RAndB(every=1), batch(0, gram, (4, 0))), vector(0.5, 0.5))


def test_a_round_without_any_gradient_keeps_the_weights():
    method = RAndB(every=1)
    moved = method.init(DOMAINS, 0) | {"weights_K": vector(0.9, 0.1)}
    state = method.observe(moved, batch(0, np.zeros((2, 2))))
    assert state["weights_K"].tolist() == [0.9, 0.1]


def test_gradients_of_zero_make_equal_weights():
    assert_close(alignment_weights(np.zeros((2, 2)), vector(0.5, 0.5), 3), vector(0.5, 0.5))


@effort(max_examples=25)
@given(st.integers(0, 10**6), st.integers(-300, 300))
def test_no_scale_of_the_gradients_matters_and_odds_are_bounded(seed, power):
    gradient_KxP = np.random.default_rng(seed).normal(size=(4, 9))
    gram_KxK = gradient_KxP @ gradient_KxP.T
    weights_K = alignment_weights(gram_KxK, np.full(4, 0.25), 3)
    assert_close(alignment_weights(gram_KxK * 2.0**power, np.full(4, 0.25), 3), weights_K)
    assert weights_K.max() / weights_K.min() <= math.exp(6) * (1 + 1e-9)
