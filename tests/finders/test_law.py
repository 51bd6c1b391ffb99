import numpy as np
import pytest
from known_law import LAWS, mixtures
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders import law


def fitted(weights_NxK, loss_NxK, *, starts=4, huber=0.02):
    return law.fit(weights_NxK, loss_NxK, starts=starts, huber=huber)


def test_an_exact_law_is_recovered():
    weights_NxK = mixtures(24)
    laws = fitted(weights_NxK, LAWS.losses(weights_NxK))
    assert_allclose(laws.c_K, LAWS.c_K, atol=1e-3)
    assert_allclose(laws.b_K, LAWS.b_K, atol=1e-3)
    assert_allclose(laws.t_KxK, LAWS.t_KxK, atol=1e-3)


def test_losses_are_the_written_formula():
    # L_0 = 1 + exp(0.2 - 2) at a mixture of the first domain alone.
    assert_allclose(LAWS.losses(np.array([[1.0, 0, 0]]))[0, 0], 1 + np.exp(-1.8))


def test_with_noise_predictions_are_closer_to_the_truth_than_the_data():
    weights_NxK, unseen_NxK = mixtures(24), mixtures(200, seed=5)
    noise_NxK = np.random.default_rng(3).normal(0, 0.02, weights_NxK.shape)
    laws = fitted(weights_NxK, LAWS.losses(weights_NxK) + noise_NxK)
    error = laws.losses(unseen_NxK) - LAWS.losses(unseen_NxK)
    assert np.sqrt((error**2).mean()) < 0.02


@pytest.mark.slow
def test_one_proxy_astray_moves_the_law_little():
    weights_NxK = mixtures(24)
    loss_NxK = LAWS.losses(weights_NxK)
    loss_NxK[7] += 3
    robust, squares = (fitted(weights_NxK, loss_NxK, huber=h) for h in (0.001, 100.0))
    unseen_NxK = mixtures(200, seed=5)
    truth = LAWS.losses(unseen_NxK)
    assert np.abs(robust.losses(unseen_NxK) - truth).max() < 0.01
    assert np.abs(squares.losses(unseen_NxK) - truth).max() > 0.1


@pytest.mark.slow
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


def test_c_is_never_negative():
    # A loss that is linear in the weights fits ever better as c falls to minus infinity.
    weights_NxK = mixtures(24)
    laws = fitted(weights_NxK, weights_NxK @ np.array([[1.0], [2.0], [3.0]]))
    assert laws.c_K[0] >= 0


@pytest.mark.slow
def test_losses_that_do_not_react_to_the_mixture_are_fitted_without_running_away():
    weights_NxK = mixtures(30)
    loss_NxK = 2 + np.random.default_rng(1).normal(0, 0.01, (30, 3))
    laws = fitted(weights_NxK, loss_NxK)
    # The noise of single runs is 0.01; predictions between them are nearer to 2.
    assert np.abs(laws.losses(mixtures(100, seed=2)) - 2).mean() < 0.01


def test_a_fit_that_does_not_converge_is_refused(monkeypatch):
    monkeypatch.setattr(law, "ITERATIONS", 1)
    weights_NxK = mixtures(24)
    loss_NxK = LAWS.losses(weights_NxK) + np.random.default_rng(0).normal(0, 0.1, (24, 3))
    with pytest.raises(InputError, match="does not converge on these 24 proxy runs"):
        fitted(weights_NxK, loss_NxK)
