"""FAMO: loss weights under which all log-losses fall at the same pace (arXiv 2306.03792)."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import refuse
from pike_mixing.interface import Needs, Signals, State
from pike_mixing.numerics.simplex import softmax
from pike_mixing.rules.static import Mix
from pike_mixing.setting_limits import NonNegativeFloat, PositiveFloat

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's constants for the logits; the last one also keeps a loss off its lower bound."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FAMO(Mix):
    """Mix, where the domain whose log-loss fell least gains weight in the loss."""

    about: ClassVar[str] = (
        "Equal shares, but losses are weighed so that all of them fall at the same pace."
    )

    rate: PositiveFloat = 0.025
    """Adam's step on the logits xi."""
    gamma: NonNegativeFloat = 0.01
    """Decay of the logits, as a gradient inside Adam; its sources use 1e-5 to 1e-2."""
    lower_bounds: dict[str, NonNegativeFloat] | None = None
    """Nats per token m_k that no loss of a domain reaches, such as its entropy; 0 when absent."""

    def needs(self) -> Needs:
        """The losses of the batch before and after the update."""
        return Needs(losses=True, weighs_losses=True, losses_after=True)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Logits 0, Adam's moments 0, and the number of updates that each logit has had."""
        state = super().init(domains, seed)
        zero_K = np.zeros_like(state["weights_K"])
        bounds = self.lower_bounds or dict.fromkeys(domains, 0.0)
        return {
            **state,
            "logits_K": zero_K,
            "bound_K": by_domain.values_in_order(bounds, domains, "lower_bounds", "bound"),
            "first_K": zero_K.copy(),
            "second_K": zero_K.copy(),
            "updates_K": np.zeros(len(domains), dtype=np.int64),
        }

    def loss_weights(self, state: State, signals: Signals) -> Floats:
        """(z_k / D_k) / sum_j z_j / D_j with z = softmax(xi): the gradient of sum_k z_k log D_k.

        They sum to 1, Mix's scale. A domain without rows has weight 0.
        """
        assert signals.loss_K is not None
        logits_K = np.where(np.isnan(signals.loss_K), np.nan, state["logits_K"])
        above_K = self.checked_losses_minus_bounds(state, signals.loss_K, signals.step)
        pull_K = softmax_keeping_nan(logits_K) / above_K
        return np.nan_to_num(pull_K / np.nansum(pull_K))

    def observe(self, state: State, signals: Signals) -> State:
        """Adam on xi with gradient z (delta - z . delta) + gamma xi, delta the fall of log D."""
        if signals.loss_K is None or signals.loss_after_K is None:
            return state
        before_K = self.checked_losses_minus_bounds(state, signals.loss_K, signals.step)
        after_K = self.checked_losses_minus_bounds(state, signals.loss_after_K, signals.step)
        delta_K = np.log(before_K) - np.log(after_K)
        z_K = softmax_keeping_nan(np.where(np.isnan(delta_K), np.nan, state["logits_K"]))
        slope_K = z_K * (delta_K - np.nansum(z_K * delta_K)) + self.gamma * state["logits_K"]
        present_K = ~np.isnan(slope_K)
        first_K = BETA1 * state["first_K"] + (1 - BETA1) * slope_K
        second_K = BETA2 * state["second_K"] + (1 - BETA2) * slope_K**2
        updates_K = state["updates_K"] + 1
        # Exponents in float64: 1 - 0.999 has four digits in float32.
        mean_K = first_K / (1 - BETA1 ** updates_K.astype(np.float64))
        square_K = second_K / (1 - BETA2 ** updates_K.astype(np.float64))
        moved = {
            "logits_K": state["logits_K"] - self.rate * mean_K / (np.sqrt(square_K) + EPSILON),
            "first_K": first_K,
            "second_K": second_K,
            "updates_K": updates_K,
        }
        return state | {n: np.where(present_K, new, state[n]) for n, new in moved.items()}

    def checked_losses_minus_bounds(self, state: State, loss_K: Floats, step: int) -> Floats:
        """D_k = L_k - m_k + 1e-8, NaN for a domain without rows; refuses a loss below its bound."""
        bound_K = state["bound_K"]
        problems = [
            f"lower_bounds: {bound_K[k]:g} of the run's domain {k + 1} is above its loss "
            f"{loss_K[k]:g} at step {step}: lower it (losses must not be negative)"
            for k in np.flatnonzero(loss_K < bound_K)
        ]
        refuse(problems)
        return loss_K - bound_K + EPSILON


def softmax_keeping_nan(logits_K: Floats) -> Floats:
    """Softmax of the logits that are not NaN; NaN for the others."""
    absent_K = np.isnan(logits_K)
    return np.where(absent_K, np.nan, softmax(np.where(absent_K, -np.inf, logits_K)))
