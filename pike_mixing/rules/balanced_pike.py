"""Balanced-PiKE (Algorithm `alg: fair_main`): PiKE on the tilted loss, for even losses."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.interface import Statistics
from pike_mixing.limits import PositiveFloat
from pike_mixing.numerics.softmax import softmax
from pike_mixing.rules.pike import PiKE


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancedPiKE(PiKE):
    """PiKE with its exponents multiplied by (y*_k)^2.

    tau is a step size too: at equal losses (y*_k)^2 is (tau / K)^2, for K = 3 that is 0.11, 1 and
    2.8 at tau 1, 3 and 5.
    """

    about: ClassVar[str] = (
        "As PiKE, but domains with a higher loss count for more, so that none is left behind; tau "
        "says how much."
    )

    tau: PositiveFloat
    """Weight of the worst loss: towards 0 their mean is minimised, towards infinity the largest."""

    def exponent(self, statistics: Statistics, b: int) -> Floats:
        """Line 7: (y*_k)^2 (zeta_1 |grad L_k|^2 - zeta_2 / (2b) sigma_k^2)."""
        return tilt(statistics.loss_K, self.tau) ** 2 * super().exponent(statistics, b)

    def proposed(self, statistics: Statistics, b: int) -> dict[str, float]:
        """PiKE's, of norms and variances times (y*_k)^2."""
        factor_K = tilt(statistics.loss_K, self.tau) ** 2
        names = ("squared_norm_K", "squared_norm_unbiased_K", "variance_K")
        tilted = {name: factor_K * getattr(statistics, name) for name in names}
        return super().proposed(dataclasses.replace(statistics, **tilted), b)


def tilt(loss_K: Floats, tau: float) -> Floats:
    """Line 6 and Lemma `lemma:MinToMinMax`: y*_k = tau softmax(tau L)_k, which sum to tau.

    A domain without a finite loss has no part in the sum and gets NaN.
    """
    tilted_K = tau * loss_K
    absent_K = ~np.isfinite(tilted_K)
    y_K = tau * softmax(np.where(absent_K, -np.inf, tilted_K))
    return np.where(absent_K, np.nan, y_K)
