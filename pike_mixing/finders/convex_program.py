"""The mixture of lowest predicted loss near a prior: a convex program, and proof of its solution.

    min_w  sum_i u_i L_i(w) + kl sum_k w_k log(w_k / p_k)
    with   sum_k w_k = 1 and 0 <= w_k <= cap_k

In a program of phases w_k is the exposure of a domain in one of them, share of the phase times the
weight in it, and the sum over each phase is its share.

Every L_i is a constant plus the exponential of an affine function, hence convex; so are their sum
with u_i >= 0 and the divergence. Every point that meets the KKT conditions is therefore the
optimum, and strictly the only one when kl > 0.

Shapes: K domains.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import slsqp
from pike_mixing.finders.exponential_law import Laws

TOLERANCE = 1e-6
"""Largest residual of the KKT conditions, in nats per token of the objective over 1 + kl."""
SMALLEST = 1e-12
"""Weights below this are not told from 0; the divergence's slope is infinite there."""
SEARCHES = 10
"""Most searches for an optimum: of 55,000 random programs 17 took two, and 3 took three."""


@dataclass(frozen=True)
class ConvexProgram:
    """The program's data."""

    laws: Laws
    target_K: Floats
    """u: weight of each domain's loss, summing to 1."""
    kl: float
    """Price of the divergence from the prior, nats per nat."""
    prior_K: Floats
    """p: positive where kl > 0."""
    cap_K: Floats
    """Largest weight of each domain; infinite when there is none."""
    share_P: Floats = field(default_factory=lambda: np.ones(1))
    """Sum of each of P phases' weights, which lie one after the other; 1 of one phase."""

    def loss(self, weights_K: Floats) -> float:
        """The objective without the divergence, nats per token."""
        return float(self.laws.losses(weights_K[None])[0] @ self.target_K)

    def losses(self, weights_SxK: Floats, epochs_SxK: Floats | None = None) -> Floats:
        """`loss` of each mixture [S]."""
        return self.laws.losses(weights_SxK) @ self.target_K

    def optimum(self) -> Floats:
        """The weights of `solve_with_residual`."""
        return solve_with_residual(self)[0]

    def record(self) -> dict[str, Any]:
        """The laws; the rest are settings of the finder."""
        return {name: array.tolist() for name, array in vars(self.laws).items()}

    def loss_slope(self, weights_K: Floats) -> Floats:
        """Gradient of `loss`."""
        reducible_K = np.exp(self.laws.b_K + self.laws.t_KxK @ weights_K)
        return (self.target_K * reducible_K) @ self.laws.t_KxK

    def divergence(self, weights_K: Floats) -> float:
        """KL(w || p), nats."""
        some_K = weights_K > 0
        return float((weights_K[some_K] * np.log(weights_K[some_K] / self.prior_K[some_K])).sum())

    def optimality_gap_bound(self, weights_K: Floats) -> float:
        """How far w is from meeting the KKT conditions, nats per token; 0 at the optimum alone.

        The conditions say that w minimises the program whose loss is replaced by its tangent at
        w: then w_k = min(cap_k, p_k exp((nu - slope_k) / kl)) for one nu (kl = 0: the domains of
        least slope are full). The residual is what that program's minimum v gains over w; since
        the loss is convex, w's objective is above the optimum by no more than this.
        """
        slope_K = self.loss_slope(weights_K)
        best_K = self.tangent_minimiser(slope_K, self.kl)
        gain = float(slope_K @ (weights_K - best_K))
        if self.kl > 0:
            gain += self.kl * (self.divergence(weights_K) - self.divergence(best_K))
        return max(gain, 0.0)

    def tangent_minimiser(self, slope_K: Floats, kl: float) -> Floats:
        """argmin_v slope . v + kl KL(v || p) within the constraints, phase by phase."""
        parts = zip(
            self.share_P,
            *(np.split(x_K, len(self.share_P)) for x_K in (slope_K, self.prior_K, self.cap_K)),
            strict=True,
        )
        return np.concatenate(
            [s * _tangent_minimiser(slope, kl, prior, cap / s) for s, slope, prior, cap in parts]
        )

    def scale_to_phase_shares(self, weights_K: Floats) -> Floats:
        """The weights, scaled in each phase to the share of tokens that the phase has."""
        weights_PxK = weights_K.reshape(len(self.share_P), -1)
        shares_Px1 = self.share_P[:, None]
        return (weights_PxK / weights_PxK.sum(axis=1, keepdims=True) * shares_Px1).ravel()


