"""PCGrad (Yu et al. 2020, "Gradient Surgery for Multi-Task Learning", Algorithm 1)."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Signals, State
from pike_mixing.numerics import visits
from pike_mixing.rules.surgeon import Scale, Surgeon


@dataclasses.dataclass(frozen=True)
class PCGrad(Surgeon):
    """Mix, where a gradient loses what it has against another domain's.

    Without a conflict (no negative inner product) the update is the mean of the domains' gradients.
    """

    about: ClassVar[str] = (
        "Equal shares; where two domains' gradients conflict, the conflicting part is removed."
    )

    scale: Scale = "mix"
    """mix: mean of the K altered gradients; reference: their sum."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Weights 1/K, and keys for the random order of the projections."""
        return {**super().init(domains, seed), "key_K": visits.keys(domains, seed)}

    def solve(self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals) -> Floats:
        """Coefficients of the sum of the projected gradients, lines 8-9."""
        order = visits.orders(state["key_K"][present_P], signals.step)
        sum_P = projected(gram_PxP, order).sum(axis=0)
        return sum_P / len(sum_P) if self.scale == "mix" else sum_P


def projected(gram_PxP: Floats, orders: list[list[int]]) -> Floats:
    """Lines 2-7 for all i: g'_i = sum_j a_ij g_j as the coefficients a_PxP.

    Starting from g'_i = g_i, for j in random order: if g'_i . g_j < 0,
    g'_i <- g'_i - (g'_i . g_j) / |g_j|^2 g_j, with the original g_j.
    """
    a_PxP = np.eye(len(gram_PxP))
    for a_P, order in zip(a_PxP, orders, strict=True):
        for j in order:
            dot = a_P @ gram_PxP[j]
            if dot < 0:
                a_P[j] -= dot / gram_PxP[j, j]
    return a_PxP
