"""Scale-free PiKE: this project's variant of PiKE (arXiv 2502.06244); no coefficient has a unit.

Derivation. One step of SGD of length eta on rows drawn by w changes F = sum_j u_j L_j, the loss
that the target u weighs, by -eta sum_k w_k g_k . gbar to first order, gbar = sum_j u_j g_j. Without
the products of different domains a row of domain k is worth u_k |g_k|^2. PiKE drops these products
and u, adds the scores up over time in a unit that depends on model and text, and prices the second
order, which holds the variance, by another coefficient with a unit. Here the second order is left
out, and a score c_k is the distance of u_k |g_k|^2 from its mean over the domains, in root mean
squares: no unit. A domain behind the mean keeps

    argmax_w w c_k - (w log(w / pi_k) - w + pi_k) / z  =  pi_k exp(z c_k)

and what those behind give goes to those ahead, in proportion to pi_k c_k: no rows move unless some
domain is behind. Nothing adds up over time, and equal domains keep the prior.

Safeguards. A long gradient is no proof that rows help: the optimizer is not SGD, and the estimate
is noisy. So there is a second measure: how fast each domain's training loss, times u_k, falls with
the rows it is given, a slope in the logarithm of their number, so that no window of steps has to be
chosen. Both are shrunk by empirical Bayes towards "all domains are alike", by as much of their
spread as noise explains; and weights leave the prior as far as both measures agree, no further. A
domain that has been read once over is measured no more, and goes back to its prior weight: rows
that were read before have a lower loss and a shorter gradient by memory. And a level loss may be
one that has not begun to fall: no domain gives rows whose loss has fallen by a smaller part of its
first value than the mean domain's.
"""

import dataclasses
from typing import ClassVar, Self

import numpy as np

from pike_mixing import by_domain
from pike_mixing.apportion import apportion_over_steps
from pike_mixing.arrays import Array, Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Needs, RunFacts, Signals, State, StatisticsNeed
from pike_mixing.numerics.laws import (
    falls_per_row_and_variances,
    has_above_mean_relative_fall,
    with_batch_losses,
)
from pike_mixing.numerics.moments import root_mean_square_or_one, shrunk_distances_from_mean
from pike_mixing.numerics.simplex import log_softmax, logsumexp
from pike_mixing.setting_limits import (
    PositiveFloat,
    PositiveInt,
    PositiveShare,
    Proportions,
    VarianceRows,
)

UPDATES = 20
"""Estimates in a run whose settings name no T_0: steps have a unit, too."""

