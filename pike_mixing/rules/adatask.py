"""AdaTask (Yang et al. 2023, "AdaTask: A Task-Aware Adaptive Learning Rate Approach ...")."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.interface import Needs, Signals, State
from pike_mixing.rules.static import Mix
from pike_mixing.rules.surgery import Scale


@dataclasses.dataclass(frozen=True)
class AdaTask(Mix):
    """Mix, where Adam keeps moments for each domain and adds up the K steps instead of gradients.

    The only rule that needs optimizer state for each domain: K times the memory of Adam's moments.
    """

    about: ClassVar[str] = (
        "Equal shares, but the optimizer keeps a memory of its own for each domain."
    )

    scale: Scale = "mix"
    """mix: mean of the domains' Adam steps; reference: their sum, so that K equal gradients move
    the parameters K times as far."""

    def needs(self) -> Needs:
        """Moments for each domain."""
        return Needs(moments_per_domain=True)

    def gradient_coefficients(self, state: State, signals: Signals) -> Floats:
        """Coefficients of the domains' Adam steps; 0 for a domain without rows."""
        assert signals.count_K is not None, "the batch's counts are known before its gradients"
        present_K = (signals.count_K > 0).astype(np.float64)
        return present_K / present_K.sum() if self.scale == "mix" else present_K
