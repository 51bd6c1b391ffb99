import math
from fractions import Fraction

import numpy as np
import pytest
from arrays import assert_close, measured, vector, weights_after
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.interface import Signals, Statistics
from pike_mixing.rules.pike import ConceptualPiKE, descent_bound_minimiser

few = effort(max_examples=40)
items = st.lists(
    st.tuples(st.floats(-10, 10), st.one_of(st.just(0.0), st.floats(1e-3, 10))),
    min_size=1,
    max_size=8,
)
"""(lambda_k, kappa_k)."""


LEFT = 483946 / 5.6e10


@pytest.mark.parametrize(
    ("lam", "kap", "expected"),
    [
        # w_1 + lambda_1 = 2 w_2 + lambda_2 with w_1 + w_2 = 1: w_1 = 2 (1 - w_1).
        ((0, 0), (1, 2), (2 / 3, 1 / 3)),
        # 1 - w_1 - 1 = w_1 - 0.5: w_1 = 0.25.
        ((0, -0.5), (1, 1), (0.25, 0.75)),
        # With all weight on the first, its marginal cost 1 - 3 is still below the second's 0.
        ((-3, 0), (1, 1), (1, 0)),
        # mu = 0: the first goes up to (1 - 0) / 4, the second, linear, takes the rest.
        ((-1, 0), (4, 0), (0.25, 0.75)),
        # A linear item that costs too much gets nothing; of several the cheapest takes all.
        ((-9, 0), (4, 0), (1, 0)),
        ((1, -2, 3), (0, 0, 0), (0, 1, 0)),
        ((1, -2, -2), (0, 0, 0), (0, 0.5, 0.5)),
        # No kappa below the rounding of lambda is lost; of equal lambdas 1 / kappa decides.
        ((0.125,), (1e-20,), (1,)),
        ((7, 7), (1e-20, 3e-20), (0.75, 0.25)),
        # The second reaches the first's cost of 483,946 at 483946 / 5.6e10.
        ((483946, 0), (1.2e-11, 5.6e10), (1 - LEFT, LEFT)),
    ],
)
def test_the_solution_by_hand(lam, kap, expected):
    assert_close(
        descent_bound_minimiser(vector(*lam), vector(*kap)), vector(*expected), rtol=1e-12, atol=0
    )


def test_a_gradient_lost_in_its_noise_leaves_numbers():
    method = ConceptualPiKE(L=1, eta=0.1, norm="plug-in")
    assert weights_after(method, measured((1e-18,), (100,))).tolist() == [1]


def exact(lam, kap):
    """The same by fractions: of all sets of cheapest domains, the largest with positive weights."""
    cheapest = sorted(range(len(lam)), key=lambda k: lam[k])
    for count in range(len(lam), 0, -1):
        active = cheapest[:count]
        nu = (1 + sum(lam[k] / kap[k] for k in active)) / sum(1 / kap[k] for k in active)
        if all(nu > lam[k] for k in active):
            return [float(max(0, nu - lam[k]) / kap[k]) for k in range(len(lam))]
    raise AssertionError("the cheapest alone is always such a set")


@few
@given(
    st.lists(
        st.tuples(st.floats(-1e12, 1e12), st.integers(-25, 25).map(lambda power: 10.0**power)),
        min_size=1,
        max_size=6,
    )
)
def test_fractions_give_the_same_for_kappas_of_any_size(items):
    lam, kap = zip(*items, strict=True)
    weights_K = descent_bound_minimiser(vector(*lam), vector(*kap))
    expected = exact([Fraction(x) for x in lam], [Fraction(x) for x in kap])
    assert_close(weights_K, vector(*expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("theta", [(1.0, 0.5), (0.2, 0.3), (2.0, 0.0)])
@pytest.mark.parametrize("sigma", [(0.1, 0.1), (1.0, 0.2), (0.0, 3.0)])
def test_example_1_is_solved_as_in_its_equation(theta, sigma):
    # Equation `eq:ExampleOptimalMixing`; its sigma is per coordinate, of which there are two.
    b, eta = 8, 0.3
    (x1, x2), (s1, s2) = [[v**2 for v in pair] for pair in (theta, sigma)]
    wanted = ((s2 - s1) / b + (x1 - x2) / eta + x2) / (x1 + x2)
    method = ConceptualPiKE(L=1, eta=eta, norm="plug-in")
    weights_K = weights_after(method, measured((x1, x2), (2 * s1, 2 * s2)), b=b)
    assert weights_K[0].item() == pytest.approx(min(max(wanted, 0), 1), abs=1e-9)


def test_the_bound_by_hand():
    method = ConceptualPiKE(L=2, eta=0.5, beta=0.5, gamma=3, norm="plug-in")
    lam_K, kap_K = method.descent_bound_of_statistics(measured((4, 0), (0, 8)), b=4)
    # -0.5 * 0.5 * 4 and 2 * 0.25 / 8 * 8; 2 * 0.25 * 3 * 4.
    assert_close(lam_K, vector(-1, 0.5))
    assert_close(kap_K, vector(6, 0))


def test_an_unbiased_norm_below_zero_counts_as_zero():
    method = ConceptualPiKE(L=1, eta=1)
    lam_K, kap_K = method.descent_bound_of_statistics(measured((1, 3), (16, 8), rows=8), b=4)
    # 1 - 16 / 8 = -1 and 3 - 8 / 8 = 2.
    assert_close(kap_K, vector(0, 2))
    assert_close(lam_K, vector(2, -1))


def test_a_domain_without_an_estimate_keeps_its_weight():
    method = ConceptualPiKE(L=1, eta=1, prior={"en": 1, "hi": 1, "de": 2}, norm="plug-in")
    statistics = measured((1, 2, math.nan), (0, 0, math.nan))
    # lambda = -|g|^2, kappa = |g|^2: w_1 - 1 = 2 w_2 - 2 gives 1/3 and 2/3 of the other half.
    weights_K = weights_after(method, statistics)
    assert_close(weights_K, vector(1, 2, 3) / 6)


def test_every_step_is_estimated_unless_asked_otherwise():
    assert ConceptualPiKE(L=1, eta=1).needs().statistics.is_due(7)
    assert not ConceptualPiKE(L=1, eta=1, every=2).needs().statistics.is_due(7)


def test_constants_whose_square_is_beyond_a_float64_move_nothing():
    method = ConceptualPiKE(L=1, eta=1e300)
    state = method.init(("a", "b"), 0)
    seen = Statistics.of_moments(*np.ones((3, 2)), np.full(2, 8.0))
    assert method.observe(state, Signals(0, 8, statistics=seen))["weights_K"].tolist() == [0.5, 0.5]
