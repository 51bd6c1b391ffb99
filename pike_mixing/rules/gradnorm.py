"""GradNorm (Chen et al. 2018, arXiv 1711.02257): slow domains get a larger gradient."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, Signals, State
from pike_mixing.numerics.simplex import softmax
from pike_mixing.rules.surgery import Surgeon, gramian_and_present_domains
from pike_mixing.setting_limits import NonNegativeFloat, NonNegativeInt, PositiveFloat


@dataclasses.dataclass(frozen=True, kw_only=True)
class GradNorm(Surgeon):
    """Mix, with coefficients w_k / K that bring each |w_k g_k| to its training rate's share.

    Differs from LibMTL in the update of the weights: theta takes a gradient step of its own, in
    units of the mean gradient, where LibMTL's takes one of the model's optimizer with its decay.
    A language model's gradients shrink by orders of magnitude: no rate in their units would last.
    """

    about: ClassVar[str] = (
        "Equal shares, but gradients are scaled so that slow domains get longer ones."
    )

    rate: PositiveFloat = 0.025
    """Step of theta, the logarithms of the weights."""
    alpha: NonNegativeFloat = 1.5
    """Strength with which a slow domain's gradient is raised; 0 makes all gradients equal."""
    first: NonNegativeInt = 100
    """Step whose losses the training rates refer to; equal weights up to it."""

    def needs(self) -> Needs:
        """The Gramian, for its diagonal, and the losses."""
        return Needs(losses=True, gramian=True)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Theta 0; no losses to refer to (NaN)."""
        state = super().init(domains, seed)
        zero_K = np.zeros_like(state["weights_K"])
        return {**state, "theta_K": zero_K, "initial_loss_K": np.full_like(zero_K, np.nan)}

    def coefficients(
        self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals
    ) -> Floats:
        """The softmax of theta, w_k / K: on the scale of Mix."""
        return softmax(state["theta_K"][present_P])

    def observe(self, state: State, signals: Signals) -> State:
        """Gradient step of theta on sum_k |G_k - mean(G) r_k^alpha|, the target held constant.

        G_k = w_k |g_k| with w = P softmax(theta) over the P domains with a gradient;
        r_k = (L_k / L_k(first)) / mean. A domain absent then refers to its first loss after.
        """
        if signals.gram_KxK is None or signals.loss_K is None or signals.step < self.first:
            return state
        initial_K = state["initial_loss_K"]
        initial_K = np.where(np.isnan(initial_K), signals.loss_K, initial_K)
        gram_PxP, present_P = gramian_and_present_domains(signals)
        if (signals.loss_K[present_P] <= 0).any():
            raise InputError(
                f"step {signals.step}: gradnorm divides by the domains' losses "
                f"{signals.loss_K.tolist()}, and one of them is not positive: train with another "
                "rule"
            )
        if not len(present_P):
            return state | {"initial_loss_K": initial_K}
        z_P = softmax(state["theta_K"][present_P])
        G_P = len(z_P) * z_P * np.sqrt(gram_PxP.diagonal())
        ratio_P = (signals.loss_K / initial_K)[present_P]
        gap_P = G_P - G_P.mean() * (ratio_P / ratio_P.mean()) ** self.alpha
        # Norms of float32 gradients are known to 1e-7: a smaller gap has no sign.
        side_P = np.where(np.abs(gap_P) > 1e-6 * G_P.mean(), np.sign(gap_P), 0)
        # dG_k / dtheta_j = G_k ([j = k] - z_j).
        slope_P = (side_P * G_P - z_P * (side_P * G_P).sum()) / G_P.mean()
        theta_K = state["theta_K"].copy()
        theta_K[present_P] -= self.rate * slope_P
        return state | {"theta_K": theta_K, "initial_loss_K": initial_K}
