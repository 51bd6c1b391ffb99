"""PiKE (Algorithm `alg: main`): weights follow gradient norms and variances."""

import dataclasses
import math
import sys
from typing import ClassVar, Literal

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, Needs, Signals, State, Statistics, StatisticsNeed
from pike_mixing.limits import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Proportions,
    ShareBelowOne,
    VarianceRows,
)
from pike_mixing.numerics.softmax import log_softmax, logsumexp

PRESETS: dict[str, dict[str, int | str]] = {
    "paper": {"first": 0, "norm": "plug-in", "rows": 2},
    "recommended": {"first": "every", "norm": "unbiased", "rows": 8},
}
"""What a preset puts where nothing is set; "every" stands for the value of that setting."""


@dataclasses.dataclass(frozen=True)
class PiKE(Method):
    """Positive gradient Interaction-based K-task weights Estimator."""

    about: ClassVar[str] = (
        "Shares follow the domains' gradients: more of a domain whose gradient is long, less of "
        "one whose gradient is mostly noise. Measured now and then while training."
    )

    zeta1: NonNegativeFloat
    """Coefficient of the gradient's squared norm; the paper's grid is 1e-2 to 1.5e-1."""
    zeta2: NonNegativeFloat
    """Coefficient of the gradient's variance; the paper's grid is 1e-3 to 1e-2."""
    preset: Literal["paper", "recommended"] = "recommended"
    """What `first`, `norm` and `rows` are where they are not set."""
    every: PositiveInt = 1000
    """Steps T_0 between updates of the weights."""
    first: NonNegativeInt | None = None
    """Step of the first update. Paper: 0. Recommended: T_0, when the first large gradients have
    passed."""
    norm: Literal["plug-in", "unbiased"] | None = None
    """Estimate of |grad L_k|^2. Paper: plug-in, that of the rows' mean gradient. Recommended:
    unbiased, the same minus variance / rows."""
    batch: Literal["fresh", "training"] = "fresh"
    """Rows of the estimate: drawn for it from their own stream, or those of the training batch."""
    rows: VarianceRows | None = None
    """At least this many fresh rows of each domain in an estimate; its share of b if larger.
    Paper: 2. Recommended: 8."""
    estimates: PositiveInt = 1
    """Estimates, each from rows of its own, whose mean an update takes (Table
    `tab:estimation_sensitivity_analysis`); more than 1 with fresh rows only."""
    min_weight: ShareBelowOne = 0.0
    """No domain's weight falls below this; a smaller prior stays until the first update."""
    prior: Proportions | None = None
    """Initial weights w' by domain; 1/K when absent."""

    def __post_init__(self) -> None:
        """Judges the settings, then fills what is not set from the preset."""
        super().__post_init__()
        for name, value in PRESETS[self.preset].items():
            if getattr(self, name) is None:
                filled = self.every if value == "every" else value
                object.__setattr__(self, name, filled)

    def problems(self) -> list[str]:
        """Settings with which no update can be made."""
        if self.estimates > 1 and self.batch == "training":
            return ["estimates: must be 1 with batch: training"]
        return []

    def needs(self) -> Needs:
        """Norms and variances every T_0 steps."""
        assert self.first is not None, "filled by the preset"
        assert self.rows is not None, "filled by the preset"
        fresh = self.batch == "fresh"
        return Needs(
            statistics=StatisticsNeed(self.first, self.every, fresh, self.rows, self.estimates)
        )

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Line 2: w_k <- 1/K or w'_k. Weights are kept as logarithms: no underflow to 0."""
        return {"log_weights_K": by_domain.log_shares(self.prior, domains, "prior")}

    def weights(self, state: State, step: int) -> Floats:
        """W after the last update."""
        return np.exp(state["log_weights_K"])

    def proposed(self, statistics: Statistics, b: int) -> dict[str, float]:
        """Coefficients by the norm that the method uses."""
        if self.norm == "plug-in":
            statistics = dataclasses.replace(
                statistics, squared_norm_unbiased_K=statistics.squared_norm_K
            )
        return proposed_coefficients(statistics, b)

    def observe(self, state: State, signals: Signals) -> State:
        """Lines 5-7, when there are statistics."""
        if signals.statistics is None:
            return state
        exponent_K = self.exponent(signals.statistics, signals.batch_rows)
        log_weights_K = updated(state["log_weights_K"], exponent_K, self.min_weight)
        return {"log_weights_K": log_weights_K}

    def exponent(self, statistics: Statistics, b: int) -> Floats:
        """Line 6: zeta_1 |grad L_k|^2 - zeta_2 / (2b) sigma_k^2; not finite where not measured."""
        if self.norm == "plug-in":
            squared_norm_K = statistics.squared_norm_K
        else:
            squared_norm_K = statistics.squared_norm_unbiased_K.clip(min=0)
        return self.zeta1 * squared_norm_K - self.zeta2 / (2 * b) * statistics.variance_K


