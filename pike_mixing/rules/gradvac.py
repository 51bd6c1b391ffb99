"""GradVaccine (Wang et al. 2021, "Gradient Vaccine", Algorithm 1), the whole model as one group."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Signals, State
from pike_mixing.limits import PositiveShare, ShareBelowOne
from pike_mixing.numerics import visits
from pike_mixing.rules.surgeon import Scale, Surgeon, of_present

VANISHED = 1e-9
"""A gradient that shrank to this part of its length has no direction left to turn."""


@dataclasses.dataclass(frozen=True)
class GradVaccine(Surgeon):
    """Mix, where a gradient is turned to its usual angle with another domain's.

    The usual cosine of a pair is a moving average from 0 on. PCGrad is the case of a target 0.
    """

    about: ClassVar[str] = (
        "Equal shares; gradients are turned towards the angle that they usually have with each "
        "other."
    )

    beta: PositiveShare = 0.01
    """Weight of the newest cosine in the moving average."""
    highest_target: ShareBelowOne = 0.9
    """Targets above this count as this. A gradient orthogonal to one of the same length gets
    rho / sqrt(1 - rho^2) of it added: 2 at a target rho of 0.9, 7 at 0.99."""
    scale: Scale = "mix"
    """mix: mean of the K altered gradients; reference: their sum."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Weights 1/K, keys for the random order, and targets 0."""
        K = len(domains)
        return {
            **super().init(domains, seed),
            "key_K": visits.keys(domains, seed),
            "target_KxK": np.zeros((K, K)),
        }

    def solve(self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals) -> Floats:
        """Coefficients of the sum of the turned gradients."""
        sum_P = self._visit(state, signals.step, gram_PxP, present_P)[0].sum(axis=0)
        return sum_P / len(sum_P) if self.scale == "mix" else sum_P

    def observe(self, state: State, signals: Signals) -> State:
        """The moving averages after the visits of this step; pairs with an absent domain stay."""
        if signals.gram_KxK is None:
            return state
        gram_PxP, present_P = of_present(signals)
        target_KxK = state["target_KxK"].copy()
        _, target_PxP = self._visit(state, signals.step, gram_PxP, present_P)
        target_KxK[present_P[:, None], present_P] = target_PxP
        return {**state, "target_KxK": target_KxK}

    def _visit(
        self, state: State, step: int, gram_PxP: Floats, present_P: Ints
    ) -> tuple[Floats, Floats]:
        target_PxP = state["target_KxK"][present_P[:, None], present_P]
        order = visits.orders(state["key_K"][present_P], step)
        return turned(
            gram_PxP, target_PxP, order, beta=self.beta, highest_target=self.highest_target
        )


def turned(
    gram_PxP: Floats,
    target_PxP: Floats,
    orders: list[list[int]],
    *,
    beta: float,
    highest_target: float,
) -> tuple[Floats, Floats]:
    """For all i, g'_i = sum_j a_ij g_j as the coefficients a_PxP; and the next targets.

    Starting from g'_i = g_i, for j in random order: with rho = cos(g'_i, g_j) and its target
    rho*, if rho < rho*,

        g'_i <- g'_i + |g'_i| (rho* sqrt(1 - rho^2) - rho sqrt(1 - rho*^2))
                       / (|g_j| sqrt(1 - rho*^2)) g_j

    which gives g'_i the cosine rho* with g_j; then rho* <- (1 - beta) rho* + beta rho.

    Args:
        gram_PxP: Inner products of the gradients.
        target_PxP: Targets rho* of the cosines.
        orders: For each domain, the others in the order of its visits.
        beta: Share of the new cosine in the next target.
        highest_target: Targets above this count as this.
    """
    a_PxP = np.eye(len(gram_PxP))
    next_PxP = target_PxP.copy()
    norm = np.sqrt(gram_PxP.diagonal()).tolist()
    for i, (a_P, order) in enumerate(zip(a_PxP, orders, strict=True)):
        for j in order:
            dot_P = gram_PxP @ a_P
            length = max(float(a_P @ dot_P), 0.0) ** 0.5
            if length <= VANISHED * norm[i]:
                break
            rho = min(max(float(dot_P[j]) / (length * norm[j]), -1.0), 1.0)
            target = min(float(target_PxP[i, j]), highest_target)
            if rho < target:
                sine, target_sine = (1 - rho**2) ** 0.5, (1 - target**2) ** 0.5
                turn = (target * sine - rho * target_sine) / target_sine
                a_P[j] += turn * length / norm[j]
            next_PxP[i, j] += beta * (rho - next_PxP[i, j])
    return a_PxP, next_PxP
