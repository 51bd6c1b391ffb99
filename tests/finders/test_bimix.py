import numpy as np
import pytest
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders.bimix import Laws, fit, optimum

LAWS = Laws(
    alpha_K=np.array([0.05, 0.12, 0.2]),
    beta_K=np.array([0.4, 0.3, 0.6]),
    b_K=np.array([9.0, 5.0, 40.0]),
    c_K=np.array([1.9, 1.2, 2.5]),
)
STEPS = (200, 400, 800, 1600)


def measured(mixtures=5, noise=0.0):
    random = np.random.default_rng(0)
    weights_MxK = random.dirichlet(np.full(3, 3), mixtures)
    weights_NxK = np.tile(weights_MxK, (len(STEPS), 1))
    steps_N = np.repeat(np.array(STEPS, dtype=float), mixtures)
    loss_NxK = np.concatenate([LAWS.losses(weights_MxK, s) for s in STEPS])
    return weights_NxK, steps_N, loss_NxK + noise * random.normal(size=loss_NxK.shape)


def test_a_loss_by_hand():
    # 4 / 100^0.5 + 1 = 1.4 with all rows; a quarter of them: times 4^0.5.
    laws = Laws(*(np.array([number]) for number in (0.5, 0.5, 4.0, 1.0)))
    assert_allclose(laws.losses(np.array([[1.0], [0.25]]), 100), [[1.4], [2.8]])


def test_without_noise_the_law_is_found_and_holds_for_longer_runs():
    found = fit(*measured())
    for name in vars(LAWS):
        assert_allclose(getattr(found, name), getattr(LAWS, name), rtol=1e-4)
    mixture_1xK = np.array([[0.1, 0.2, 0.7]])
    assert_allclose(found.losses(mixture_1xK, 10**5), LAWS.losses(mixture_1xK, 10**5), rtol=1e-5)


def test_with_noise_the_mixture_is_nearly_as_good():
    best_K, found_K = optimum(LAWS, 2000), optimum(fit(*measured(10, 0.01)), 2000)
    assert_allclose(found_K, best_K, atol=0.05)


def test_the_best_mixture_by_hand():
    # Losses 4 / r and 1 / r: shares as the roots, 2 : 1. A target of (1, 16) turns that around.
    laws = Laws(np.ones(2), np.ones(2), np.zeros(2), np.array([4.0, 1.0]))
    assert_allclose(optimum(laws, 10), [2 / 3, 1 / 3])
    assert_allclose(optimum(laws, 10, np.array([1.0, 16.0])), [1 / 3, 2 / 3])


def test_no_mixture_is_better():
    best_K = optimum(LAWS, 1000)
    assert best_K.sum() == pytest.approx(1)
    others_S = LAWS.losses(np.random.default_rng(1).dirichlet(np.ones(3), 500), 1000).sum(axis=1)
    assert LAWS.losses(best_K[None], 1000).sum() <= others_S.min()


def test_a_domain_that_does_not_count_gets_nothing():
    assert_allclose(optimum(LAWS, 1000, np.array([0.0, 1.0, 0.0])), [0, 1, 0])


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda w, s, loss: fit(w, s, -loss), "loss_NxK: all numbers must be positive"),
        (lambda w, s, loss: fit(w[:10], s[:10], loss[:10]), "steps_N: the curve over steps needs"),
        (lambda w, s, loss: fit(w * 0 + 0.3, s, loss), "weights_NxK: each domain needs at least"),
        (lambda *_: optimum(LAWS, 9, np.zeros(3)), "laws: no share changes any loss that counts"),
    ],
)
def test_what_cannot_be_told_is_refused(act, message):
    with pytest.raises(InputError, match=message):
        act(*measured())
