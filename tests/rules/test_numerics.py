"""Arithmetic that rules share: the lowest point of a simplex, scaling laws."""

import itertools
import math

import numpy as np
import pytest
from arrays import assert_close, vector
from hypothesis import example, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.numerics import laws
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


def test_opposite_gradients_cancel():
    gradient_PxD = vector(1, -2, 0.5)[:, None]
    point = lowest_point(np.zeros(3), 1.0, gradient_PxD @ gradient_PxD.T)
    assert (point.weights_P @ gradient_PxD).item() == pytest.approx(0, abs=1e-9)
    assert 0 < point.length < 1e-4
    assert point.is_optimal


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
        assert point.is_optimal
        assert point.weights_P.min() >= 0
        assert point.weights_P.sum().item() == pytest.approx(1)


LAWS = [
    [2.0, 0.6, 0.3],
    [5.0, 1.2, 0.5],
    [1.0, 0.7, 0.1],
    [3.0, 0.9, 0.2],
    [0.5, 1.5, 0.05],
    [6.0, 0.55, 0.7],
]
"""a, c and alpha of six domains, within the bounds."""


def law(*parameters):
    return np.array([parameters], dtype=np.float64)


def losses(law_Kx3, rows_T):
    a_K, c_K, alpha_K = law_Kx3.T
    return np.exp(c_K) + np.exp(a_K) * rows_T[:, None] ** -alpha_K


def rows(first, last, stride=10, b=256):
    return b * (np.arange(first, last, stride) + 1)


@pytest.mark.parametrize("steps", [(500, 10_500), (50, 800)])
def test_exact_laws_of_six_domains_are_found_to_four_digits(steps):
    truth_Kx3, rows_T = np.array(LAWS, dtype=np.float64), rows(*steps)
    found_Kx3 = laws.fit_laws(rows_T, losses(truth_Kx3, rows_T), 0.5)
    assert_close(found_Kx3, truth_Kx3, rtol=1e-4, atol=0)


def test_a_few_wild_losses_do_not_move_the_law():
    truth_1x3, rows_T = law(5.0, 1.2, 0.5), rows(100, 3000)
    loss_Tx1 = losses(truth_1x3, rows_T)
    loss_Tx1[::29] *= 3
    found_1x3 = laws.fit_laws(rows_T, loss_Tx1, 0.5)
    assert_close(found_1x3, truth_1x3, rtol=0.01, atol=0)


def test_the_slope_of_a_law_ends_at_its_bound():
    rows_T = rows(100, 3000)
    found_1x3 = laws.fit_laws(rows_T, losses(law(6.0, 1.0, 1.1), rows_T), 0.5)
    assert found_1x3[0, 2].item() == pytest.approx(0.8, abs=1e-3)


def test_a_loss_below_the_bound_is_only_met_when_the_bound_is_lowered():
    # The loss ends at e^-0.3 = 0.74 nats, below e^0.5 = 1.65.
    truth_1x3, rows_T = law(3.0, -0.3, 0.4), rows(100, 3000)
    loss_Tx1 = losses(truth_1x3, rows_T)
    bound = laws.fit_laws(rows_T, loss_Tx1, 0.5)
    assert np.abs(bound - truth_1x3).max() > 0.1
    assert_close(laws.fit_laws(rows_T, loss_Tx1, -2.0), truth_1x3, rtol=1e-4, atol=0)


def test_a_loss_that_rises_gives_a_flat_law_of_finite_numbers():
    rows_T = rows(100, 1000)
    found_1x3 = laws.fit_laws(rows_T, (2 + rows_T[:, None] / rows_T[-1]), 0.5)
    assert np.isfinite(found_1x3).all()
    assert laws.reducible_losses(found_1x3, 1e5).item() < 0.2 or found_1x3[0, 2] < 0.01


def test_the_gradient_is_the_objectives():
    generator = np.random.default_rng(0)
    law_2x5x3 = generator.standard_normal((2, 5, 3))
    x_T, y_2xT = np.linspace(5, 12, 20), np.random.default_rng(0).random((2, 20))
    low_3, high_3 = np.array([-10.0, 0.5, 1e-3]), np.array([0.3, 9, 0.8])
    _, gradient, hessian = laws.law_objective_and_derivatives(law_2x5x3, x_T, y_2xT, low_3, high_3)
    for parameter in range(3):
        step_2x5x3 = np.zeros_like(law_2x5x3)
        step_2x5x3[..., parameter] = 1e-6
        before, after = (
            laws.law_objective_and_derivatives(
                law_2x5x3 + way * step_2x5x3, x_T, y_2xT, low_3, high_3
            )[0]
            for way in (-1, 1)
        )
        assert_close(gradient[..., parameter], (after - before) / 2e-6, rtol=1e-5)
    assert np.linalg.eigvalsh(hessian).min() > -1e-9


def test_the_reducible_loss_is_the_power_law():
    # e^ln8 * 16^-0.5 = 8 / 4.
    assert laws.reducible_losses(law(math.log(8), 1.0, 0.5), 16).item() == pytest.approx(2)


def test_smoothing_is_savitzky_and_golays():
    signal = pytest.importorskip("scipy.signal")
    series_T = np.random.default_rng(0).random(150)
    expected_T = signal.savgol_filter(series_T, 21, 3)
    hat_WxW = laws.cubic_smoothing_matrix(21)
    ours_T = np.concatenate(
        [
            hat_WxW[:10] @ series_T[:21],
            (hat_WxW[10] * np.lib.stride_tricks.sliding_window_view(series_T, 21)).sum(axis=1),
            hat_WxW[11:] @ series_T[-21:],
        ]
    )
    assert_close(ours_T, expected_T)
