import math

import numpy as np
import pytest
from arrays import assert_close, measured, vector, weights_after
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.interface import Signals
from pike_mixing.rules.pike import PiKE, proposed_coefficients, updated_log_weights

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


@pytest.mark.parametrize("min_weight", [0.0, 0.1])
def test_no_estimate_of_any_domain_changes_nothing(min_weight):
    log_weights_K = np.log(vector(0.75, 0.25))
    nothing_K = vector(math.nan, math.nan)
    assert np.array_equal(updated_log_weights(log_weights_K, nothing_K, min_weight), log_weights_K)
    # All that was measured weighs nothing, or too little for float64.
    for weightless in (-math.inf, -2000.0):
        log_weights_K, exponent_K = vector(0, weightless), vector(math.nan, 1)
        weights_K = np.exp(updated_log_weights(log_weights_K, exponent_K, min_weight))
        assert weights_K.tolist() == [1, 0]


def test_a_prior_is_where_the_weights_begin():
    method = PiKE(zeta1=LN3, zeta2=0, prior={"hi": 0.25, "en": 0.75})
    state = method.init(("en", "hi"), 0)
    assert_close(method.weights(state, 0), vector(0.75, 0.25))
    # 3 : 1 times 1 : 3.
    assert_close(weights_after(method, measured((0, 1))), vector(0.5, 0.5))


def test_a_domain_that_was_driven_out_can_return():
    method = PiKE(zeta1=1, zeta2=0)
    state = method.init(("en", "hi"), 0)
    for squared_norm in ((2000, 0), (0, 2000)):
        signals = Signals(step=0, batch_rows=4, statistics=measured(squared_norm))
        state = method.observe(state, signals)
        if squared_norm[0]:
            assert method.weights(state, 1).tolist() == [1.0, 0.0]
    # exp(-2000) is 0 in float64, its logarithm is not.
    assert_close(method.weights(state, 2), vector(0.5, 0.5))


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


def test_a_preset_fills_what_is_not_set():
    paper = PiKE(zeta1=1, zeta2=1, every=40, preset="paper")
    assert (paper.first, paper.norm, paper.rows) == (0, "plug-in", 2)
    recommended = PiKE(zeta1=1, zeta2=1, every=40)
    assert (recommended.first, recommended.norm, recommended.rows) == (40, "unbiased", 8)
    assert recommended == PiKE(zeta1=1, zeta2=1, every=40, preset="recommended")


def test_what_is_set_beats_the_preset():
    method = PiKE(zeta1=1, zeta2=1, preset="paper", first=3, norm="unbiased", rows=16)
    assert (method.first, method.norm, method.rows) == (3, "unbiased", 16)
    # 0 is a setting too, as in the paper's first update.
    assert PiKE(zeta1=1, zeta2=1, first=0).first == 0


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


@given(st.floats(1e-6, 1e6))
def test_proposed_coefficients_undo_the_gradients_unit(scale):
    zetas = proposed_coefficients(measured((5, 2), variance=(3, 1)), b=4)
    scaled = proposed_coefficients(
        measured((5 * scale, 2 * scale), variance=(3 * scale, scale)), b=4
    )
    assert {n: v * scale for n, v in scaled.items()} == pytest.approx(zetas)


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
