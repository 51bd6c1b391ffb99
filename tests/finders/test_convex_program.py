import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from known_law import LAWS, optimum
from numpy.testing import assert_allclose

from pike_mixing.errors import InputError
from pike_mixing.finders import convex_program
from pike_mixing.finders.convex_program import ConvexProgram, solve_with_residual
from pike_mixing.finders.exponential_law import Laws

UNIFORM = np.full(3, 1 / 3)
PRIOR = np.array([0.6, 0.3, 0.1])


def posed(*, target=UNIFORM, kl=0.0, prior=UNIFORM, cap=(np.inf,) * 3):
    return ConvexProgram(LAWS, np.asarray(target), kl, np.asarray(prior), np.asarray(cap))


@pytest.mark.parametrize("target", [UNIFORM, np.array([0.7, 0.2, 0.1]), np.array([1.0, 0, 0])])
@pytest.mark.parametrize("kl", [0.0, 0.05, 1.0])
def test_the_optimum_is_that_of_a_search(target, kl):
    weights_K, residual = solve_with_residual(posed(target=target, kl=kl, prior=PRIOR))
    searched_K, value = optimum(target_K=target, kl=kl, prior_K=PRIOR)
    posed_ = posed(target=target, kl=kl, prior=PRIOR)
    ours = posed_.loss(weights_K) + kl * posed_.divergence(weights_K)
    assert_allclose(weights_K, searched_K, atol=0.004)
    # No point of the grid is better, and the grid's best is not far off.
    assert -1e-9 < value - ours < 1e-4
    assert residual < 1e-6


def test_the_target_of_one_domain_is_that_domain_when_nothing_else_helps():
    # Domain 0's loss falls with its own weight fastest.
    weights_K, _ = solve_with_residual(posed(target=[1, 0, 0]))
    assert_allclose(weights_K, [1, 0, 0], atol=1e-9)


@pytest.mark.parametrize("kl", [0.0, 0.05])
def test_caps_bind(kl):
    free_K, _ = solve_with_residual(posed(kl=kl))
    cap_K = np.array([free_K[0] / 2, 1, 1])
    weights_K, residual = solve_with_residual(posed(kl=kl, cap=cap_K))
    assert_allclose(weights_K[0], cap_K[0], atol=1e-9)
    assert residual < 1e-6
    assert_allclose(weights_K, optimum(kl=kl, cap_K=cap_K)[0], atol=0.004)


def test_a_domain_without_text_gets_nothing():
    weights_K, _ = solve_with_residual(posed(kl=0.05, cap=(0.0, 1, 1)))
    assert weights_K[0] == 0
    assert_allclose(weights_K.sum(), 1)


def test_the_tangent_program_by_hand():
    # kl = 0: the domain of least slope is filled to its cap, the next one takes the rest.
    asked = posed(cap=(0.3, 1, 0.9))
    assert_allclose(asked.minimise_tangent(np.array([-2.0, 0.0, -1.0]), 0), [0.3, 0, 0.7])
    # kl = 1, equal slopes: the prior. Slopes ln 2 apart: half the odds.
    asked = posed(prior=PRIOR)
    assert_allclose(asked.minimise_tangent(np.zeros(3), 1), PRIOR)
    assert_allclose(asked.minimise_tangent(np.array([np.log(2), 0, 0]), 1), [3 / 7, 3 / 7, 1 / 7])
    # A cap at half of 0.6: what is left over goes to the others in the prior's odds.
    asked = posed(prior=PRIOR, cap=(0.3, 1, 1))
    assert_allclose(asked.minimise_tangent(np.zeros(3), 1), [0.3, 0.525, 0.175])


def test_the_slope_is_that_of_finite_differences():
    asked, step = posed(target=[0.5, 0.3, 0.2]), 1e-6
    differences = [
        (asked.loss(UNIFORM + step * e) - asked.loss(UNIFORM - step * e)) / (2 * step)
        for e in np.eye(3)
    ]
    assert_allclose(asked.slope(UNIFORM), differences, rtol=1e-6)


@pytest.mark.parametrize("kl", [0.0, 0.05])
def test_caps_of_exactly_a_whole_mixture_are_it(kl):
    cap_K = np.array([0.7, 0.2, 0.1])
    assert cap_K.sum() < 1
    assert_allclose(solve_with_residual(posed(kl=kl, cap=cap_K))[0], cap_K)


def test_a_program_that_is_not_solved_is_refused(monkeypatch):
    monkeypatch.setattr(convex_program, "TOLERANCE", -1.0)
    with pytest.raises(InputError, match="was not solved: its KKT residual is"):
        solve_with_residual(posed())


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 12), st.sampled_from([0.0, 1e-3, 0.05, 1.0, 100.0]))
# One search ends early in these.
@example(9959, 4, 0.05)
@example(9182, 11, 1e-3)
@example(9821, 4, 0.05)
def test_random_programs_are_solved(seed, K, kl):
    rng = np.random.default_rng(seed)
    t_KxK = rng.normal(0, 2, (K, K))
    laws = Laws(rng.uniform(0, 3, K), rng.normal(0, 1, K), t_KxK - t_KxK.mean(1, keepdims=True))
    prior_K, target_K = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K))
    cap_K = rng.uniform(1.2 / K, 1, K)
    asked = ConvexProgram(laws, target_K, kl, prior_K, cap_K)
    weights_K, residual = solve_with_residual(asked)
    assert residual <= 1e-6 * (1 + kl)
    assert_allclose(weights_K.sum(), 1)
    assert (weights_K >= 0).all()
    assert (weights_K <= cap_K + 1e-9).all()
    # The objective is convex: the middle of two points is no higher than their mean.
    free = dataclasses.replace(asked, kl=0.0)
    middle_K = (weights_K + prior_K) / 2
    assert free.loss(middle_K) <= (free.loss(weights_K) + free.loss(prior_K)) / 2 + 1e-12
