"""PiKE, Balanced-PiKE and conceptual PiKE: weights follow gradient norms and variances."""

import dataclasses
import math
import sys
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, Needs, Signals, State, Statistics, StatisticsNeed
from pike_mixing.numerics.simplex import log_softmax, logsumexp, softmax
from pike_mixing.setting_limits import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Proportions,
    ShareBelowOne,
    VarianceRows,
)

PRESETS: dict[str, dict[str, int | str]] = {
    "paper": {"first": 0, "norm": "plug-in", "rows": 2},
    "recommended": {"first": "every", "norm": "unbiased", "rows": 8},
}
"""What a preset puts where nothing is set; "every" stands for the value of that setting."""


@dataclasses.dataclass(frozen=True)
class PiKE(Method):
    """Positive gradient Interaction-based K-task weights Estimator (Algorithm `alg: main`)."""

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
        return {"log_weights_K": by_domain.log_shares_in_order(self.prior, domains, "prior")}

    def weights(self, state: State, step: int) -> Floats:
        """W after the last update."""
        return np.exp(state["log_weights_K"])

    def proposed_settings(self, statistics: Statistics, b: int) -> dict[str, float]:
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
        exponent_K = self.log_weight_changes(signals.statistics, signals.batch_rows)
        log_weights_K = updated_log_weights(state["log_weights_K"], exponent_K, self.min_weight)
        return {"log_weights_K": log_weights_K}

    def log_weight_changes(self, statistics: Statistics, b: int) -> Floats:
        """Line 6: zeta_1 |grad L_k|^2 - zeta_2 / (2b) sigma_k^2; not finite where not measured."""
        if self.norm == "plug-in":
            squared_norm_K = statistics.squared_norm_K
        else:
            squared_norm_K = statistics.squared_norm_unbiased_K.clip(min=0)
        return self.zeta1 * squared_norm_K - self.zeta2 / (2 * b) * statistics.variance_K


def updated_log_weights(log_weights_K: Floats, exponent_K: Floats, min_weight: float) -> Floats:
    """Lines 6-7: log w <- log w + exponent, normalised; then the floor.

    A domain whose exponent is no finite number was not measured and keeps its weight, hence its
    odds against the others' mean; the others share the rest as if they were all. Of a floor, 1/K
    counts at most.
    """
    known_K = np.isfinite(exponent_K)
    if not known_K.all():
        log_known_P = log_weights_K[known_K]
        log_rest = logsumexp(log_known_P)
        if log_rest == -np.inf:
            return log_weights_K
        # A rest that underflows is all floor.
        floor = min_weight / max(math.exp(log_rest), sys.float_info.min)
        log_part_P = updated_log_weights(log_known_P, exponent_K[known_K], floor)
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
    spreads = {
        "zeta1": _largest_minus_mean_of_others(norm_K),
        "zeta2": _largest_minus_mean_of_others(noise_K / (2 * b)),
    }
    return {n: math.log1p(target) / v if v > 0 else math.inf for n, v in spreads.items()}


