"""Rules on a problem whose answer is known: quadratic losses with known gradients.

    L_k(theta) = |A_k (theta - theta_k)|^2 / 2    with the gradient A_k' A_k (theta - theta_k)

Closed forms are worked out beside the numbers; the rest is left to a solver that knows nothing of
the rules.
"""

import dataclasses
import math

import arrays
import numpy as np
import pytest
from arrays import NAMES, assert_close, measured, vector

from pike_mixing.arrays import Floats
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


@dataclasses.dataclass(frozen=True)
class Quadratic:
    """The loss of one domain."""

    A: Floats
    centre_D: Floats

    def loss(self, theta_D):
        return ((self.A @ (theta_D - self.centre_D)) ** 2).sum() / 2

    def gradient(self, theta_D):
        return self.A.T @ self.A @ (theta_D - self.centre_D)


def along_axes(curvature_K):
    """L_k = c_k theta_k^2 / 2: orthogonal gradients c_k theta_k e_k, as in Example 1."""
    K = len(curvature_K)
    axes = zip(curvature_K, np.eye(K), strict=True)
    return [Quadratic(math.sqrt(c) * e[None], np.zeros(K)) for c, e in axes]


def descended(method, problem, theta_D, *, updates, b, eta):
    """Weights after each update, with a step of expected SGD on them between two updates."""
    state, found = method.init(NAMES[: len(problem)], 0), []
    for step in range(updates):
        gradient_KxD = np.stack([one.gradient(theta_D) for one in problem])
        loss = [one.loss(theta_D) for one in problem]
        statistics = measured((gradient_KxD**2).sum(axis=1), loss=loss)
        state = method.observe(state, Signals(step, b, statistics=statistics))
        found.append(method.weights(state, step))
        theta_D = theta_D - eta * found[-1] @ gradient_KxD
    return found


def test_pike_follows_the_gradients_as_they_shrink():
    # At (2, 1) squared norms are 4 and 1: with zeta1 = ln(3) / 3 the odds become 3 : 1. A step of
    # length 1 leaves (2 (1 - 3/4), 1 - 1/4) = (1/2, 3/4) with squared norms 1/4 and 9/16: the odds
    # become 3^(1 + (1/4 - 9/16) / 3) = 3^(43/48) : 1.
    method = PiKE(zeta1=LN3 / 3, zeta2=0, norm="plug-in")
    first_K, second_K = descended(method, along_axes([1, 1]), vector(2, 1), updates=2, b=8, eta=1)
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
    first_K, second_K = descended(method, along_axes([1, 1]), vector(2, 1), updates=2, b=8, eta=1)
    assert_close(first_K, vector(0.75, 0.25))
    r = 3 ** (-5 / 48)
    odds = 3 ** (1 + 16 / 35 * (r**2 / 4 - 9 / 16) / (r + 1) ** 2)
    assert_close(second_K, vector(odds, 1) / (odds + 1))


def general(seed):
    """Three quadratics in four dimensions, of any orientation."""
    generator = np.random.default_rng(seed)
    numbers_KxDxD = generator.standard_normal((3, 4, 4))
    centre_KxD = generator.standard_normal((3, 4))
    return [Quadratic(*one) for one in zip(numbers_KxDxD, centre_KxD, strict=True)]


def combined(method, problem, theta_D):
    """Gradients, coefficients and update at a point."""
    gradient_KxD = np.stack([one.gradient(theta_D) for one in problem])
    loss_K = np.stack([one.loss(theta_D) for one in problem])
    coefficient_K = arrays.combined(method, gradient_KxD, loss_K=loss_K)
    return gradient_KxD, coefficient_K, coefficient_K @ gradient_KxD


TWO = [
    # At theta = 0 the gradients are (2, 0) and (-1, 1): lengths 2 and sqrt(2), product -2.
    Quadratic(np.eye(2), vector(-2, 0)),
    Quadratic(np.eye(2), vector(1, -1)),
]
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
def test_two_conflicting_quadratics_by_hand(method, expected):
    _, coefficient_K, _ = combined(method, TWO, vector(0, 0))
    assert coefficient_K.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "method", [MGDA(), NashMTL(), UPGrad()], ids=["mgda", "nash-mtl", "upgrad"]
)
def test_no_loss_rises_where_a_surgeon_promises_it(method, seed):
    # Until the shortest vector, which is zero where no direction is good for all, has shrunk to a
    # hundredth: there the gains themselves come near to rounding.
    problem, theta_D = general(seed), np.zeros(4)
    start = np.linalg.norm(combined(MGDA(), problem, theta_D)[2])
    steps = 0
    while np.linalg.norm(combined(MGDA(), problem, theta_D)[2]) > start / 100:
        before_K = np.stack([one.loss(theta_D) for one in problem])
        gradient_KxD, _, update_D = combined(method, problem, theta_D)
        gain_K = gradient_KxD @ update_D
        assert gain_K.min() >= -1e-9 * np.linalg.norm(gradient_KxD, axis=1).max() * np.linalg.norm(
            update_D
        )
        # At half the length at which the loss of one would be least along the update.
        curvature_K = np.stack([((one.A @ update_D) ** 2).sum() for one in problem])
        lengths_K = (gain_K / curvature_K)[gain_K > 1e-9 * gain_K.max()]
        theta_D = theta_D - lengths_K.min() / 2 * update_D
        after_K = np.stack([one.loss(theta_D) for one in problem])
        assert (after_K <= before_K * (1 + 1e-6)).all()
        steps += 1
        assert steps < 500
    assert steps > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_cagrad_comes_to_the_minimum_of_the_mean_loss(seed):
    # What its authors promise for c < 1, and what MGDA does not: theta solves sum_k g_k = 0.
    problem, theta_D = general(seed), np.zeros(4)
    hessian_DxD = sum(one.A.T @ one.A for one in problem)
    minimum_D = np.linalg.solve(hessian_DxD, sum(one.A.T @ one.A @ one.centre_D for one in problem))
    step = 1 / float(np.linalg.eigvalsh(hessian_DxD).max())
    distances = [float(np.linalg.norm(theta_D - minimum_D))]
    for _ in range(600):
        _, _, update_D = combined(CAGrad(c=0.4), problem, theta_D)
        theta_D = theta_D - step * update_D
        distances.append(float(np.linalg.norm(theta_D - minimum_D)))
    assert distances[-1] <= 0.02 * distances[0]
