"""MGDA (Desideri 2012; Sener and Koltun 2018, "Multi-Task Learning as Multi-Objective ...")."""

import dataclasses
from typing import ClassVar, Literal

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, Signals, State
from pike_mixing.numerics.simplex import lowest
from pike_mixing.rules.surgeon import Surgeon, not_converged


@dataclasses.dataclass(frozen=True)
class MGDA(Surgeon):
    """Mix, where the update is the shortest vector between the domains' gradients.

    The weights of the gradients are non-negative and sum to 1, which is Mix's scale and the
    authors' too. Where gradients hardly conflict, the domain with the smallest one gets most.
    """

    about: ClassVar[str] = (
        "Equal shares; the update is the shortest vector between the domains' gradients."
    )

    normalise: Literal["none", "l2", "loss", "loss+"] = "none"
    """Each gradient is divided by n_k before the weights are sought: 1; its length |g_k|; its loss
    L_k; or L_k |g_k|. The weights then apply to the gradients as they are, as the authors do."""

    def needs(self) -> Needs:
        """The Gramian of every batch, and the losses that gradients are divided by."""
        return Needs(gramian=True, losses=self.normalise in ("loss", "loss+"))

    def solve(self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals) -> Floats:
        """Weights that minimise |sum_k w_k g_k / n_k|^2, equation (3) of Sener and Koltun."""
        n_P = self._normaliser(gram_PxP, signals, present_P)
        point = lowest(np.zeros(len(n_P)), 1.0, gram_PxP / np.outer(n_P, n_P))
        if not point.optimal:
            why = f"the shortest vector is off by {point.excess:.1g}"
            raise not_converged("mgda", signals.step, why)
        return point.weights_P

    def _normaliser(self, gram_PxP: Floats, signals: Signals, present_P: Ints) -> Floats:
        norm_P = np.sqrt(gram_PxP.diagonal())
        if self.normalise == "none":
            return np.ones_like(norm_P)
        if self.normalise == "l2":
            return norm_P
        assert signals.loss_K is not None, "checked: `needs`"
        loss_P = signals.loss_K[present_P]
        if not (loss_P > 0).all():
            raise InputError(
                f"step {signals.step}: normalise: {self.normalise} divides by the domains' losses, "
                "and one of them is not positive: set normalise: none or l2"
            )
        return loss_P * norm_P if self.normalise == "loss+" else loss_P
