"""Rules on problems whose answer is known; closed forms are worked out beside the numbers."""

import math

import pytest
from arrays import NAMES, assert_close, combined, matrix, measured, vector

from pike_mixing.interface import Signals
from pike_mixing.rules.balanced_pike import BalancedPiKE
from pike_mixing.rules.cagrad import CAGrad
from pike_mixing.rules.gradvac import GradVaccine
from pike_mixing.rules.mgda import MGDA
from pike_mixing.rules.nash_mtl import NashMTL
from pike_mixing.rules.pcgrad import PCGrad
from pike_mixing.rules.pike import PiKE
from pike_mixing.rules.upgrad import UPGrad

LN3 = math.log(3)


def descended(method):
    """Weights after two updates on L_k = theta_k^2 / 2 from (2, 1), as in Example 1.

    Between them lies a step of expected SGD, of length 1, on the weights of the first.
    """
    state, theta_K, found = method.init(NAMES[:2], 0), vector(2, 1), []
    for step in range(2):
        statistics = measured(theta_K**2, loss=theta_K**2 / 2)
        state = method.observe(state, Signals(step, 8, statistics=statistics))
        found.append(method.weights(state, step))
        theta_K = theta_K - found[-1] * theta_K
    return found


def test_pike_follows_the_gradients_as_they_shrink():
    # At (2, 1) squared norms are 4 and 1: with zeta1 = ln(3) / 3 the odds become 3 : 1. A step of
    # length 1 leaves (2 (1 - 3/4), 1 - 1/4) = (1/2, 3/4) with squared norms 1/4 and 9/16: the odds
    # become 3^(1 + (1/4 - 9/16) / 3) = 3^(43/48) : 1.
    method = PiKE(zeta1=LN3 / 3, zeta2=0, norm="plug-in")
    first_K, second_K = descended(method)
    assert_close(first_K, vector(0.75, 0.25))
    odds = 3 ** (43 / 48)
    assert_close(second_K, vector(odds, 1) / (odds + 1))


def test_balanced_pike_moves_by_the_squared_tilt_at_each_point_of_the_path():
    # Losses 2 and 1/2 at (2, 1); tau = ln(3) / 1.5 makes y = tau (3/4, 1/4). The exponents differ
    # by zeta1 tau^2 (9/16 * 4 - 1/16 * 1) = zeta1 tau^2 35/16: ln 3 with this zeta1, odds 3 : 1.
    # A step leaves (1/2, 3/4), losses 1/8 and 9/32: y = tau (r, 1) / (r + 1), r = 3^(-5/48).
    tau = LN3 / 1.5
    zeta1 = LN3 * 16 / 35 / tau**2
    method = BalancedPiKE(zeta1=zeta1, zeta2=0, tau=tau, norm="plug-in")
    first_K, second_K = descended(method)
    assert_close(first_K, vector(0.75, 0.25))
    r = 3 ** (-5 / 48)
    odds = 3 ** (1 + 16 / 35 * (r**2 / 4 - 9 / 16) / (r + 1) ** 2)
    assert_close(second_K, vector(odds, 1) / (odds + 1))


TWO = matrix([2, 0], [-1, 1])
"""Gradients of lengths 2 and sqrt(2), of product -2."""
BENT = (17.6 - 35.2**0.5) / 44
"""CAGrad's w_1 at c = 0.8. With g_w = (3 w - 1, 1 - w), g_w . g_0 = w and radius r^2 = 0.32, the
slope 1 + r (10 w - 4) / |g_w| is zero where 22 w^2 - 17.6 w + 3.12 = 0 and w < 0.4."""


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # g_1' = g_1 + g_2 and g_2' = g_2 + g_1 / 2, and their mean.
        (PCGrad(), [0.75, 1]),
        (GradVaccine(), [0.75, 1]),
        (UPGrad(), [0.75, 1]),
        # w_1 = g_2 . (g_2 - g_1) / |g_1 - g_2|^2 = 4 / 10.
        (MGDA(), [0.4, 0.6]),
        # The slope is positive everywhere: w = (0, 1), r / |g_2| = 0.4 sqrt(1/2) / sqrt(2) = 0.2.
        (CAGrad(c=0.4), [0.5 / 1.4, 0.7 / 1.4]),
        # There |g_w| = r (4 - 10 w), so r / |g_w| = 1 / (4 - 10 w).
        (
            CAGrad(c=0.8, scale="reference"),
            [0.5 + BENT / (4 - 10 * BENT), 0.5 + (1 - BENT) / (4 - 10 * BENT)],
        ),
        # alpha_1 (4 alpha_1 - 2 alpha_2) = 1 = alpha_2 (2 alpha_2 - 2 alpha_1): alpha_k |g_k| is
        # even, alpha_1^2 = 1 / (4 - 2 sqrt(2)).
        (NashMTL(scale="reference"), [(4 - 8**0.5) ** -0.5, (2 - 2**0.5) ** -0.5]),
        (NashMTL(), [1 / (1 + 2**0.5), 2**0.5 / (1 + 2**0.5)]),
    ],
)
def test_two_conflicting_gradients_by_hand(method, expected):
    assert combined(method, TWO).tolist() == pytest.approx(expected, rel=1e-6)
