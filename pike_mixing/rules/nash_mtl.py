"""Nash-MTL (Navon et al. 2022, "Multi-Task Learning as a Bargaining Game", Algorithm 1)."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Signals, State
from pike_mixing.rules.surgeon import Scale, Surgeon, not_converged

ENOUGH = 1e-10
"""Newton's decrement at which alpha_k (G alpha)_k = 1 holds as well as can be."""
TOLERANCE = 1e-6
"""Rounding may end it at a larger one, where gradients nearly cancel; up to this it is accepted."""
NEWTON_STEPS = 200
"""Ten are usual; each may no more than double a weight."""
OPPOSITE = 1e6
"""Parts alpha_k |g_k| this long, of an update of length sqrt(K), cancel to within rounding."""


@dataclasses.dataclass(frozen=True)
class NashMTL(Surgeon):
    """Mix, where the domains bargain for the update: each gains in proportion to its own terms."""

    about: ClassVar[str] = "Equal shares; the domains bargain for the direction of the update."

    scale: Scale = "mix"
    """mix: weights divided by their sum; reference: weights alpha with G alpha = 1 / alpha, for
    which the update's length is sqrt(K), whatever the lengths of the gradients. The authors' code
    (nash-mtl cce1840, `weight_methods.py`: `max_norm` is 1.0) then clips it to length 1, as LibMTL
    and TorchJD do: clip to 1 for the same. Theirs is an approximation in 20 convex programs."""

    def solve(self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals) -> Floats:
        """Weights alpha > 0 with G alpha = 1 / alpha, equation (2) of the paper."""
        alpha_P, decrement = bargain(gram_PxP)
        if decrement > TOLERANCE:
            why = f"their bargain is off by {decrement:.1g}"
            raise not_converged("nash-mtl", signals.step, why)
        return alpha_P / alpha_P.sum() if self.scale == "mix" else alpha_P


def bargain(gram_PxP: Floats) -> tuple[Floats, float]:
    """Solution of G alpha = 1 / alpha, and the last Newton decrement.

    It is the minimum of the self-concordant alpha . G alpha / 2 - sum_k log alpha_k, on which
    damped Newton steps converge from anywhere. A step in log alpha solves
    (A G A + 1) x = 1 - A G alpha with A = diag(alpha), whose matrix is well conditioned for
    Gramians of any rank. Only gradients of which some positive combination is zero have no minimum.
    """
    norm_P = np.sqrt(gram_PxP.diagonal())
    one_PxP = np.eye(len(norm_P))
    # The solution for identical gradients.
    alpha_P = 1 / (norm_P * len(norm_P) ** 0.5)
    decrement = np.inf
    for _ in range(NEWTON_STEPS):
        bargain_PxP = gram_PxP * np.outer(alpha_P, alpha_P)
        rest_P = 1 - bargain_PxP.sum(axis=1)
        x_P = np.linalg.solve(bargain_PxP + one_PxP, rest_P)
        decrement = max(float(x_P @ rest_P), 0.0) ** 0.5
        if decrement <= ENOUGH or (alpha_P * norm_P).max() > OPPOSITE:
            break
        alpha_P = alpha_P * (1 + x_P / (1 + decrement if decrement > 0.25 else 1))
    return alpha_P, decrement