def _tangent_minimiser(slope_K: Floats, kl: float, prior_K: Floats, cap_K: Floats) -> Floats:
    """argmin_v slope . v + kl KL(v || p) over mixtures under their caps, in closed form.

    The sum of p does not matter.
    """
    if kl == 0:
        order = np.argsort(slope_K, kind="stable")
        room_K = np.minimum(cap_K[order], 1)
        filled_K = np.diff(np.minimum(np.cumsum(room_K), 1), prepend=0)
        return filled_K[np.argsort(order)]
    room_K = np.minimum(cap_K, 1)
    if room_K.sum() <= 1 + 1e-12:
        return room_K / room_K.sum()
    log_K = np.log(prior_K) - slope_K / kl
    log_K -= np.logaddexp.reduce(log_K)
    with np.errstate(divide="ignore"):
        log_room_K = np.log(room_K)
    if (log_K <= log_room_K).all():
        return np.exp(log_K)

    def weights(nu: float) -> Floats:
        return np.exp(np.minimum(log_room_K, log_K + nu))

    from scipy import optimize

    # Below 0 the weights sum to less than 1; where all are full, to more.
    full = float((log_room_K - log_K).max())
    nu = optimize.brentq(lambda nu: weights(nu).sum() - 1, -1e-9, full, xtol=1e-15)
    return weights(nu)


def solve_with_residual(program: ConvexProgram) -> tuple[Floats, float]:
    """The optimal weights and the residual of their KKT conditions."""
    lower = SMALLEST if program.kl > 0 else 0.0
    # Brings values and slopes near 1 whatever the price.
    scale = 1 + program.kl

    def scaled_objective(weights_K: Floats) -> float:
        penalty = program.kl * program.divergence(weights_K) if program.kl > 0 else 0.0
        return (program.loss(weights_K) + penalty) / scale

    def scaled_slope(weights_K: Floats) -> Floats:
        slope_K = program.loss_slope(weights_K)
        if program.kl > 0:
            slope_K = slope_K + program.kl * (np.log(weights_K / program.prior_K) + 1)
        return slope_K / scale

    start_K = np.maximum(program.tangent_minimiser(np.zeros(len(program.cap_K)), 1.0), lower)
    bounds = [(lower, max(lower, min(1.0, cap))) for cap in program.cap_K]
    constraints = _constraints_on_phases_but_last(program)
    for _ in range(SEARCHES):
        done = slsqp.minimise_over_simplex(
            scaled_objective, start_K, scaled_slope, bounds, constraints, ftol=1e-15
        )
        weights_K = np.minimum(np.maximum(done.x, 0), program.cap_K)
        weights_K = program.scale_to_phase_shares(weights_K)
        kkt_residual = program.optimality_gap_bound(weights_K)
        if kkt_residual <= TOLERANCE * scale:
            return weights_K, kkt_residual
        # It ended early beside weights near 0, where the divergence is steep: halfway to the
        # tangent's optimum they are not.
        tangent_K = program.tangent_minimiser(program.loss_slope(weights_K), program.kl)
        start_K = np.maximum((weights_K + tangent_K) / 2, lower)
    raise InputError(
        f"the program for the mixture was not solved: its KKT residual is {kkt_residual:.2g} nats "
        f"({done.message}): raise kl, or leave out proxy runs that diverged"
    )


def _constraints_on_phases_but_last(program: ConvexProgram) -> list[dict[str, Any]]:
    """Constraints on the sums of all phases but the last, which that of all weights fixes."""
    member_PxK = np.repeat(
        np.eye(len(program.share_P)), len(program.cap_K) // len(program.share_P), 1
    )
    return [
        {"type": "eq", "fun": lambda w, m=m, s=s: m @ w - s, "jac": lambda w, m=m: m}
        for m, s in zip(member_PxK[:-1], program.share_P[:-1], strict=True)
    ]
