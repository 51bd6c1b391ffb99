"""Scaling laws L(n) = e^c + e^a n^-alpha, fitted to many domains from many starts at once.

The objective is that of ADO (arXiv 2410.11820): the sum over points of the Huber loss (delta 1e-3)
of log L(n) - log L, and a slope of 1 outside of bounds on a, c and alpha. The fit is Levenberg and
Marquardt's with the Huber loss as a reweighted square, which needs no line search and works on all
domains and starts as one array: first from a grid on a few points, then the best on all points.

Shapes: K domains, S starts, T points, 3 parameters of a law: a, c, alpha.
"""

import functools
import itertools

import numpy as np

from pike_mixing.arrays import Floats, Ints

DELTA = 1e-3
"""Where the Huber loss turns from a square to a line, in nats of log loss."""
ROUNDING = 1e-3
"""Width of the rounded kink of a bound; without it a step across the kink could not be judged."""
STARTS_Sx3 = np.array(
    [*itertools.product(range(-2, 6), np.arange(-4, 4) / 2, np.arange(8) / 10)], dtype=np.float64
)
FEW = 32
"""Points on which all starts are tried."""


@functools.cache
def smoothing(window: int) -> Floats:
    """Matrix that replaces a window's values by its cubic least-squares fit (Savitzky-Golay).

    The middle row smooths in the interior, the rows behind it at the end of a series.
    """
    place_W = np.linspace(-1, 1, window)
    basis, _ = np.linalg.qr(np.stack([place_W**power for power in range(4)], axis=1))
    result = basis @ basis.T
    # All callers share it.
    result.setflags(write=False)
    return result


def reducible(law_Kx3: Floats, rows: float) -> Floats:
    """The part e^a n^-alpha of each domain's loss that more rows take away, in nats."""
    a_K, _, alpha_K = law_Kx3.T
    return np.exp(a_K - alpha_K * np.log(rows))


def fit(rows_T: Ints, loss_TxK: Floats, min_log_irreducible: float) -> Floats:
    """The law of each domain.

    Args:
        rows_T: n, the same for all domains.
        loss_TxK: Positive losses in nats, smoothed.
        min_log_irreducible: Bound from below on c.

    Returns:
        law_Kx3: a, c and alpha of each domain.
    """
    # A cubic can dip below a loss that is nearly 0.
    x_T, y_KxT = np.log(rows_T), np.log(loss_TxK.clip(min=1e-9)).T
    low_3 = np.array([-10.0, min_log_irreducible, 1e-3])
    high_3 = np.array([6.5, np.inf, 0.8])
    few = np.linspace(0, len(x_T) - 1, min(FEW, len(x_T))).round().astype(np.int64)
    law_KxSx3 = np.broadcast_to(STARTS_Sx3, (len(y_KxT), *STARTS_Sx3.shape))
    law_KxSx3, value_KxS = _descended(law_KxSx3, x_T[few], y_KxT[:, few], low_3, high_3, tries=20)
    best_KxS = value_KxS.argsort(axis=1, kind="stable")[:, :4]
    law_KxSx3 = np.take_along_axis(law_KxSx3, best_KxS[..., None], axis=1)
    law_KxSx3, value_KxS = _descended(law_KxSx3, x_T, y_KxT, low_3, high_3, tries=100)
    best_K = value_KxS.argmin(axis=1)
    return law_KxSx3[np.arange(len(best_K)), best_K]


def _descended(
    law_KxSx3: Floats, x_T: Floats, y_KxT: Floats, low_3: Floats, high_3: Floats, *, tries: int
) -> tuple[Floats, Floats]:
    """Laws and objectives after `tries` steps, each taken only if it lowers the objective."""
    damping_KxS = np.full(law_KxSx3.shape[:2], 1e-2)
    value_KxS, gradient, hessian = objective(law_KxSx3, x_T, y_KxT, low_3, high_3)
    for _ in range(tries):
        scale = hessian.diagonal(axis1=-2, axis2=-1) + 1e-12
        damped = hessian + _diagonal(damping_KxS[..., None] * scale + 1e-15)
        step = np.linalg.solve(damped, gradient[..., None])[..., 0]
        if (np.abs(step) <= 1e-10 * (1 + np.abs(law_KxSx3))).all():
            break
        trial = law_KxSx3 - step
        value, slope, curvature = objective(trial, x_T, y_KxT, low_3, high_3)
        better_KxS = value < value_KxS
        damping_KxS = np.where(better_KxS, damping_KxS / 5, damping_KxS * 4).clip(1e-12, 1e12)
        law_KxSx3 = np.where(better_KxS[..., None], trial, law_KxSx3)
        value_KxS = np.where(better_KxS, value, value_KxS)
        gradient = np.where(better_KxS[..., None], slope, gradient)
        hessian = np.where(better_KxS[..., None, None], curvature, hessian)
    return law_KxSx3, value_KxS


def _diagonal(entry_KxSx3: Floats) -> Floats:
    return entry_KxSx3[..., None] * np.eye(3)


@np.errstate(divide="ignore", over="ignore")
def objective(
    law_KxSx3: Floats, x_T: Floats, y_KxT: Floats, low_3: Floats, high_3: Floats
) -> tuple[Floats, Floats, Floats]:
    """Objective_KxS, gradient_KxSx3, and a positive Hessian_KxSx3x3 that bounds its curvature.

    Args:
        law_KxSx3: a, c and alpha of S laws for each domain.
        x_T: log n of the points.
        y_KxT: Log losses (nats) there.
        low_3: Bounds from below.
        high_3: Bounds from above.
    """
    a, c, alpha = np.moveaxis(law_KxSx3[..., None], 2, 0)
    power = a - alpha * x_T
    # Share of the power law in the loss: the derivative of logaddexp by its first argument.
    share = 1 / (1 + np.exp(c - power))
    residual = np.logaddexp(power, c) - y_KxT[:, None]
    size = np.abs(residual)
    weight = (DELTA / size).clip(max=1)
    value_KxS = np.where(size > DELTA, DELTA * (size - DELTA / 2), residual**2 / 2).sum(-1)
    jacobian = np.stack([share, 1 - share, -share * x_T], axis=-1)
    weighted = jacobian * weight[..., None]
    gradient = (weighted * residual[..., None]).sum(-2)
    hessian = weighted.swapaxes(-2, -1) @ jacobian
    for outside, sign in ((low_3 - law_KxSx3, -1), (law_KxSx3 - high_3, 1)):
        past = outside.clip(min=0)
        kink = past.clip(max=ROUNDING)
        value_KxS = value_KxS + (kink * (past - kink / 2)).sum(-1) / ROUNDING
        gradient = gradient + sign * kink / ROUNDING
        hessian = hessian + _diagonal(np.where(past > 0, 1 / past.clip(ROUNDING), 0))
    return value_KxS, gradient, hessian
