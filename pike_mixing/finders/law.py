"""The exponential mixing law (arXiv 2403.16952): a domain's loss as a function of the mixture.

    L_i(w) = c_i + exp(b_i + t_i . w)

Because the weights sum to 1, a constant moved from b_i to all of t_i changes nothing: t_i is fixed
to sum to 0. Then exp(b_i) is what the mixture can still take off or add at equal weights, c_i is
what no mixture takes away, and K + 1 coefficients are free. While fitting, the exponent is written
s_i . w with s_i = b_i + t_i, where nothing is left undetermined.

Shapes: K domains, N proxy runs, S starts.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError

ITERATIONS = 1000
"""Steps after which a fit counts as not converged."""
TOLERANCE = 1e-8
"""A fit has converged when its next step promises less than this part of its cost."""
RIDGE = 1e-6
"""Price of |s|^2 beside the squared errors, nats^2.

It keeps the equations of a step solvable where exponentials vanish; a law that fits well does not
feel it.
"""
ZOOMS, POINTS = 8, 16
"""How often the range around the best c is divided, and into how many values."""


@dataclass(frozen=True)
class Laws:
    """One law for each of K domains' losses."""

    c_K: Floats
    """Loss that no mixture takes away, nats."""
    b_K: Floats
    """Logarithm of the rest at equal weights."""
    t_KxK: Floats
    """Row i: change of the exponent of domain i's loss per weight of each domain; sums to 0."""

    def losses(self, weights_NxK: Floats) -> Floats:
        """Predicted loss of each mixture on each domain, [N, K]."""
        return self.c_K + np.exp(self.b_K + weights_NxK @ self.t_KxK.T)


def fit(weights_NxK: Floats, loss_NxK: Floats, *, starts: int, huber: float) -> Laws:
    """Fits each domain's law by itself.

    Args:
        weights_NxK: Mixtures that span the simplex: rank K.
        loss_NxK: Positive losses, nats per token.
        starts: How many values of c are tried at first.
        huber: Errors beyond this many nats count linearly, below quadratically.

    Raises:
        InputError: a fit does not converge.
    """
    fitted = [
        _fit_one(weights_NxK, loss_NxK[:, domain], starts, huber)
        for domain in range(loss_NxK.shape[1])
    ]
    c_K = np.array([c for c, _ in fitted])
    s_KxK = np.stack([s_K for _, s_K in fitted])
    b_K = s_KxK.mean(axis=1)
    return Laws(c_K, b_K, s_KxK - b_K[:, None])


def _fit_one(
    weights_NxK: Floats, loss_N: Floats, starts: int, huber: float
) -> tuple[float, Floats]:
    """The c and s of one domain: s is fitted for many c at once, then the best c is enclosed.

    Left free, c and s run along one valley that is nearly flat, in which optimizers get stuck.
    """
    c_S = loss_N.min() * (1 - np.geomspace(1, 1e-3, starts))
    s_SxK = _start(weights_NxK, loss_N, c_S)
    for zoom in range(ZOOMS + 1):
        s_SxK, cost_S, converged_S = _refined(weights_NxK, loss_N, c_S, s_SxK, huber)
        best = int(cost_S.argmin())
        if zoom < ZOOMS:
            reach = np.abs(np.diff(c_S))[max(best - 1, 0) : best + 1].max(initial=0.0)
            middle, s_K = c_S[best], s_SxK[best]
            c_S = np.append(np.linspace(max(middle - reach, 0), middle + reach, POINTS), middle)
            c_S.sort()
            s_SxK = np.tile(s_K, (len(c_S), 1))
    if not converged_S[best]:
        raise InputError(
            f"the mixing law does not converge on these {len(loss_N)} proxy runs in {ITERATIONS} "
            "steps: add proxy runs, or leave out those that diverged"
        )
    return float(c_S[best]), s_SxK[best]


def _start(weights_NxK: Floats, loss_N: Floats, c_S: Floats) -> Floats:
    """The s for each c from linear equations.

    With c given, log(L - c) = s . w is linear in s; an error of L counts 1 / (L - c) there, so the
    equations are weighed by L - c.
    """
    rest_SxN = loss_N - c_S[:, None]
    inverse_SxKxN = np.linalg.pinv(rest_SxN[:, :, None] * weights_NxK)
    return np.einsum("skn,sn->sk", inverse_SxKxN, rest_SxN * np.log(rest_SxN))


def _refined(
    weights_NxK: Floats, loss_N: Floats, c_S: Floats, s_SxK: Floats, huber: float
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Levenberg-Marquardt steps of s with c held: the new s, their cost, and which converged."""
    identity_KxK = np.eye(weights_NxK.shape[1])

    def costs(s_SxK: Floats) -> tuple[Floats, Floats, Floats]:
        # A step that overflows costs infinity and is not taken.
        with np.errstate(over="ignore"):
            e_SxN = np.exp(s_SxK @ weights_NxK.T)
            error_SxN = c_S[:, None] + e_SxN - loss_N
            size_SxN = np.abs(error_SxN)
            below_SxN = np.minimum(size_SxN, huber)
            cost_SxN = below_SxN * (size_SxN - below_SxN / 2)
        ridge_S = RIDGE / 2 * (s_SxK**2).sum(axis=1)
        return e_SxN, error_SxN, cost_SxN.sum(axis=1) + ridge_S

    e_SxN, error_SxN, cost_S = costs(s_SxK)
    damping_S, converged_S = np.full(len(c_S), 1e-3), np.zeros(len(c_S), dtype=bool)
    for _ in range(ITERATIONS):
        pull_SxN = huber / np.maximum(np.abs(error_SxN), huber)
        slope_SxNxK = e_SxN[:, :, None] * weights_NxK
        pulled_SxKxN = (slope_SxNxK * pull_SxN[:, :, None]).transpose(0, 2, 1)
        slope_SxK = (pulled_SxKxN @ error_SxN[:, :, None])[:, :, 0] + RIDGE * s_SxK
        curve_SxKxK = pulled_SxKxN @ slope_SxNxK + RIDGE * identity_KxK
        damped_SxK = damping_S[:, None] * np.diagonal(curve_SxKxK, axis1=1, axis2=2)
        damped_SxKxK = curve_SxKxK + damped_SxK[:, :, None] * identity_KxK
        step_SxK = np.linalg.solve(damped_SxKxK, slope_SxK[:, :, None])[:, :, 0]
        # 1e-25 nats^2: an exact law ends in rounding, not in a minimum.
        converged_S |= (slope_SxK * step_SxK).sum(axis=1) <= TOLERANCE * cost_S + 1e-25
        if converged_S.all():
            break
        trial_SxK = s_SxK - np.where(converged_S[:, None], 0, step_SxK)
        *_, trial_S = costs(trial_SxK)
        better_S = trial_S < cost_S
        damping_S = np.where(better_S, damping_S / 10, damping_S * 10).clip(1e-9, 1e12)
        s_SxK = np.where(better_S[:, None], trial_SxK, s_SxK)
        e_SxN, error_SxN, cost_S = costs(s_SxK)
    return s_SxK, cost_S, converged_S
