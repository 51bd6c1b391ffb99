"""Online Data Mixing: a bandit whose arms are the domains and whose reward is the loss.

Source: arXiv 2312.02406 and its repository `alon-albalak/online-data-mixing`, which differ.
"""

import dataclasses
import math
from typing import ClassVar, Literal

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, Needs, Signals, State
from pike_mixing.numerics.simplex import softmax
from pike_mixing.setting_limits import NonNegativeInt, Proportions, ShareBelowOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class OnlineDataMixing(Method):
    """Domains with a high loss get more, every domain gets at least the exploration rate eps_t."""

    about: ClassVar[str] = (
        "A bandit: reads more of domains with a high loss and never quite forgets the others."
    )

    variant: Literal["paper", "code"] = "paper"
    """Paper: reward L / w, weights ~ exp(eps R). Code: reward exp(L), weights ~ R."""
    warmup: NonNegativeInt = 2000
    """Steps with the initial weights and without rewards: exp(L) of a first loss is 60,000."""
    memory: ShareBelowOne = 0.9
    """Share of the old reward in the new one."""
    prior: Proportions | None = None
    """Weights of the warm-up by domain; 1/K when absent."""

    def needs(self) -> Needs:
        """The batch's losses."""
        return Needs(losses=True)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The initial weights, no reward."""
        weights_K = by_domain.shares_in_order(self.prior, domains, "prior")
        return {"weights_K": weights_K, "reward_K": np.zeros_like(weights_K)}

    def observe(self, state: State, signals: Signals) -> State:
        """R_k <- m R_k + (1 - m) reward_k.

        A domain without rows, or whose reward is beyond a float64 (e^710; a loss over a weight of
        0), keeps its reward.
        """
        loss_K, t = signals.loss_K, signals.step + 1
        if loss_K is None or np.isnan(loss_K).all() or t <= self.warmup:
            return state
        gain_K = loss_K / state["weights_K"] if self.variant == "paper" else np.exp(loss_K)
        reward_K = self.memory * state["reward_K"] + (1 - self.memory) * gain_K
        reward_K = np.where(np.isfinite(reward_K), reward_K, state["reward_K"])
        rule = exponential_weights if self.variant == "paper" else linear_weights
        return {"weights_K": rule(reward_K, t), "reward_K": reward_K}


def exponential_weights(reward_K: Floats, t: int) -> Floats:
    """Exp3 after t steps: w ~ exp(eps_{t-1} R), of which a share K eps_t goes to exploration."""
    K = len(reward_K)
    eps = exploration_rate(K, t)
    return (1 - K * eps) * softmax(exploration_rate(K, t - 1) * reward_K) + eps


def linear_weights(reward_K: Floats, t: int) -> Floats:
    """The released code's rule for mixed batches: w ~ R, with the same exploration."""
    K = len(reward_K)
    eps = exploration_rate(K, t)
    # None has one where each was beyond a float64. A power of two keeps their sum below that.
    part_K = reward_K / 2.0**64 if reward_K.any() else np.ones(K)
    return (1 - K * eps) * part_K / part_K.sum() + eps


def exploration_rate(K: int, t: int) -> float:
    """eps_t = min(1/K, sqrt(ln K / (K t)))."""
    return min(1 / K, math.sqrt(math.log(K) / (K * t))) if t else 1 / K
