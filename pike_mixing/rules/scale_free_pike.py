"""Scale-free PiKE: this project's variant of PiKE (arXiv 2502.06244), with no coefficient to tune.

Derivation. One step of SGD of length eta on rows drawn by w changes F = sum_j u_j L_j, the loss
that the target u weighs, by -eta sum_k w_k g_k . gbar to first order, gbar = sum_j u_j g_j. Without
the products of different domains a row of domain k is worth u_k |g_k|^2. PiKE drops these products
and u, adds the scores up over time in a unit that depends on model and text, and prices the second
order, which holds the variance, by another coefficient with a unit. Here the second order is left
out, scores s_k = u_k |g_k|^2 have no unit, and

    argmax_w sum_k w_k s_k - KL(w || pi) / z  =  pi_k exp(z s_k) / sum_j pi_j exp(z s_j)

forgets what was. pi is in the divergence alone, so that equal domains keep the prior's weights.

Safeguards. A long gradient is no proof that rows help: the optimizer is not SGD, and the estimate
is noisy. So there is a second measure: how far each domain's training loss, times u_k, fell per row
it was given; both are shrunk by empirical Bayes towards "all domains are alike", by as much of
their spread as noise explains; and weights leave the prior as far as both measures agree, no
further. The loss of rows that were read before falls by memory, too: a domain that has been read
once over is given no more than its prior weight. Less it may get, since memory can only add to a
fall.
"""

import dataclasses
from typing import ClassVar, Self

import numpy as np

from pike_mixing import by_domain
from pike_mixing.apportion import systematic
from pike_mixing.arrays import Array, Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import (
    Facts,
    Method,
    Needs,
    Signals,
    State,
    StatisticsNeed,
)
from pike_mixing.limits import PositiveFloat, PositiveInt, PositiveShare, Proportions, VarianceRows
from pike_mixing.numerics.softmax import log_softmax