def _largest_minus_mean_of_others(value_K: Floats) -> float:
    """The largest of the measured values minus the mean of the others; 0 for fewer than two."""
    value_P = value_K[np.isfinite(value_K)]
    if len(value_P) < 2:
        return 0.0
    largest = value_P.max()
    return float(largest - (value_P.sum() - largest) / (len(value_P) - 1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class BalancedPiKE(PiKE):
    """PiKE on the tilted loss, for even losses: its exponents multiplied by (y*_k)^2.

    Algorithm `alg: fair_main`. tau is a step size too: at equal losses (y*_k)^2 is (tau / K)^2,
    for K = 3 that is 0.11, 1 and 2.8 at tau 1, 3 and 5.
    """

    about: ClassVar[str] = (
        "As PiKE, but domains with a higher loss count for more, so that none is left behind; tau "
        "says how much."
    )

    tau: PositiveFloat
    """Weight of the worst loss: towards 0 their mean is minimised, towards infinity the largest."""

    def log_weight_changes(self, statistics: Statistics, b: int) -> Floats:
        """Line 7: (y*_k)^2 (zeta_1 |grad L_k|^2 - zeta_2 / (2b) sigma_k^2)."""
        factor_K = tau_softmax_of_tau_loss(statistics.loss_K, self.tau) ** 2
        return factor_K * super().log_weight_changes(statistics, b)

    def proposed_settings(self, statistics: Statistics, b: int) -> dict[str, float]:
        """PiKE's, of norms and variances times (y*_k)^2."""
        factor_K = tau_softmax_of_tau_loss(statistics.loss_K, self.tau) ** 2
        names = ("squared_norm_K", "squared_norm_unbiased_K", "variance_K")
        tilted = {name: factor_K * getattr(statistics, name) for name in names}
        return super().proposed_settings(dataclasses.replace(statistics, **tilted), b)


def tau_softmax_of_tau_loss(loss_K: Floats, tau: float) -> Floats:
    """Line 6 and Lemma `lemma:MinToMinMax`: y*_k = tau softmax(tau L)_k, which sum to tau.

    A domain without a finite loss has no part in the sum and gets NaN.
    """
    tilted_K = tau * loss_K
    absent_K = ~np.isfinite(tilted_K)
    y_K = tau * softmax(np.where(absent_K, -np.inf, tilted_K))
    return np.where(absent_K, np.nan, y_K)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConceptualPiKE(Method):
    """The weights that minimise the descent bound (Algorithm `alg: Basic PiKE`).

    Solves equation `eq:relax_problem` anew at every estimate; a weight can be exactly 0.
    """

    about: ClassVar[str] = (
        "PiKE as its theory has it: at each estimate the shares that minimise the bound on the "
        "next loss."
    )

    L: PositiveFloat
    """Lipschitz constant of the gradients (Assumption `as:assumption1`)."""
    eta: PositiveFloat
    """Step size of the SGD that the bound is about."""
    beta: PositiveFloat = 1.0
    """1 for gradients without conflict; a constant, as its formula is -inf where b_k = 0."""
    gamma: PositiveFloat = 1.0
    """1 + (K - 1) c for c-aligned gradients: 1 for orthogonal ones."""
    every: PositiveInt = 1
    """Steps between estimates: 1 in the algorithm."""
    first: NonNegativeInt = 0
    """Step of the first estimate."""
    norm: Literal["plug-in", "unbiased"] = "unbiased"
    """Estimate of |grad L_k|^2: of the rows' mean gradient, or that minus variance / rows."""
    batch: Literal["fresh", "training"] = "fresh"
    """Rows of the estimate: drawn for it from their own stream, or those of the training batch."""
    rows: VarianceRows = 8
    """At least this many fresh rows of each domain in an estimate; its share of b if larger."""
    prior: Proportions | None = None
    """Weights w' by domain before the first estimate; 1/K when absent."""

    def needs(self) -> Needs:
        """Norms and variances."""
        return Needs(
            statistics=StatisticsNeed(self.first, self.every, self.batch == "fresh", self.rows)
        )

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Line 2: w_k <- 1/K or w'_k."""
        return {"weights_K": by_domain.shares_in_order(self.prior, domains, "prior")}

    def observe(self, state: State, signals: Signals) -> State:
        """Lines 5-6, when there are statistics.

        A domain without an estimate, no finite number, keeps its weight; the others share the rest.
        """
        if signals.statistics is None:
            return state
        lam_K, kap_K = self.descent_bound_of_statistics(signals.statistics, signals.batch_rows)
        weights_K, known_K = state["weights_K"].copy(), np.isfinite(lam_K + kap_K)
        if known_K.any():
            rest = weights_K[known_K].sum()
            weights_K[known_K] = rest * descent_bound_minimiser(lam_K[known_K], kap_K[known_K])
        return {"weights_K": weights_K}

    def descent_bound_of_statistics(self, statistics: Statistics, b: int) -> "DescentBound":
        """Line 5, with the settings' constants and estimate of the norm."""
        squared_norm_K = statistics.squared_norm_K
        if self.norm == "unbiased":
            squared_norm_K = statistics.squared_norm_unbiased_K.clip(min=0)
        # A square of NumPy's is infinite where that of a float raises an OverflowError.
        constants = (self.L, np.float64(self.eta), self.beta, self.gamma)
        return descent_bound_of_moments(squared_norm_K, statistics.variance_K, b, *constants)


class DescentBound(NamedTuple):
    """The bound on the next loss, as a function of the weights w: w . lam + w^2 . kap / 2."""

    lam_K: Floats
    """Cost of the first of each domain's weight."""
    kap_K: Floats
    """By how much it grows with the weight."""


def descent_bound_of_moments(
    squared_norm_K: Floats,
    variance_K: Floats,
    b: int,
    L: float,
    eta: float,
    beta: float,
    gamma: float,
) -> "DescentBound":
    """lambda_k = -eta beta |g|^2 + L eta^2 sigma_k^2 / (2b) and kappa_k, of any beta.

    L is the smoothness of the losses, eta the step length of SGD on b rows; beta the share of
    |g_k|^2 by which a row lowers the loss, gamma bounds the squared update over |g_k|^2.
    """
    noise_K = L * eta**2 / (2 * b) * variance_K
    lam_K = noise_K - eta * beta * squared_norm_K
    return DescentBound(lam_K, L * eta**2 * gamma * squared_norm_K)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def descent_bound_minimiser(lam_K: Floats, kap_K: Floats) -> Floats:
    """Lemma `le:optimal_w_for_relax_problem`: argmin of w . lam + w^2 . kap / 2 on the simplex.

    w_k = max(0, (nu - lam_k) / kap_k), where nu = -mu is the cost at the margin of all domains with
    weight. Domain k has weight if the cheaper ones, each filled up to the cost lam_k, leave some:
    sum_j max(0, lam_k - lam_j) / kap_j < 1. Over these A domains the sum of 1 gives nu, and

        w_k = (1 + sum_j (lam_j - lam_k) / kap_j) / sum_j kap_k / kap_j,

    where no kappa below the rounding of lambda is lost. A domain whose kappa is 0 ends the others
    at nu = lam_k and takes what they leave (in equal parts, if there are several).
    """
    gap_KxK = lam_K - lam_K[:, None]
    # 0 / 0: a linear domain takes nothing below its own cost.
    taken_KxK = np.nan_to_num((-gap_KxK).clip(min=0) / kap_K, posinf=np.inf)
    left_K = 1 - taken_KxK.sum(axis=1)
    active_K = left_K > 0
    linear_K = active_K & (kap_K == 0)
    if linear_K.any():
        first = int(linear_K.argmax())
        return taken_KxK[first] + left_K[first] * linear_K / linear_K.sum()
    # Numerator and denominator times the smallest kappa: neither overflows.
    kap_A = kap_K[active_K]
    least = kap_A.min()
    above_A = gap_KxK[active_K][:, active_K] @ (least / kap_A)
    part_A = (least + above_A).clip(min=0) / (kap_A * (least / kap_A).sum())
    weights_K = np.zeros(len(lam_K))
    weights_K[active_K] = part_A / part_A.sum()
    return weights_K
