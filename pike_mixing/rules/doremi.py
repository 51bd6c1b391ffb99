"""DoReMi's proxy: group DRO over the domains' excess losses (arXiv 2305.10429, Algorithm 1).

Its average weights are the mixture of the final run; `fixed` trains with them.
"""

import dataclasses
from typing import Annotated, ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, Needs, Signals, State
from pike_mixing.numerics.simplex import fill_gaps_by_last_or_mean, softmax
from pike_mixing.setting_limits import Limits, PositiveFloat, Proportions


@dataclasses.dataclass(frozen=True, kw_only=True)
class DoReMi(Method):
    """Samples with fixed weights q; the loss weighs most where the model trails the reference."""

    about: ClassVar[str] = (
        "Shares stay as they began, but losses are weighed: more where the model trails a "
        "reference model that was trained before. The average weights are the mixture for another "
        "run."
    )

    reference: str
    """Name of the method whose run, of the same model and seed, is the reference model."""
    rate: PositiveFloat = 1.0
    """eta, step of the logarithm of the weights per nat of excess."""
    smoothing: Annotated[float, Limits(above=0, below=1)] = 1e-3
    """c, share of the uniform weights in every update, without which a weight can die out; its
    code's default is 1e-4."""
    prior: Proportions | None = None
    """Sampling weights q and initial weights by domain; 1/K when absent. A domain of weight 0 is no
    part of the mixture: it keeps the weight 0, and the smoothing is over the others."""

    def needs(self) -> Needs:
        """Excess over the reference model, before the backward pass."""
        return Needs(losses=True, reference=True)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Weights and their running average, q, and the last excess of each domain (NaN: none)."""
        weights_K = by_domain.shares_in_order(self.prior, domains, "prior")
        return {
            "sampling_K": weights_K,
            "dro_K": weights_K.copy(),
            "average_K": weights_K.copy(),
            "excess_K": np.full_like(weights_K, np.nan),
            "updates": np.array(0),
        }

    def weights(self, state: State, step: int) -> Floats:
        """The fixed q: the proxy weighs losses, not rows."""
        return state["sampling_K"]

    def loss_weights(self, state: State, signals: Signals) -> Floats:
        """(w_k / q_k) b_k / sum_j (w_j / q_j) b_j, with the weights that this batch leads to.

        So the loss is the mean over the batch's tokens, each weighed w/q: not the sum of the
        domains' means weighed w.
        """
        assert signals.count_K is not None
        dro_K, sampling_K = self.with_updated_weights(state, signals)["dro_K"], state["sampling_K"]
        pull_K = np.where(sampling_K == 0, 0, dro_K / sampling_K * signals.count_K)
        return pull_K / pull_K.sum()

    def observe(self, state: State, signals: Signals) -> State:
        """The state after `with_updated_weights`."""
        return self.with_updated_weights(state, signals)

    def with_updated_weights(self, state: State, signals: Signals) -> State:
        """Adds eta excess_k to log w_k, normalises; w <- (1 - c) w + c / K; then the average.

        A domain without rows counts with its last excess, before it ever had one with the others'
        mean, which leaves its odds as they are.
        """
        if signals.excess_K is None or np.isnan(signals.excess_K).all():
            return state
        last_K = np.where(np.isnan(signals.excess_K), state["excess_K"], signals.excess_K)
        excess_K = fill_gaps_by_last_or_mean(signals.excess_K, state["excess_K"])
        dro_K = softmax(np.log(state["dro_K"]) + self.rate * excess_K)
        mixed_K = (state["sampling_K"] > 0).astype(np.float64)
        dro_K = (1 - self.smoothing) * dro_K + self.smoothing / int(mixed_K.sum()) * mixed_K
        updates = np.asarray(state["updates"] + 1)
        average_K = state["average_K"] + (dro_K - state["average_K"]) / (updates + 1)
        return state | {
            "dro_K": dro_K,
            "average_K": average_K,
            "excess_K": last_K,
            "updates": updates,
        }
