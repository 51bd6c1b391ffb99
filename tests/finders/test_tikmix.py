import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders import tikmix


def test_one_task_by_hand():
    # P = w_1 + w_2 / 2 with std 0, so that w ~ exp(P's coefficients) = (e, sqrt(e), 1).
    found_K = tikmix.find(np.array([[4.0, 2.0, 0.0]]))
    parts_K = np.exp([1, 0.5, 0])
    assert_allclose(found_K, parts_K / parts_K.sum(), atol=1e-5)


def test_worth_and_entropy_trade_off_as_a_temperature():
    found_K = tikmix.find(np.array([[1.0, 0.0]]), beta=2.0, gamma=0.5)
    assert_allclose(found_K, np.array([np.exp(4), 1]) / (np.exp(4) + 1), atol=1e-5)


def test_two_tasks_with_a_domain_each_share_alike_at_the_kink():
    assert_allclose(tikmix.find(np.eye(2)), [0.5, 0.5], atol=1e-6)


def test_a_price_of_unevenness_evens_out():
    influence_2x3 = np.array([[1.0, 0.2, 0.0], [0.0, 0.1, 0.5]]) + 1
    uneven, even = (
        np.ptp(influence_2x3 / influence_2x3.max(axis=1)[:, None] @ tikmix.find(influence_2x3, **a))
        for a in ({"alpha": 0.0}, {"alpha": 20.0})
    )
    assert even < uneven


def test_no_task_falls_below_the_prior():
    # The first task asks for w_1 >= 0.9, the second for w_1 <= 0.9.
    influence_2x2 = np.array([[1.0, 0.0], [0.9, 1.0]])
    found_K = tikmix.find(influence_2x2, np.array([0.9, 0.1]))
    assert_allclose(found_K, [0.9, 0.1], atol=1e-6)


def test_the_unit_of_a_task_does_not_matter():
    influence_2x3 = np.array([[3.0, 1.0, 0.5], [0.2, 0.9, 0.4]])
    scaled = tikmix.find(influence_2x3 * np.array([[100.0], [1.0]]))
    # The solver ends within 1e-10 of the least value, some 1e-5 of its weights; rounding decides.
    assert_allclose(scaled, tikmix.find(influence_2x3), atol=1e-4)
    # Products of gradients can be as small as this.
    assert_allclose(tikmix.find(influence_2x3 * 2.0**-40), tikmix.find(influence_2x3))


@pytest.mark.slow
@effort(max_examples=20)
@given(st.integers(0, 10**6))
def test_no_allowed_mixture_is_better(seed):
    random = np.random.default_rng(seed)
    influence_3x4 = random.random((3, 4))
    scaled_3x4 = influence_3x4 / influence_3x4.max(axis=1)[:, None]

    def value(weights_SxK):
        p_SxN = weights_SxK @ scaled_3x4.T
        return p_SxN.std(axis=1) - p_SxN.sum(axis=1) + (weights_SxK * np.log(weights_SxK)).sum(1)

    other_SxK = random.dirichlet(np.ones(4), 500)
    floor_N = scaled_3x4.mean(axis=1)
    other_SxK = other_SxK[(other_SxK @ scaled_3x4.T >= floor_N).all(axis=1)]
    found_1xK = tikmix.find(influence_3x4)[None]
    assert value(found_1xK)[0] <= value(other_SxK).min(initial=np.inf) + 1e-6


@pytest.mark.parametrize(
    ("influence", "prior", "message"),
    [
        ([[np.nan, 1.0]], None, "influence_NxK: give a finite number"),
        ([[1.0, 0.0], [-1.0, -2.0]], None, "no domain helps task 1"),
        ([[1.0, 0.0]], [0.5, 0.6], "prior_K: give 2 weights"),
    ],
)
def test_what_is_no_problem_of_mixtures_is_refused(influence, prior, message):
    with pytest.raises(InputError, match=message):
        tikmix.find(np.array(influence), None if prior is None else np.array(prior))