LEAST_ESTIMATES = 4
"""Estimates of a domain's gradient before its weight moves."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleFreePiKE(Method):
    """tau = pi exp(strength c) where c < 0, and what this frees goes to c > 0.

    Log v moves half way to log tau; w = (1 - eps) v + eps pi, eps = min_share.

    Every T_0 steps, with q_k = u_k (|g_k|^2 - variance / rows), averaged over estimates, of which
    one counts half of the next, and r_k = u_k times the fall of the loss per row. Each is in root
    mean squares over the domains, and clipped at 0. c_k is the smaller of their two shrunk
    distances from the mean domain where these have the same sign, else 0; below 0 it is 0, too,
    unless 1 - late / first loss is above its mean. Domains that were read over have tau = pi. The
    step is shortened to KL(v' || v) <= max_change.

    Scores are not negative, so none is more than one root mean square below their mean, and tau_k
    is exp(-strength) pi_k at least, whatever is measured. With the defaults 1.34 effective domains
    are left at least for K = 2, and 1.67 for K = 3; no weight falls below eps pi_k.
    """

    about: ClassVar[str] = (
        "Shares follow the domains' gradients and the fall of their losses, where both agree "
        "beyond their noise; else they return to the prior. No coefficient has a unit."
    )

    strength: PositiveFloat = 3.5
    """z: a domain one root mean square behind the mean domain keeps exp(-z) of its prior weight."""
    every: PositiveInt | None = None
    """Steps T_0 between updates of the weights; the first is at T_0, the first that can move them
    at 4 T_0. Absent: a twentieth of the run's steps, or 100 where these are not known."""
    rows: VarianceRows = 16
    """At least this many fresh rows of each domain in an estimate; its share of b if larger."""
    max_change: PositiveFloat = 0.1
    """Largest KL divergence of the new weights from the old in one update, nats."""
    min_share: PositiveShare = 0.1
    """eps: each domain keeps this share of its prior weight."""
    prior: Proportions | None = None
    """Weights pi by domain; those of the target when absent."""
    target: Proportions | None = None
    """Weights u of the domains' losses in the target, divided by their sum; 1/K when absent."""
    tokens_by_domain: dict[str, PositiveFloat] | None = None
    """Training tokens of each domain. Absent: those of the run's corpora; if they or its steps are
    not known, no domain counts as read over."""
    batch_tokens: PositiveFloat | None = None
    """Tokens of a training batch, rows x length; the run's own when absent."""

    def for_run(self, facts: RunFacts) -> Self:
        """T_0, sizes and batch of the run, where they were not set."""
        if facts.steps is None:
            return self
        return dataclasses.replace(
            self,
            every=self.every or max(1, facts.steps // UPDATES),
            tokens_by_domain=self.tokens_by_domain or dict(facts.tokens_by_domain) or None,
            batch_tokens=self.batch_tokens or facts.budget_tokens / facts.steps,
        )

    def needs(self) -> Needs:
        """The batches' losses, and gradient statistics every T_0 steps."""
        every = self.every or 100
        due = StatisticsNeed(every, every, fresh=True, rows=self.rows)
        return Needs(losses=True, statistics=due)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The prior, and nothing seen."""
        name = "target" if self.prior is None else "prior"
        K, log_K = len(domains), by_domain.log_shares_in_order(getattr(self, name), domains, name)
        none = ("first_loss", "early_loss", "late_loss", "row_variance", "last_loss", "last_count")
        return {
            "log_prior_K": log_K,
            "log_weights_K": log_K.copy(),
            "target_K": by_domain.shares_in_order(self.target, domains, "target"),
            "mean_K": np.zeros(K),
            "scatter_K": np.zeros(K),
            "last_K": np.full(K, np.nan),
            "estimates_K": np.zeros(K, dtype=np.int64),
            "epochs_of_batch_K": self._epochs_per_batch(domains),
            "epochs_K": np.zeros(K),
            "rows_K": np.zeros(K),
            **{f"{name}_K": np.full(K, np.nan) for name in none},
        }

    def _epochs_per_batch(self, domains: tuple[str, ...]) -> Floats:
        """How often a batch of one domain alone reads it; 0 where its size is not known."""
        if self.tokens_by_domain is None:
            return np.zeros(len(domains))
        if self.batch_tokens is None:
            raise InputError("batch_tokens: the size of a batch is not known: give it")
        tokens_K = by_domain.required_tokens_in_order(self.tokens_by_domain, domains)
        return self.batch_tokens / tokens_K

    def weights(self, state: State, step: int) -> Floats:
        """W = (1 - eps) v + eps pi."""
        v_K, prior_K = np.exp(state["log_weights_K"]), np.exp(state["log_prior_K"])
        return (1 - self.min_share) * v_K + self.min_share * prior_K

    def allocate(self, state: State, step: int, b: int) -> Ints:
        """B w rows, rounded so that a small weight has its rows over the steps."""
        return apportion_over_steps(self.weights(state, step), b, step)

    def observe(self, state: State, signals: Signals) -> State:
        """Takes in the batches' losses; updates the weights where there are statistics.

        A domain without four finite estimates keeps its weight; the others share the rest.
        """
        if signals.loss_K is not None and signals.count_K is not None:
            read_K = state["epochs_of_batch_K"] * signals.count_K / signals.batch_rows
            state = with_batch_losses(state, signals.loss_K, signals.count_K)
            state |= {"epochs_K": state["epochs_K"] + read_K}
        if signals.statistics is None:
            return state
        # The unit of u is no matter: equal ones leave every bit.
        loss_weight_K = state["target_K"] / state["target_K"].max()
        q_K = loss_weight_K * signals.statistics.squared_norm_unbiased_K
        state = with_gradient_scores(state, q_K)
        measured_K = np.isfinite(q_K) & (state["estimates_K"] >= LEAST_ESTIMATES)
        measured_K &= np.isfinite(state["row_variance_K"]) & (state["epochs_K"] <= 1)
        measured_K &= np.isfinite(state["log_prior_K"])
        read_over_K = (state["epochs_K"] > 1) & np.isfinite(state["log_prior_K"])
        log_weights_K = self.log_weights_after_step(state, loss_weight_K, measured_K, read_over_K)
        return state | {"log_weights_K": log_weights_K}

    def log_weights_after_step(
        self, state: State, loss_weight_K: Floats, measured_K: Array, back_to_prior_K: Array
    ) -> Floats:
        """Log v after a step towards log tau, among domains measured now and those read over.

        Those measured share what the prior gives them together; those neither keep their weight.
        `loss_weight_K` is u over its largest.
        """
        log_prior_K, log_v_K = state["log_prior_K"], state["log_weights_K"].copy()
        updated_K = measured_K | back_to_prior_K
        if not updated_K.any():
            return log_v_K
        log_tau_K = log_prior_K.copy()
        if measured_K.any():
            state_P = {name: value_K[measured_K] for name, value_K in state.items()}
            score_P = smaller_of_same_sign(
                shrunk_distances_from_mean(*mean_scores_and_variances(state_P)),
                shrunk_distances_from_mean(
                    *falls_per_row_and_variances(state_P, loss_weight_K[measured_K])
                ),
            )
            score_P[(score_P < 0) & ~has_above_mean_relative_fall(state_P)] = 0
            lead_P = self.strength * score_P
            log_prior_P = state_P["log_prior_K"]
            log_tau_K[measured_K] = log_prior_moved_to_leaders(log_prior_P, lead_P)
        log_mass = logsumexp(log_v_K[updated_K])
        log_v_K[updated_K] = log_mass + log_weights_at_most_halfway(
            log_softmax(log_tau_K[updated_K]), log_v_K[updated_K] - log_mass, self.max_change
        )
        return log_v_K


def with_gradient_scores(state: State, estimate_K: Floats) -> State:
    """The state with one more estimate q, in root mean squares over the domains that have one.

    The variance of q from R rows of covariance C is 4 g . C g / R + 2 tr(C^2) / (R (R - 1)), but of
    C the trace alone is measured. So it is estimated from the estimates: half of the squared
    difference of successive ones is their variance where the truth stands still, and more where it
    moves. Noise is not understated.
    """
    known_K = np.isfinite(estimate_K)
    score_K = estimate_K / root_mean_square_or_one(estimate_K[known_K])
    second_K = known_K & (state["estimates_K"] > 0)
    squared_K = (score_K - state["last_K"]) ** 2 / 2
    mean_K, scatter_K = state["mean_K"], state["scatter_K"]
    return state | {
        "mean_K": np.where(known_K, (mean_K + score_K) / 2, mean_K),
        "scatter_K": np.where(second_K, (scatter_K + squared_K) / 2, scatter_K),
        "last_K": np.where(known_K, score_K, state["last_K"]),
        "estimates_K": state["estimates_K"] + known_K,
    }


def mean_scores_and_variances(state_P: State) -> tuple[Floats, Floats]:
    """Averages of two or more estimates of q, clipped at 0, and their variances.

    The average of n estimates of weights 1/2, 1/4, ... over their sum has the variance of one times
    (1 + 2^-n) / (3 (1 - 2^-n)). Of estimates of that variance there is one less.
    """
    rest_P = 0.5 ** state_P["estimates_K"]
    one_P = state_P["scatter_K"] / (1 - 2 * rest_P)
    return (state_P["mean_K"] / (1 - rest_P)).clip(min=0), one_P * (1 + rest_P) / (3 * (1 - rest_P))


def smaller_of_same_sign(one_P: Floats, other_P: Floats) -> Floats:
    """The smaller of two numbers where they have the same sign, else 0."""
    smaller_P = np.minimum(np.abs(one_P), np.abs(other_P))
    return np.where(one_P * other_P > 0, np.sign(one_P) * smaller_P, 0.0)


def log_prior_moved_to_leaders(log_prior_P: Floats, lead_P: Floats) -> Floats:
    """Log tau: the prior without what domains of a negative lead give to those of a positive one.

    Where none has a positive lead, those of the largest get it by their prior weights: of lead 0,
    as distances from a mean have the sum 0, but for last bits.
    """
    prior_P = np.exp(log_prior_P)
    given = -(prior_P * np.expm1(lead_P.clip(max=0))).sum()
    claim_P = prior_P * (lead_P.clip(min=0) if (lead_P > 0).any() else lead_P == lead_P.max())
    return np.where(
        lead_P < 0, log_prior_P + lead_P, np.log(prior_P + given * claim_P / claim_P.sum())
    )


def log_weights_at_most_halfway(
    log_goal_P: Floats, log_weights_P: Floats, max_divergence: float
) -> Floats:
    """Weights half way to a goal in logarithms, or nearer, with KL(new || old) <= max_divergence.

    Along the line the divergence grows from 0; bisection finds where it reaches the bound.
    """

    def point(share: float) -> Floats:
        return log_softmax(log_weights_P + share * (log_goal_P - log_weights_P))

    def divergence_from_old(share: float) -> float:
        log_new_P = point(share)
        return float((np.exp(log_new_P) * (log_new_P - log_weights_P)).sum())

    share, step = 0.5, 0.5
    if divergence_from_old(share) <= max_divergence:
        return point(share)
    for _ in range(50):
        step /= 2
        share += step if divergence_from_old(share) <= max_divergence else -step
    return point(share - step)
