"""DGA, dynamic gradient alignment (Fan, Grangier and Ablin 2024, arXiv 2410.02498).

Derivation. With the rows of domain k in the share w_k, a step of SGD of length eta lowers the loss
of the target by eta sum_k w_k a_k to first order, with the alignment a_k = g_k . g_T. So

    argmax_v sum_k v_k a_k - KL(v || w) / rate  =  w_k exp(rate a_k) / sum_j w_j exp(rate a_j),

the exponentiated gradient on the simplex. The paper's text was not at hand. What its abstract and
its reviews state is kept: an online mixture that aligns the training gradient with that of a
specific set, a rate of the weights, steps between updates, an average over updates. The form above,
which average is served, the unit of a_k and all defaults are inferred; the unit is that of DoGE, by
the same first author (arXiv 2310.15393). Left out: mixtures of a few fixed distributions in place
of domains, for thousands of them.
"""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, Needs, Signals, State, StatisticsNeed
from pike_mixing.limits import (
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveShare,
    Proportions,
    VarianceRows,
)
from pike_mixing.rules.pike import updated


@dataclasses.dataclass(frozen=True, kw_only=True)
class DGA(Method):
    """log v_k += rate g_k . g_T, normalised; w is an average of the v; g_T = sum_j u_j g_j.

    A domain that only the target names has the weight 0 in `prior`: it is measured, never trained
    on. Its gradient is of its training text, from rows that no training batch holds at the time.

    Unnormalised, with equal u, orthogonal gradients, no average: PiKE with zeta2 = 0.
    """

    about: ClassVar[str] = (
        "More of the domains whose gradients agree with that of a target, which may be a domain "
        "that is not trained on. Measured now and then while training. Our reading of an abstract "
        "and reviews: the form of the update and all defaults are inferred."
    )

    target: Proportions | None = None
    """Weights u of the domains' losses in the target, divided by their sum; 1/K when absent."""
    rate: PositiveFloat = 1.0
    """Step of the logarithm of the weights."""
    normalise: bool = True
    """Whether alignments are divided by |g_T| times the mean |g_k|, so that the rate has no unit.

    Without it they are the plain products of the derivation."""
    every: PositiveInt = 100
    """Steps between updates of the weights."""
    first: NonNegativeInt | None = None
    """Step of the first update; `every` when absent."""
    rows: VarianceRows = 16
    """At least this many fresh rows of each domain in an estimate; its share of b if larger."""
    new_share: PositiveShare = 1.0
    """Share of the newest v in the average that is served: w <- (1 - new_share) w + new_share v."""
    prior: Proportions | None = None
    """Initial weights by domain; 1/K when absent. A domain of weight 0 is never trained on."""

    def needs(self) -> Needs:
        """All gradients' inner products on fresh rows."""
        first = self.every if self.first is None else self.first
        due = StatisticsNeed(first, self.every, fresh=True, rows=self.rows, inner_products=True)
        return Needs(statistics=due)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The prior."""
        return {
            "log_weights_K": by_domain.log_shares(self.prior, domains, "prior"),
            "weights_K": by_domain.shares(self.prior, domains, "prior"),
            "target_K": by_domain.shares(self.target, domains, "target"),
        }

    def observe(self, state: State, signals: Signals) -> State:
        """Alignments, then v, then the average.

        A domain that was not measured keeps its weight, and has no part in the target.
        """
        if signals.gram_KxK is None or signals.statistics is None:
            return state
        alignment_K = aligned(
            signals.gram_KxK,
            signals.statistics.squared_norm_unbiased_K,
            state["target_K"],
            normalise=self.normalise,
        )
        if np.isnan(alignment_K).all():
            return state
        log_weights_K = updated(state["log_weights_K"], self.rate * alignment_K, 0)
        weights_K = (1 - self.new_share) * state["weights_K"] + self.new_share * np.exp(
            log_weights_K
        )
        return state | {"log_weights_K": log_weights_K, "weights_K": weights_K}


def aligned(gram_KxK: Floats, squared_K: Floats, target_K: Floats, *, normalise: bool) -> Floats:
    """a_k = g_k . g_T; NaN for a domain that was not measured, and where nothing of the target was.

    Were g_T of other rows than g_k, g_k . g_k would hold no noise: so the unbiased |g_k|^2 stands
    for it. The lengths are those that were measured, noise included: noise lowers alignments.

    Args:
        gram_KxK: Inner products of the domains' gradients.
        squared_K: Unbiased estimates of |g_k|^2.
        target_K: u.
        normalise: Whether to divide by |g_T| mean_k |g_k|.
    """
    known_K = np.isfinite(gram_KxK.diagonal()) & np.isfinite(squared_K)
    gram_PxP, target_P = gram_KxK[known_K][:, known_K], target_K[known_K]
    influence_K = np.full(len(target_K), np.nan)
    if not target_P.sum() > 0:
        return influence_K
    target_P = target_P / target_P.sum()
    noise_P = gram_PxP.diagonal() - squared_K[known_K]
    influence_K[known_K] = gram_PxP @ target_P - noise_P * target_P
    if normalise:
        length = np.sqrt(max(target_P @ gram_PxP @ target_P, 0))
        influence_K /= length * np.sqrt(gram_PxP.diagonal()).mean()
    return influence_K