def updated(log_weights_K: Floats, exponent_K: Floats, min_weight: float) -> Floats:
    """Lines 6-7: log w <- log w + exponent, normalised; then the floor.

    A domain whose exponent is no finite number was not measured and keeps its weight, hence its
    odds against the others' mean; the others share the rest as if they were all.

    Args:
        log_weights_K: Log w.
        exponent_K: What is added; not finite where nothing was measured.
        min_weight: Floor of each weight; at most 1/K counts.
    """
    known_K = np.isfinite(exponent_K)
    if not known_K.all():
        log_known_P = log_weights_K[known_K]
        log_rest = logsumexp(log_known_P)
        if log_rest == -np.inf:
            return log_weights_K
        # A rest that underflows is all floor.
        floor = min_weight / max(math.exp(log_rest), sys.float_info.min)
        log_part_P = updated(log_known_P, exponent_K[known_K], floor)
        log_weights_K = log_weights_K.copy()
        log_weights_K[known_K] = log_rest + log_part_P
        return log_weights_K
    log_weights_K = log_softmax(log_weights_K + exponent_K)
    if min_weight == 0:
        return log_weights_K
    K = len(log_weights_K)
    floor = min(min_weight, 1 / K)
    # What lies above the floor shares what the floors leave; the sum stays 1.
    return np.log(floor + (1 - K * floor) * np.exp(log_weights_K))


def proposed_coefficients(statistics: Statistics, b: int, target: float = 0.1) -> dict[str, float]:
    """Coefficients that make an update as strong as one wants, whatever the gradients' length.

    An update adds e_k = zeta_1 |grad L_k|^2 - zeta_2 / (2b) sigma_k^2 to log w_k. From equal
    weights the log odds of domain k against all others together change by e_k minus the mean of the
    others' e_j, to first order in their spread, and exactly where the others are equal. zeta_1
    alone makes that log(1 + target) for the domain with the longest gradient where

        zeta_1 = log(1 + target) / (|g_k|^2 - mean of the others' |g_j|^2),

    and zeta_2 alone makes it -log(1 + target) for the domain with the largest variance where

        zeta_2 = log(1 + target) 2b / (sigma_k^2 - mean of the others' sigma_j^2).

    Both together counteract each other where the longest gradient is the noisiest.

    Args:
        statistics: Its unbiased squared norms (below 0: 0) and variances are used, both in the unit
            of a squared gradient; a domain whose number is NaN has no part in it.
        b: Batch size in rows.
        target: By which share the odds are to change in one update: 0.1 for 10 %.

    Returns:
        zeta1 and zeta2, in the inverse of that unit; infinity where no coefficient moves a weight.
    """
    norm_K, noise_K = statistics.squared_norm_unbiased_K.clip(min=0), statistics.variance_K
    spreads = {"zeta1": _lead(norm_K), "zeta2": _lead(noise_K / (2 * b))}
    return {n: math.log1p(target) / v if v > 0 else math.inf for n, v in spreads.items()}


def _lead(value_K: Floats) -> float:
    """The largest of the measured values minus the mean of the others; 0 for fewer than two."""
    value_P = value_K[np.isfinite(value_K)]
    if len(value_P) < 2:
        return 0.0
    largest = value_P.max()
    return float(largest - (value_P.sum() - largest) / (len(value_P) - 1))
