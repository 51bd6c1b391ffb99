import numpy as np
import pytest
from known_law import LAWS, mixtures
from numpy.testing import assert_allclose
from scipy import optimize

from pike_mixing.errors import InputError
from pike_mixing.finders import exponential_law


def fitted(weights_NxK, loss_NxK, *, starts=4, huber=0.02):
    return exponential_law.fit(weights_NxK, loss_NxK, starts=starts, huber=huber)


@pytest.mark.parametrize("huber", [0.02, 1e12])  # The latter bounds nothing.
def test_an_exact_law_is_recovered(huber):
    weights_NxK = mixtures(24)
    laws = fitted(weights_NxK, LAWS.losses(weights_NxK), huber=huber)
    for name, expected in vars(LAWS).items():
        assert_allclose(getattr(laws, name), expected, atol=1e-3)


def test_losses_are_the_written_formula():
    # L_0 = 1 + exp(0.2 - 2) at a mixture of the first domain alone.
    assert_allclose(LAWS.losses(np.array([[1.0, 0, 0]]))[0, 0], 1 + np.exp(-1.8))


def test_no_other_start_leads_to_a_better_law():
    # Of a loss that is noise, whose cost has several valleys.
    weights_NxK = mixtures(24)
    loss_Nx1 = np.random.default_rng(9).normal(3, 0.1, (24, 1))

    def cost(starts):
        laws = fitted(weights_NxK, loss_Nx1, starts=starts)
        error_Nx1 = np.abs(laws.losses(weights_NxK) - loss_Nx1)
        below_Nx1 = np.minimum(error_Nx1, 0.02)
        return (below_Nx1 * (error_Nx1 - below_Nx1 / 2)).sum()

    assert cost(4) == pytest.approx(cost(24), rel=0.02)


def of_scipy(weights_NxK, loss_N, huber):
    """Cost and predictions of the same law by SciPy's search from five values of c."""
    K = weights_NxK.shape[1]

    def errors(cs):
        e_N = np.exp(weights_NxK @ cs[1:])
        return np.concatenate([cs[0] + e_N - loss_N, exponential_law.RIDGE**0.5 * cs[1:]])

    starts = [np.append(c, np.zeros(K)) for c in np.linspace(0.1, 0.9, 5) * loss_N.min()]
    bounds = ([0, *[-np.inf] * K], np.inf)
    how = {"bounds": bounds, "loss": "huber", "f_scale": huber, "ftol": 1e-12, "xtol": 1e-12}
    found = [optimize.least_squares(errors, start, **how) for start in starts]
    best = min(found, key=lambda done: done.cost)
    return best.cost, best.x[0] + np.exp(weights_NxK @ best.x[1:])


@pytest.mark.parametrize("huber", [0.005, 0.02])
def test_all_losses_at_once_are_fitted_as_each_by_scipy(huber):
    # Noise, much of it beyond huber, and a loss linear in the weights, whose c is 0.
    weights_NxK = mixtures(24)
    noise_NxK = np.random.default_rng(4).normal(0, 0.02, (24, 3))
    linear_Nx1 = weights_NxK @ np.array([[1.0], [2.0], [3.0]])
    loss_Nx4 = np.column_stack([LAWS.losses(weights_NxK) + noise_NxK, linear_Nx1])
    laws = fitted(weights_NxK, loss_Nx4, huber=huber)
    predicted_Nx4 = laws.losses(weights_NxK)
    search = exponential_law._LevenbergMarquardt(weights_NxK, loss_Nx4.T, huber)
    cost_M = search.cost(np.column_stack([laws.c_K, laws.b_K[:, None] + laws.t_KxK]))
    assert laws.c_K[3] == 0
    for cost, predicted_N, loss_N in zip(cost_M, predicted_Nx4.T, loss_Nx4.T, strict=True):
        expected, curve_N = of_scipy(weights_NxK, loss_N, huber)
        assert cost == pytest.approx(expected, rel=1e-6)
        assert_allclose(predicted_N, curve_N, atol=1e-4)


def test_either_curvature_leads_to_the_same_law(monkeypatch):
    weights_NxK = mixtures(24)
    noise_NxK = np.random.default_rng(4).normal(0, 0.02, (24, 3))
    loss_NxK = LAWS.losses(weights_NxK) + noise_NxK
    sharp = fitted(weights_NxK, loss_NxK)
    monkeypatch.setattr(exponential_law, "SHARP", 0)
    blunt = fitted(weights_NxK, loss_NxK)
    assert_allclose(blunt.losses(weights_NxK), sharp.losses(weights_NxK), atol=1e-4)


def test_losses_that_do_not_react_to_the_mixture_are_fitted_without_running_away():
    weights_NxK = mixtures(30)
    loss_NxK = 2 + np.random.default_rng(1).normal(0, 0.01, (30, 3))
    laws = fitted(weights_NxK, loss_NxK)
    # The noise of single runs is 0.01; predictions between them are nearer to 2.
    assert np.abs(laws.losses(mixtures(100, seed=2)) - 2).mean() < 0.01


@pytest.mark.parametrize("loss", [0.5, 1.5, 50.0])
def test_a_constant_loss_is_its_own_law(loss):
    weights_NxK = mixtures(20)
    laws = fitted(weights_NxK, np.full((20, 1), loss))
    assert_allclose(laws.losses(mixtures(50, seed=2)), loss, atol=1e-3)


def test_a_fit_that_does_not_converge_is_refused(monkeypatch):
    monkeypatch.setattr(exponential_law, "ITERATIONS", 1)
    weights_NxK = mixtures(24)
    loss_NxK = LAWS.losses(weights_NxK) + np.random.default_rng(0).normal(0, 0.1, (24, 3))
    with pytest.raises(InputError, match="does not converge on these 24 proxy runs"):
        fitted(weights_NxK, loss_NxK)
