"""The lowest point of a simplex where rounding goes round, scaling laws."""

import numpy as np
import pytest
from arrays import assert_close

from pike_mixing.numerics import laws
from pike_mixing.numerics.simplex import lowest_point


def test_a_search_in_which_domains_enter_and_leave_for_ever_ends_at_the_optimum():
    # 24 gradients in 3 dimensions, the longest 10,000 times the shortest.
    draw, lengths = np.random.default_rng(1), np.random.default_rng(2).random((24, 1))
    gradient_PxD = draw.standard_normal((24, 3)) * 100 * 10 ** (4 * lengths)
    point = lowest_point(0.4 * gradient_PxD[:, 0], 1.0, gradient_PxD @ gradient_PxD.T)
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
