"""PiKE, Balanced-PiKE and conceptual PiKE: updates by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
from arrays import assert_close, measured, vector, weights_after
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.interface import Signals, Statistics
from pike_mixing.rules.pike import (
    BalancedPiKE,
    ConceptualPiKE,
    PiKE,
    descent_bound_minimiser,
    proposed_coefficients,
    tau_softmax_of_tau_loss,
    updated_log_weights,
)

LN3 = math.log(3)


@pytest.mark.parametrize(
    ("settings", "squared_norm", "variance", "b", "expected"),
    [
        # exp(ln 3 * 1) : exp(ln 3 * 0), the odds become 3 : 1.
        ({"zeta1": LN3}, (1, 0), (0, 0), 4, (3, 1)),
        # zeta2 / (2b) * 1 = 8 ln 3 / 8 = ln 3 for b = 4, the odds become 1 : 3.
        ({"zeta2": 8 * LN3}, (0, 0), (1, 0), 4, (1, 3)),
        # b = 8 halves the exponent: sqrt(3) : 1.
        ({"zeta2": 8 * LN3}, (0, 0), (0, 1), 8, (3**0.5, 1)),
        # |g|^2 = 3 of 4 rows with variance 8: noise alone makes 8 / 4 = 2 of it.
        ({"zeta1": LN3, "norm": "plug-in"}, (3, 0), (8, 0), 4, (27, 1)),
        ({"zeta1": LN3, "norm": "unbiased"}, (3, 0), (8, 0), 4, (3, 1)),
        # 1 - 8 / 4 = -1 counts as 0.
        ({"zeta1": LN3}, (1, 0), (8, 0), 4, (1, 1)),
        # The floor, and one that both cannot have.
        ({"zeta1": 1, "min_weight": 0.1}, (1000, 0), (0, 0), 4, (9, 1)),
        ({"zeta1": 1, "min_weight": 0.9}, (1000, 0), (0, 0), 4, (1, 1)),
    ],
)
def test_one_update_by_hand(settings, squared_norm, variance, b, expected):
    method = PiKE(**{"zeta1": 0, "zeta2": 0} | settings)
    weights_K = weights_after(method, measured(squared_norm, variance), b=b)
    assert_close(weights_K, vector(*expected) / sum(expected))


@pytest.mark.parametrize("unknown", [math.nan, math.inf, -math.inf])
def test_a_domain_without_an_estimate_keeps_its_weight(unknown):
    statistics = measured(
        (1, 0, unknown), variance=(0, 0, unknown), rows=(4, 4, 0), loss=(1, 1, unknown)
    )
    weights_K = weights_after(PiKE(zeta1=LN3, zeta2=0), statistics)
    # A third stays; the others share two thirds as 3 : 1.
    assert_close(weights_K, vector(1 / 2, 1 / 6, 1 / 3))


def test_the_floor_leaves_the_weight_of_a_domain_without_an_estimate():
    method = PiKE(zeta1=1, zeta2=0, min_weight=0.1, prior={"en": 1, "hi": 1, "de": 3})
    statistics = measured((1000, 0, math.nan), variance=(0, 0, math.nan), rows=(4, 4, 0))
    weights_K = weights_after(method, statistics)
    # Of the two fifths that the others share, a tenth is the floor of the second.
    assert_close(weights_K, vector(0.3, 0.1, 0.6))


def test_what_was_measured_of_domains_without_weight_moves_nothing():
    nothing = measured((math.nan, math.nan), rows=0)
    method = PiKE(zeta1=1, zeta2=0, prior={"en": 3, "hi": 1})
    assert_close(weights_after(method, nothing), vector(0.75, 0.25))
    second = measured((math.nan, 1), variance=(math.nan, 0), rows=(0, 4))
    for min_weight in (0.0, 0.1):
        method = PiKE(zeta1=1, zeta2=0, min_weight=min_weight, prior={"en": 1, "hi": 0})
        assert weights_after(method, second).tolist() == [1, 0]
        # Too little for float64.
        log_weights_K = updated_log_weights(vector(0, -2000), vector(math.nan, 1), min_weight)
        assert np.exp(log_weights_K).tolist() == [1, 0]


def test_a_prior_is_where_the_weights_begin():
    method = PiKE(zeta1=LN3, zeta2=0, prior={"hi": 0.25, "en": 0.75})
    state = method.init(("en", "hi"), 0)
    assert_close(method.weights(state, 0), vector(0.75, 0.25))
    # 3 : 1 times 1 : 3.
    assert_close(weights_after(method, measured((0, 1))), vector(0.5, 0.5))


def test_a_domain_that_was_driven_out_can_return():
    # exp(-2000) is 0 in float64, its logarithm is not.
    method, out, back = PiKE(zeta1=1, zeta2=0), measured((2000, 0)), measured((0, 2000))
    assert weights_after(method, out).tolist() == [1, 0]
    assert_close(weights_after(method, out, back), vector(0.5, 0.5))


@pytest.mark.parametrize(
    ("settings", "due"),
    [
        ({"every": 4}, [4, 8]),
        ({"every": 4, "preset": "paper"}, [0, 4, 8]),
        ({"every": 4, "first": 2}, [2, 6]),
        ({"first": 7}, [7]),
    ],
)
def test_statistics_are_due_every_t0_steps_from_the_first(settings, due):
    need = PiKE(zeta1=1, zeta2=1, **settings).needs().statistics
    assert [step for step in range(10) if need.is_due(step)] == due


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"preset": "paper"}, (0, "plug-in", 2)),
        ({"preset": "recommended"}, (40, "unbiased", 8)),
        ({}, (40, "unbiased", 8)),
        # What is set beats the preset; 0 is a setting too.
        ({"preset": "paper", "first": 3, "norm": "unbiased", "rows": 16}, (3, "unbiased", 16)),
        ({"first": 0}, (0, "unbiased", 8)),
    ],
)
def test_a_preset_fills_what_is_not_set(settings, expected):
    method = PiKE(zeta1=1, zeta2=1, every=40, **settings)
    assert (method.first, method.norm, method.rows) == expected


def test_proposed_coefficients_move_the_longest_and_the_noisiest_domain_as_asked():
    # |g|^2 is 4 against 1, variance / (2b) 30 / 8 against 6 / 8: leads of 3 and 3.
    statistics = measured((7.75, 1.75, 1.75), variance=(30, 6, 6), rows=8)
    assert_close(statistics.squared_norm_unbiased_K, vector(4, 1, 1))
    zetas = proposed_coefficients(statistics, b=4)
    assert zetas == pytest.approx({"zeta1": math.log(1.1) / 3, "zeta2": math.log(1.1) / 3})
    # The odds of the first domain were 1 : 2.
    up_K = weights_after(PiKE(zeta1=zetas["zeta1"], zeta2=0), statistics)
    assert_close(up_K, vector(1.1, 1, 1) / 3.1)
    down_K = weights_after(PiKE(zeta1=0, zeta2=zetas["zeta2"]), statistics)
    assert_close(down_K, vector(1 / 1.1, 1, 1) / (2 + 1 / 1.1))
    doubled = proposed_coefficients(statistics, b=4, target=1.0)
    assert doubled["zeta1"] == pytest.approx(math.log(2) / 3)


def test_nothing_is_proposed_where_no_coefficient_moves_a_weight():
    none = {"zeta1": math.inf, "zeta2": math.inf}
    assert proposed_coefficients(measured((2, 2), variance=(3, 3)), b=4) == none
    # One domain alone was measured.
    alone = measured((2, math.nan), variance=(3, math.nan), rows=(4, 0))
    assert proposed_coefficients(alone, b=4) == none


def test_a_method_proposes_by_the_norm_that_it_uses():
    # 5 - 8 / 4 = 3 and 1 - 0 = 1: leads of 2 and, plug-in, of 4.
    statistics = measured((5, 1), variance=(8, 0))
    unbiased = PiKE(zeta1=1, zeta2=1).proposed_settings(statistics, 4)
    plug_in = PiKE(zeta1=1, zeta2=1, norm="plug-in").proposed_settings(statistics, 4)
    assert unbiased["zeta1"] == pytest.approx(math.log(1.1) / 2)
    assert plug_in["zeta1"] == pytest.approx(math.log(1.1) / 4)


def test_the_tilt_is_stable_for_losses_of_a_thousand():
    # exp(3000) overflows float64; the difference of 0.1 nats must still count e^0.3 : 1.
    y_K = tau_softmax_of_tau_loss(vector(1000.1, 1000.0), 3.0)
    assert (y_K[0] / y_K[1]).item() == pytest.approx(math.exp(0.3), rel=1e-9)
    assert tau_softmax_of_tau_loss(vector(1000.0, 0.0), 1.0).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("unknown", [math.nan, math.inf])
def test_a_domain_without_a_loss_has_no_part_in_the_tilt(unknown):
    y_K = tau_softmax_of_tau_loss(vector(LN3, unknown, 0), 1.0)
    assert_close(y_K[[0, 2]], vector(0.75, 0.25))
    assert np.isnan(y_K[1])


def test_balanced_pike_moves_by_the_squared_tilt():
    # Losses 2 and 1/2 at (2, 1); tau = ln(3) / 1.5 makes y = tau (3/4, 1/4). The exponents differ
    # by zeta1 tau^2 (9/16 * 4 - 1/16 * 1) = zeta1 tau^2 35/16: ln 3 with this zeta1, odds 3 : 1.
    tau = LN3 / 1.5
    method = BalancedPiKE(zeta1=LN3 * 16 / 35 / tau**2, zeta2=0, tau=tau, norm="plug-in")
    weights_K = weights_after(method, measured((4, 1), loss=(2, 0.5)))
    assert_close(weights_K, vector(0.75, 0.25))


def test_proposed_coefficients_count_the_tilt():
    # Equal losses: (y*_k)^2 = (1/2)^2, so that zeta1 is four times PiKE's ln 1.1 / (3 - 1).
    method, statistics = BalancedPiKE(zeta1=1, zeta2=0, tau=1), measured((3, 1), loss=(2, 2))
    zeta1 = method.proposed_settings(statistics, 4)["zeta1"]
    assert zeta1 == pytest.approx(4 * math.log(1.1) / 2)
    proposed = BalancedPiKE(zeta1=zeta1, zeta2=0, tau=1)
    assert_close(weights_after(proposed, statistics), vector(1.1, 1) / 2.1)


many = effort(max_examples=40)


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
        ((1, -2, -2), (0, 0, 0), (0, 0.5, 0.5)),
    ],
)
def test_the_solution_by_hand(lam, kap, expected):
    assert_close(
        descent_bound_minimiser(vector(*lam), vector(*kap)), vector(*expected), rtol=1e-12, atol=0
    )


def exact_minimiser(lam, kap):
    """The same by fractions: of all sets of cheapest domains, the largest with positive weights."""
    cheapest = sorted(range(len(lam)), key=lambda k: lam[k])
    for count in range(len(lam), 0, -1):
        active = cheapest[:count]
        nu = (1 + sum(lam[k] / kap[k] for k in active)) / sum(1 / kap[k] for k in active)
        if all(nu > lam[k] for k in active):
            return [float(max(0, nu - lam[k]) / kap[k]) for k in range(len(lam))]
    raise AssertionError("the cheapest alone is always such a set")


@many
@given(
    st.lists(
        st.tuples(st.floats(-1e12, 1e12), st.integers(-25, 25).map(lambda power: 10.0**power)),
        min_size=1,
        max_size=6,
    )
)
def test_fractions_give_the_same_for_kappas_of_any_size(lambdas_and_kappas):
    lam, kap = zip(*lambdas_and_kappas, strict=True)
    weights_K = descent_bound_minimiser(vector(*lam), vector(*kap))
    expected = exact_minimiser([Fraction(x) for x in lam], [Fraction(x) for x in kap])
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


def test_a_domain_without_an_estimate_keeps_its_weight_in_theory():
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
