"""The descent bound: constants by hand, equality where it is meant, no point above it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.theory import descent
from pipeline.theory.problem import Problem, axis_problem, leaning_problem, vector


def test_conflict_and_alignment_by_hand():
    # (1, 0) and (-1, 1): product -1, squares 1 + 2. (1, 0) and (1, 1): cosine sqrt(1/2).
    assert descent.least_conflict(np.stack([vector(1, 0), vector(-1, 1)])) == pytest.approx(1 / 3)
    assert descent.largest_cosine_or_zero(np.stack([vector(1, 0), vector(-1, 1)])) == 0
    three = np.stack([vector(1, 0), vector(-1, 1), vector(1, 1)])
    assert descent.largest_cosine_or_zero(three) == pytest.approx(math.sqrt(0.5))
    nothing = np.zeros((3, 2))
    assert (descent.least_conflict(nothing), descent.largest_cosine_or_zero(nothing)) == (0, 0)


gradients = st.lists(
    st.lists(st.floats(-5, 5).filter(lambda x: x == 0 or abs(x) > 1e-3), min_size=3, max_size=3),
    min_size=2,
    max_size=5,
)


@pytest.mark.slow
@given(gradients)
def test_gradients_are_small_together(listed):
    # Lemma `le: correlation_of_losses`, both parts; definitions hold for a half and for one.
    gradient_KxD = np.array(listed)
    K, c, aligned = (
        len(listed),
        descent.least_conflict(gradient_KxD),
        descent.largest_cosine_or_zero(gradient_KxD),
    )
    assert c <= 0.5 + 1e-12
    assert aligned <= 1 + 1e-12
    whole = (gradient_KxD.sum(axis=0) ** 2).sum()
    squares_K = (gradient_KxD**2).sum(axis=1)
    assert (1 - 2 * c * (K - 1)) * squares_K.sum() <= whole + 1e-9
    above = (1 - aligned) * squares_K.sum() + aligned * np.sqrt(squares_K).sum() ** 2
    assert whole <= above + 1e-9


def test_beta_and_gamma_by_hand():
    beta = descent.beta_of_descent_bound
    assert beta(0.1, vector(0.5, 0.5)) == pytest.approx(0.8)  # 1 + 0.1 (2 - 2 - 2)
    assert beta(0.1, vector(0.75, 0.25)) == pytest.approx(0.6)  # 1 + 0.1 (0 - 4)
    assert beta(0.1, vector(1, 0)) == -math.inf
    assert beta(0.0, vector(1, 0)) == 1
    assert descent.gamma_of_descent_bound(0.25, 3) == 1.5
    # c < 1 / (K - 2 + b / b_k): 0.1 < 1/4, 0.3 is not, and a domain without rows allows nothing.
    even, uneven = vector(0.5, 0.5), vector(0.75, 0.25)
    pairs = ((0.1, uneven), (0.3, uneven), (0.3, even))
    assert [descent.is_bound_valid(c, w) for c, w in pairs] == [True, False, True]
    assert not descent.is_bound_valid(0.0, vector(1, 0))


def test_bound_by_hand_is_met_by_orthogonal_losses():
    # lambda = (-4 + 1/4, -1 + 3/4), kappa = (4, 1): 5/2 - 2 + (1 + 1/4) / 2. The step leaves
    # (1, 1/2) with loss 5/8, and noise of variance (1 + 3) / 2 / 2 = 1 in all: 1/2.
    problem = axis_problem("", vector(1, 3))
    found = descent.upper_bounds_and_constants(problem, vector(2, 1), vector(0.5, 0.5), eta=1, b=2)
    assert found["printed"] == found["of_sum"] == found["plain"] == pytest.approx(1.125)
    assert problem.expected_loss_after_step(vector(2, 1), vector(0.5, 0.5), 1, 2) == pytest.approx(
        1.125
    )


def test_plain_bound_by_hand():
    # At (2, 1) of losses with axes (1, 0) and (-0.6, 0.8): products 2 and -0.4; gradients
    # (2, 0) and (0.24, -0.32), product 0.48, no conflict, cosine 0.6; sums' curvatures 1 +- 0.6.
    axes_2x1x2 = np.stack([vector(1, 0), vector(-0.6, 0.8)])[:, None]
    problem = Problem("", axes_2x1x2, vector(0, 0))
    half_2 = vector(0.5, 0.5)
    found = descent.upper_bounds_and_constants(problem, vector(2, 1), half_2, eta=0.5, b=4)
    assert found["L"] == pytest.approx(1)
    assert found["L_sum"] == pytest.approx(1.6)
    assert (found["conflict"], found["beta"]) == (0, 1)
    assert (found["alignment"], found["gamma"]) == pytest.approx((0.6, 1.6))
    # First order: half of 4.16, times eta. Second: 1.6 / 2 times gamma / 4 of 4.16 / 4.
    assert found["plain"] == pytest.approx(2.08 - 1.04 + 0.3328)
    assert found["printed"] == pytest.approx(2.08 - 1.04 + 0.208)


@pytest.fixture(scope="module")
def measured():
    return descent.descent_rows(1000, np.random.default_rng(0))


def test_simulation_agrees_with_the_exact_expectation(measured):
    exact = [row for row in measured if row["expected"] is not None]
    assert len(exact) == 6 * 4 * 2 * 3
    for row in exact:
        assert abs(row["simulated"] - row["expected"]) <= 4.5 * row["stderr"] + 1e-12


def test_no_loss_lies_above_the_bounds_with_the_constant_of_the_sum(measured):
    for row in measured:
        loss, error = row["expected"], 1e-9
        if loss is None:
            loss, error = row["simulated"], 4.5 * row["stderr"]
        assert loss <= row["plain"] + error
        assert row["plain"] <= row["of_sum"] + 1e-9


def test_the_bound_as_printed_fails_where_curvatures_add_up(measured):
    equal = [row for row in measured if row["problem"] == "two equal losses" and row["applies"]]
    assert all(row["L_sum"] == pytest.approx(2 * row["L"]) for row in equal)
    assert any(row["expected"] > row["printed"] + 1e-6 for row in equal)


def test_equality_holds_for_orthogonal_losses_alone(measured):
    gaps = {}
    for row in measured:
        if row["expected"] is not None:
            gaps.setdefault(row["problem"], []).append(row["plain"] - row["expected"])
    assert max(map(abs, gaps["orthogonal"])) < 1e-12
    assert all(max(gap) > 1e-3 for name, gap in gaps.items() if name != "orthogonal")


@pytest.mark.parametrize("cosine", [-0.2, 0.0, 0.3])
def test_best_weights_have_the_lowest_plain_bound(cosine):
    problem, theta_D = leaning_problem("", vector(1, 5, 0), cosine), vector(1, -2, 0.5)
    best_K = descent.conceptual_pike_weights(problem, theta_D, 0.7, 8)
    lowest = descent.upper_bounds_and_constants(problem, theta_D, best_K, 0.7, 8)["plain"]
    generator = np.random.default_rng(0)
    for _ in range(50):
        other_K = generator.random(3) ** 2
        other_K = other_K / other_K.sum()
        bounds = descent.upper_bounds_and_constants(problem, theta_D, other_K, 0.7, 8)
        assert bounds["plain"] >= lowest - 1e-12


@pytest.mark.parametrize("cosine", [-0.2, -0.05, 0.0, 0.3])
def test_a_beta_that_needs_no_rows_of_any_domain(cosine):
    # Weights that minimise the plain bound grant what all weight on the longest gradient does:
    # with c the conflict of all points, eta (1 - 2 c (K - 1)) |g|^2 and its second-order terms.
    problem, generator = leaning_problem("", vector(1, 5, 0), cosine), np.random.default_rng(1)
    L, eta, b, c, aligned = problem.smoothness_of_sum(), 0.3, 8, abs(cosine) / 2, abs(cosine)
    for _ in range(40):
        theta_D = 3 * generator.standard_normal(3)
        weights_K = descent.conceptual_pike_weights(problem, theta_D, eta, b)
        now = problem.losses(theta_D[None]).sum()
        largest = problem.statistics(theta_D).squared_norm_K.max()
        promised = eta * (1 - 2 * c * 2) * largest
        added = L * eta**2 / 2 * (5 / b + (1 + 2 * aligned) * largest)
        assert (
            problem.expected_loss_after_step(theta_D, weights_K, eta, b)
            <= now - promised + added + 1e-12
        )


def test_log_cosh_has_the_gradient_and_the_smoothness_that_are_meant():
    axes_1x2x2 = np.stack([vector(2, 0), vector(1, 1)])[None]
    problem = Problem("", axes_1x2x2, vector(0), offset=0.5, shape="log-cosh")
    theta_1x2 = vector(0.3, -0.2)[None]
    nearby_2x2 = theta_1x2 + 1e-6 * np.eye(2), theta_1x2 - 1e-6 * np.eye(2)
    up_2, down_2 = (problem.losses(at_2x2)[:, 0] for at_2x2 in nearby_2x2)
    assert problem.gradients(theta_1x2)[0, 0] == pytest.approx((up_2 - down_2) / 2e-6, abs=1e-8)
    # log cosh 0.1 and log cosh 0.4 of the reaches 0.1 and -0.4.
    by_hand = math.log(math.cosh(0.1)) + math.log(math.cosh(0.4))
    assert problem.losses(theta_1x2).sum() == pytest.approx(by_hand)
    # A'A = [[5, 1], [1, 1]] has the eigenvalues 3 +- sqrt(5).
    assert problem.smoothness_constant() == pytest.approx(3 + math.sqrt(5))
