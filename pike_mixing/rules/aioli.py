"""Aioli: learns in short excursions how each domain helps each other (arXiv 2411.05735).

A round of `every` steps begins with `sweeps` sweeps over the domains. In a slot of `slot` steps
the batch leans to one domain; the fall of all losses over the slot is what that mixture teaches.
The rest of the round trains on the weights that follow from it.
"""

import dataclasses
import hashlib
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Needs, Signals, State, ValidationNeed
from pike_mixing.numerics.simplex import keys_for_shuffling, softmax
from pike_mixing.setting_limits import PositiveFloat, PositiveInt, PositiveShare, ShareBelowOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class Aioli(Method):
    """w ~ exp(eta times the column sums of A), A the smoothed matrix of what helps what."""

    about: ClassVar[str] = (
        "Tries in short excursions how far each domain lowers the losses of all, then reads more "
        "of those that help most."
    )

    eta: PositiveFloat = 1.0
    """Step of the logarithm of the weights; the entries of A sum to 1."""
    ema: ShareBelowOne = 0.1
    """Share of the old A in the new one."""
    lean: PositiveShare = 0.75
    """Weight of the slot's domain; the others share the rest."""
    sweeps: PositiveInt = 2
    """Slots of each domain in a round."""
    slot: PositiveInt = 10
    """Steps of a slot. Held-out losses are measured so often in the rest of a round too, unused."""
    every: int = 200
    """Steps of a round."""
    rows: PositiveInt = 16
    """Rows of comparison of each domain."""

    def problems(self) -> list[str]:
        """A round that ends within a slot."""
        if self.slot < 1 or self.every % self.slot == 0:
            return []
        return [f"every: must be a multiple of slot, {self.slot}"]

    def needs(self) -> Needs:
        """Losses on rows of comparison at the ends of the slots."""
        return Needs(validation=ValidationNeed(0, self.slot, self.rows))

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Equal weights, no A, and keys for the random order of the slots."""
        K, steps = len(domains), self.sweeps * len(domains) * self.slot
        if steps >= self.every:
            raise InputError(
                f"every: {self.every} steps do not hold {self.sweeps} x {K} slots of {self.slot} "
                f"and a rest: raise it above {steps}, or lower sweeps or slot"
            )
        if K > 1 and abs(self.lean - 1 / K) < 1e-6:
            raise InputError(f"lean: {self.lean} leans to none of {K} domains: raise it")
        return {
            "weights_K": by_domain.equal_weights(K),
            "fall_KxK": np.zeros((K, K)),
            "graph_KxK": np.full((K, K), np.nan),
            "last_K": np.full(K, np.nan),
            "key_K": keys_for_shuffling(domains, seed),
        }

    def weights(self, state: State, step: int) -> Floats:
        """The slot's leaning mixture, or the weights of the last update."""
        k, weights_K = self.leaning_domain(state, step), state["weights_K"]
        return weights_K if k is None else leaning_mixtures(len(weights_K), self.lean)[k]

    def observe(self, state: State, signals: Signals) -> State:
        """Credits the slot that has ended with the fall of all losses; after the last, updates w.

        A domain without a loss has not fallen.
        """
        if signals.validation_loss_K is None:
            return state
        loss_K = np.where(
            np.isnan(signals.validation_loss_K), state["last_K"], signals.validation_loss_K
        )
        ended = self.leaning_domain(state, signals.step - 1)
        if ended is None:
            return state | {"last_K": loss_K, "fall_KxK": np.zeros_like(state["fall_KxK"])}
        fall_K = np.nan_to_num(state["last_K"] - loss_K)
        fall_KxK = state["fall_KxK"].copy()
        fall_KxK[:, ended] += fall_K
        state = state | {"last_K": loss_K, "fall_KxK": fall_KxK}
        return (
            state
            if self.leaning_domain(state, signals.step) is not None
            else self.with_graph_and_weights(state)
        )

    def with_graph_and_weights(self, state: State) -> State:
        """A from M A^T = falls^T, shifted to be non-negative, of sum 1, averaged; then w."""
        K, old_KxK = len(state["weights_K"]), state["graph_KxK"]
        graph_KxK = nonnegative_graph_of_sum_one(
            np.linalg.solve(leaning_mixtures(K, self.lean), state["fall_KxK"].T).T
        )
        if not graph_KxK.any():
            return state
        if not np.isnan(old_KxK).any():
            graph_KxK = (1 - self.ema) * graph_KxK + self.ema * old_KxK
        weights_K = softmax(self.eta * graph_KxK.sum(axis=0))
        return state | {"weights_K": weights_K, "graph_KxK": graph_KxK}

    def leaning_domain(self, state: State, step: int) -> int | None:
        """The domain of the slot that a step lies in; None in the rest of the round."""
        key_K, place = state["key_K"].tolist(), step % self.every // self.slot
        if place >= self.sweeps * len(key_K):
            return None
        sweep = f"round {step // self.every} sweep {place // len(key_K)}"

        def draw_key(k: int) -> bytes:
            return hashlib.sha256(f"{key_K[k]} {sweep}".encode()).digest()

        return sorted(range(len(key_K)), key=draw_key)[place % len(key_K)]


def nonnegative_graph_of_sum_one(graph_KxK: NDArray[np.floating[Any]]) -> Floats:
    """A without negative entries, of sum 1; 0 where no domain helps more than another."""
    result_KxK = graph_KxK.astype(np.float64) - min(graph_KxK.min(), 0)
    return result_KxK / result_KxK.sum() if result_KxK.any() else result_KxK


def leaning_mixtures(K: int, diagonal_weight: float) -> Floats:
    """M_KxK: row i leans to domain i, with the diagonal weight on it and the rest elsewhere."""
    others = (1 - diagonal_weight) / max(K - 1, 1)
    leaning_KxK = np.full((K, K), others)
    np.fill_diagonal(leaning_KxK, diagonal_weight if K > 1 else 1.0)
    return leaning_KxK
