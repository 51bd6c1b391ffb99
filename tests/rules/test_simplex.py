import itertools

import numpy as np
import pytest
from arrays import vector
from hypothesis import example, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.numerics.simplex import RIDGE, lowest_point

some = effort(max_examples=25)


def gradients(seed, P, D, spread=0.0):
    generator = np.random.default_rng(seed)
    length_P = 10 ** (spread * generator.random((P, 1)))
    return generator.standard_normal((P, D)) * length_P


def value(linear_P, c, gram_PxP, weights_NxP):
    squared_N = np.einsum("np,pq,nq->n", weights_NxP, gram_PxP, weights_NxP)
    return weights_NxP @ linear_P + c * np.sqrt(squared_N.clip(min=0))


def grid(P, n):
    """All weights that are multiples of 1 / n."""
    bars = itertools.combinations(range(n + P - 1), P - 1)
    cuts = np.array([(-1, *bar, n + P - 1) for bar in bars])
    return (np.diff(cuts, axis=1) - 1) / n


def test_the_linear_part_moves_the_weights():
    # Orthogonal unit gradients: at w = (0, 1) the slopes of b . w + |g_w| are 0 and -2 + 1.
    assert lowest_point(vector(0, -2), 1.0, np.eye(2)).weights_P.tolist() == [0, 1]
    # b = (0, -1/5) keeps both: w1 / |g_w| = -1/5 + w2 / |g_w|, so w2 - w1 = |g_w| / 5.
    point = lowest_point(vector(0, -0.2), 1.0, np.eye(2))
    difference = float(point.weights_P[1] - point.weights_P[0])
    assert difference == pytest.approx(point.length / 5, rel=1e-8)


def test_equally_good_weights_come_out_even():
    for P in (2, 3, 6):
        point = lowest_point(np.zeros(P), 1.0, np.full((P, P), 9.0))
        assert point.weights_P.tolist() == pytest.approx([1 / P] * P, abs=1e-5)
        assert point.length == pytest.approx(3)


def test_opposite_gradients_cancel():
    gradient_PxD = vector(1, -2, 0.5)[:, None]
    point = lowest_point(np.zeros(3), 1.0, gradient_PxD @ gradient_PxD.T)
    assert (point.weights_P @ gradient_PxD).item() == pytest.approx(0, abs=1e-9)
    assert 0 < point.length < 1e-4
    assert point.optimal


@pytest.mark.parametrize("tilt", [0.0, 0.4, -0.6])
@some
@given(st.integers(0, 2**31), st.sampled_from([(2, 400), (3, 50)]), st.integers(1, 4))
@example(1309, (3, 50), 1)
def test_no_weights_of_a_fine_grid_are_lower(tilt, seed, size, D):
    P, n = size
    gradient_PxD = gradients(seed, P, D)
    gram_PxP, linear_P = gradient_PxD @ gradient_PxD.T, tilt * gradient_PxD[:, 0]
    point = lowest_point(linear_P, 1.0, gram_PxP)
    found = value(linear_P, 1.0, gram_PxP, point.weights_P[None]).item()
    lowest_of_grid = value(linear_P, 1.0, gram_PxP, grid(P, n)).min().item()
    longest = gram_PxP.diagonal().max() ** 0.5
    # The ridge lengthens g_w by at most its root: where gradients cancel, that shows.
    assert found <= lowest_of_grid + RIDGE**0.5 * longest
    # The grid's nearest point is off by less than P / n in weights.
    assert lowest_of_grid <= found + (1 + abs(tilt)) * longest * P / n


@some
@given(st.integers(0, 2**31), st.integers(1, 24), st.integers(1, 30), st.floats(0, 4))
def test_the_search_ends_at_the_optimum(seed, P, D, spread):
    gradient_PxD = 100 * gradients(seed, P, D, spread)
    gram_PxP = gradient_PxD @ gradient_PxD.T
    for tilt in (0.0, 0.4, 2.0):
        point = lowest_point(tilt * gradient_PxD[:, 0], 1.0, gram_PxP)
        assert point.optimal
        assert point.weights_P.min() >= 0
        assert point.weights_P.sum().item() == pytest.approx(1)


def test_a_search_cut_off_says_so():
    # A matrix that is no Gramian: a cosine of -2 makes the function fall without end.
    point = lowest_point(vector(0, 0), 1.0, vector(1, -2, -2, 1).reshape(2, 2))
    assert not point.optimal
