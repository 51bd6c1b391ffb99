"""Conceptual PiKE (Algorithm `alg: Basic PiKE`): the weights that minimise the descent bound."""

import dataclasses
from typing import ClassVar, Literal

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, Needs, Signals, State, Statistics, StatisticsNeed
from pike_mixing.limits import NonNegativeInt, PositiveFloat, PositiveInt, Proportions, VarianceRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConceptualPiKE(Method):
    """Solves equation `eq:relax_problem` anew at every estimate; a weight can be exactly 0."""

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
        return {"weights_K": by_domain.shares(self.prior, domains, "prior")}

    def observe(self, state: State, signals: Signals) -> State:
        """Lines 5-6, when there are statistics.

        A domain without an estimate, no finite number, keeps its weight; the others share the rest.
        """
        if signals.statistics is None:
            return state
        lam_K, kap_K = self.bound(signals.statistics, signals.batch_rows)
        weights_K, known_K = state["weights_K"].copy(), np.isfinite(lam_K + kap_K)
        if known_K.any():
            rest = weights_K[known_K].sum()
            weights_K[known_K] = rest * minimiser(lam_K[known_K], kap_K[known_K])
        return {"weights_K": weights_K}

    def bound(self, statistics: Statistics, b: int) -> tuple[Floats, Floats]:
        """Line 5, with the settings' constants and estimate of the norm."""
        squared_norm_K = statistics.squared_norm_K
        if self.norm == "unbiased":
            squared_norm_K = statistics.squared_norm_unbiased_K.clip(min=0)
        # A square of NumPy's is infinite where that of a float raises an OverflowError.
        constants = (self.L, np.float64(self.eta), self.beta, self.gamma)
        return coefficients(squared_norm_K, statistics.variance_K, b, *constants)


def coefficients(
    squared_norm_K: Floats,
    variance_K: Floats,
    b: int,
    L: float,
    eta: float,
    beta: float,
    gamma: float,
) -> tuple[Floats, Floats]:
    """lambda_k = -eta beta |g|^2 + L eta^2 sigma_k^2 / (2b) and kappa_k, of any beta.

    Args:
        squared_norm_K: |g_k|^2.
        variance_K: sigma_k^2, in the same unit.
        b: Rows of a batch.
        L: Smoothness of the losses.
        eta: Step length of SGD.
        beta: Share of |g_k|^2 by which a row lowers the loss.
        gamma: Bound of the squared update over the squared gradients.
    """
    noise_K = L * eta**2 / (2 * b) * variance_K
    lam_K = noise_K - eta * beta * squared_norm_K
    return lam_K, L * eta**2 * gamma * squared_norm_K


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def minimiser(lam_K: Floats, kap_K: Floats) -> Floats:
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