UPDATES = 20
"""Estimates in a run whose settings name no T_0: steps have a unit, too."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleFreePiKE(Method):
    """log tau = log pi + strength c; log v moves half way to log tau; w = (1 - eps) v + eps pi.

    Every T_0 steps, with q_k = u_k (|g_k|^2 - variance / rows) and r_k = u_k times the fall of the
    loss per row. Each is divided by its root mean square over the domains, averaged over estimates,
    of which one counts half of the next, and clipped at 0. c_k is the smaller of their two shrunk
    distances from the mean domain where these have the same sign, else 0. The step is shortened to
    KL(v' || v) <= max_change.

    From an equal prior no domain's odds against another's exceed exp(strength sqrt(K)) before the
    floor eps = min_share, whatever is measured. With the defaults 1.38 effective domains are left
    at least for K = 2, and 1.56 for K = 3; no domain's weight falls below eps pi_k.
    """

    about: ClassVar[str] = (
        "Shares follow the domains' gradients and the fall of their losses, where both agree "
        "beyond their noise; else they return to the prior. Nothing to tune per text or model."
    )

    strength: PositiveFloat = 2.0
    """z: the logarithm of a weight's ratio to its prior for one root mean square of score."""
    every: PositiveInt | None = None
    """Steps T_0 between updates of the weights; the first is at T_0, the first that can move them
    at 3 T_0. Absent: a twentieth of the run's steps, or 100 where these are not known."""
    rows: VarianceRows = 16
    """At least this many fresh rows of each domain in an estimate; its share of b if larger."""
    max_change: PositiveFloat = 0.1
    """Largest KL divergence of the new weights from the old in one update, nats."""
    min_share: PositiveShare = 0.1
    """eps: each domain keeps this share of its prior weight."""
    prior: Proportions | None = None
    """Weights pi by domain; 1/K when absent."""
    target: Proportions | None = None
    """Weights u of the domains' losses in the target, divided by their sum; 1/K when absent."""
    tokens_by_domain: dict[str, PositiveFloat] | None = None
    """Training tokens of each domain. Absent: those of the run's corpora; if they are not known, no
    domain counts as read over."""
    batch_tokens: PositiveFloat | None = None
    """Tokens of a training batch, rows x length; the run's own when absent."""

    def informed(self, facts: Facts) -> Self:
        """T_0, sizes and batch of the run, where they were not set."""
        if facts.steps is None:
            return self
        return dataclasses.replace(
            self,
            every=self.every or max(1, facts.steps // UPDATES),
            tokens_by_domain=self.tokens_by_domain or dict(facts.tokens_by_domain),
            batch_tokens=self.batch_tokens or facts.budget_tokens / facts.steps,
        )

    def needs(self) -> Needs:
        """The batches' losses, and gradient statistics every T_0 steps."""
        every = self.every or 100
        due = StatisticsNeed(every, every, fresh=True, rows=self.rows)
        return Needs(losses=True, statistics=due)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The prior, and nothing seen. Row 0 of `*_2xK` is of q, row 1 of r."""
        K, prior_K = len(domains), by_domain.shares(self.prior, domains, "prior")
        # A domain of weight 0 stays at -infinity.
        with np.errstate(divide="ignore"):
            log_K = np.log(prior_K)
        return {
            "log_prior_K": log_K,
            "log_weights_K": log_K.copy(),
            "target_K": by_domain.shares(self.target, domains, "target"),
            "mean_2xK": np.zeros((2, K)),
            "scatter_2xK": np.zeros((2, K)),
            "last_2xK": np.full((2, K), np.nan),
            "estimates_2xK": np.zeros((2, K), dtype=np.int64),
            "epochs_of_batch_K": self._epochs_of_batch(domains),
            "epochs_K": np.zeros(K),
            "rows_K": np.zeros(K),
            "summed_loss_K": np.zeros(K),
            "last_loss_K": np.full(K, np.nan),
        }

    def _epochs_of_batch(self, domains: tuple[str, ...]) -> Floats:
        """How often a batch of one domain alone reads it; 0 where its size is not known."""
        if self.tokens_by_domain is None:
            return np.zeros(len(domains))
        if self.batch_tokens is None:
            raise InputError("batch_tokens: the size of a batch is not known: give it")
        return self.batch_tokens / by_domain.sizes(self.tokens_by_domain, domains)

    def weights(self, state: State, step: int) -> Floats:
        """W = (1 - eps) v + eps pi."""
        v_K, prior_K = np.exp(state["log_weights_K"]), np.exp(state["log_prior_K"])
        return (1 - self.min_share) * v_K + self.min_share * prior_K

    def allocate(self, state: State, step: int, b: int) -> Ints:
        """B w rows, rounded so that a small weight has its rows over the steps."""
        return systematic(self.weights(state, step), b, step)

    def observe(self, state: State, signals: Signals) -> State:
        """Adds up the batches' losses; updates the weights where there are statistics.

        A domain without a finite estimate keeps its weight; the others share the rest.
        """
        if signals.loss_K is not None and signals.count_K is not None:
            summed_K = np.nan_to_num(signals.loss_K) * signals.count_K
            seen_K = np.where(np.isnan(signals.loss_K), 0, signals.count_K)
            read_K = state["epochs_of_batch_K"] * signals.count_K / signals.batch_rows
            state = state | {
                "epochs_K": state["epochs_K"] + read_K,
                "rows_K": state["rows_K"] + seen_K,
                "summed_loss_K": state["summed_loss_K"] + summed_K,
            }
        if signals.statistics is None:
            return state
        rows_K = state["rows_K"]
        loss_K = state["summed_loss_K"] / rows_K
        fall_K = (state["last_loss_K"] - loss_K) / rows_K
        # The unit of u is no matter: equal ones leave every bit.
        worth_K = state["target_K"] / state["target_K"].max()
        value_2xK = worth_K * np.stack([signals.statistics.squared_norm_unbiased_K, fall_K])
        state = averaged(state, value_2xK) | {
            "rows_K": np.zeros_like(rows_K),
            "summed_loss_K": np.zeros_like(rows_K),
            "last_loss_K": np.where(np.isnan(loss_K), state["last_loss_K"], loss_K),
        }
        measured_K = np.isfinite(value_2xK).all(axis=0) & (state["estimates_2xK"] > 1).all(axis=0)
        known_K = measured_K & np.isfinite(state["log_prior_K"])
        return state | {"log_weights_K": self.updated(state, known_K)}

    def updated(self, state: State, known_K: Array) -> Floats:
        """Log v after a step towards log tau, among the domains that both measures cover."""
        log_v_K = state["log_weights_K"].copy()
        if not known_K.any():
            return log_v_K
        log_v_P = log_v_K[known_K]
        mass = np.log(np.exp(log_v_P).sum())
        gradient_P, fall_P = (
            shrunk(
                state["mean_2xK"][measure, known_K],
                state["scatter_2xK"][measure, known_K],
                state["estimates_2xK"][measure, known_K],
            )
            for measure in (0, 1)
        )
        most_P = np.where(state["epochs_K"][known_K] > 1, 0.0, np.inf)
        score_P = np.minimum(agreed(gradient_P, fall_P), most_P)
        log_tau_P = log_softmax(state["log_prior_K"][known_K] + self.strength * score_P)
        log_v_K[known_K] = mass + toward(log_tau_P, log_v_P - mass, self.max_change)
        return log_v_K


def averaged(state: State, value_2xK: Floats) -> State:
    """The state with one more estimate, in root mean squares over the domains that have one.

    The variance of q from R rows of covariance C is 4 g . C g / R + 2 tr(C^2) / (R (R - 1)), but of
    C the trace alone is measured. So it is estimated from the estimates: half of the squared
    difference of successive ones is their variance where the truth stands still, and more where it
    moves. Noise is not understated.
    """
    known_2xK = np.isfinite(value_2xK)
    score_2xK = np.stack([in_root_mean_squares(value_K) for value_K in value_2xK])
    second_2xK = known_2xK & (state["estimates_2xK"] > 0)
    squared_2xK = (score_2xK - state["last_2xK"]) ** 2 / 2
    return state | {
        "mean_2xK": np.where(known_2xK, (state["mean_2xK"] + score_2xK) / 2, state["mean_2xK"]),
        "scatter_2xK": np.where(
            second_2xK, (state["scatter_2xK"] + squared_2xK) / 2, state["scatter_2xK"]
        ),
        "last_2xK": np.where(known_2xK, score_2xK, state["last_2xK"]),
        "estimates_2xK": state["estimates_2xK"] + known_2xK,
    }


def in_root_mean_squares(value_K: Floats) -> Floats:
    """Values over the root of the mean square of the finite ones; 0 where these are all 0."""
    known_P = value_K[np.isfinite(value_K)]
    largest = np.abs(known_P).max(initial=0)
    if largest == 0:
        return value_K
    # No square overflows, nor do all underflow.
    return value_K / largest / np.sqrt(((known_P / largest) ** 2).mean())


def shrunk(mean_P: Floats, scatter_P: Floats, estimates_P: Ints) -> Floats:
    """How far each domain is from the mean domain, beyond noise.

    The average m_k of n estimates of weights 1/2, 1/4, ... over their sum has the variance
    V_k = (1 + 2^-n) / (3 (1 - 2^-n)) of one estimate's. Between domains the m_k vary by S, of
    which the truth has S - mean V: the empirical-Bayes estimate keeps that share of each distance.

    Args:
        mean_P: Sums of 2^-i times the i-th last estimate.
        scatter_P: The same of estimates of their variance, of which there is one less.
        estimates_P: n, at least 2.

    Returns:
        Distances of the m_k, clipped at 0, from their mean; all 0 where noise explains the spread.
    """
    left_P = 0.5**estimates_P
    m_P = (mean_P / (1 - left_P)).clip(min=0)
    noise_P = scatter_P / (1 - 2 * left_P) * (1 + left_P) / (3 * (1 - left_P))
    distance_P = m_P - m_P.mean()
    spread = (distance_P**2).sum() / max(len(m_P) - 1, 1)
    if not spread > noise_P.mean():
        return np.zeros_like(m_P)
    return (1 - noise_P.mean() / spread) * distance_P


def agreed(one_P: Floats, other_P: Floats) -> Floats:
    """The smaller of two numbers where they have the same sign, else 0."""
    smaller_P = np.minimum(np.abs(one_P), np.abs(other_P))
    return np.where(one_P * other_P > 0, np.sign(one_P) * smaller_P, 0.0)


def toward(log_tau_P: Floats, log_v_P: Floats, max_change: float) -> Floats:
    """The point half way from v to tau in logarithms, or nearer, with KL(v' || v) <= max_change.

    Along the line the divergence grows from 0; bisection finds where it reaches the bound.
    """

    def point(share: float) -> Floats:
        return log_softmax(log_v_P + share * (log_tau_P - log_v_P))

    def divergence(share: float) -> float:
        log_new_P = point(share)
        return float((np.exp(log_new_P) * (log_new_P - log_v_P)).sum())

    share, step = 0.5, 0.5
    if divergence(share) <= max_change:
        return point(share)
    for _ in range(50):
        step /= 2
        share += step if divergence(share) <= max_change else -step
    return point(share - step)
