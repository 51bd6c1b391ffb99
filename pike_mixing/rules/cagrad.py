"""CAGrad (Liu et al. 2021, "Conflict-Averse Gradient Descent", Algorithm 1)."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Signals, State
from pike_mixing.limits import ShareBelowOne
from pike_mixing.numerics.simplex import lowest
from pike_mixing.rules.surgeon import Scale, Surgeon, not_converged


@dataclasses.dataclass(frozen=True)
class CAGrad(Surgeon):
    """Mix, where the update is best for the worst domain within a ball around the mean gradient."""

    about: ClassVar[str] = (
        "Equal shares; the update is near the mean gradient and best for the domain that gains "
        "least."
    )

    c: ShareBelowOne = 0.4
    """Radius of the ball in lengths of the mean gradient; 0 is the mean gradient itself."""
    scale: Scale = "mix"
    """mix: the update divided by 1 + c; reference: the update of Algorithm 1."""

    def solve(self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals) -> Floats:
        """Coefficients of g_0 + sqrt(phi) / |g_w| g_w, with g_0 the mean gradient.

        sqrt(phi) = c |g_0|, and w minimises g_w . g_0 + sqrt(phi) |g_w| over the simplex.
        """
        mean_P = np.full(len(gram_PxP), 1 / len(gram_PxP))
        dot_P = gram_PxP @ mean_P
        radius = self.c * max(float(mean_P @ dot_P), 0.0) ** 0.5
        shrink = 1 + self.c if self.scale == "mix" else 1.0
        if radius == 0:
            return mean_P / shrink
        point = lowest(dot_P, radius, gram_PxP)
        if not point.optimal:
            why = f"the weights are off by {point.excess:.1g}"
            raise not_converged("cagrad", signals.step, why)
        return (mean_P + radius / point.length * point.weights_P) / shrink
