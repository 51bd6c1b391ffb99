"""How domains' losses fall with rows: running means of losses, and scaling laws fitted to them.

The laws are L(n) = e^c + e^a n^-alpha, fitted to many domains from many starts at once. The
objective is that of ADO (arXiv 2410.11820): the sum over points of the Huber loss (delta 1e-3) of
log L(n) - log L, and a slope of 1 outside of bounds on a, c and alpha. The fit is Levenberg and
Marquardt's with the Huber loss as a reweighted square, which needs no line search and works on all
domains and starts as one array: first from a grid on a few points, then the best on all points.

Shapes: K domains, P of them, S starts, T points, 3 parameters of a law: a, c, alpha.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pike_mixing.arrays import Array, Floats, Ints
from pike_mixing.numerics.moments import root_mean_square_or_one

Means = dict[str, Array]
"""Running means by name, which `with_batch_losses` makes and takes: parts of a method's state."""

LogScaleLogFloorExponent = Floats
"""Laws, one in a row: a, c and alpha."""

SLOPE_VARIANCE = 64 * (16 / 7 + 64 / 15 - 64 / 11)
"""Variance of a slope of the loss in log rows, times the number of rows, over that of a row: 47."""


def with_batch_losses(state: Means, loss_K: Floats, count_K: Ints) -> Means:
    """The state with the mean losses of one more batch's rows.

    The n-th row of a domain has the weight n^3 in its early loss, n^7 in its late one. Half of the
    squared difference of two rows is their variance, and more where the loss falls; that of batches
    of b and c rows is divided by (1/b + 1/c) / 2, and its mean is weighed by n.
    """
    seen_K = np.isfinite(loss_K) & (count_K > 0)
    loss_P, count_P = loss_K[seen_K], count_K[seen_K]
    before_P = state["rows_K"][seen_K]
    n_P = before_P + count_P
    last_P, last_count_P = state["last_loss_K"][seen_K], state["last_count_K"][seen_K]
    variance_P = (loss_P - last_P) ** 2 / (1 / count_P + 1 / last_count_P)

    def mean_with_batch(name: str, value_P: Floats, row_number_power: int) -> Floats:
        mean_P, share_P = state[name][seen_K], 1 - (before_P / n_P) ** (row_number_power + 1)
        return np.where(np.isnan(mean_P), value_P, mean_P + share_P * (value_P - mean_P))

    first_P = state["first_loss_K"][seen_K]
    values = {
        "first_loss_K": np.where(np.isnan(first_P), loss_P, first_P),
        "early_loss_K": mean_with_batch("early_loss_K", loss_P, 3),
        "late_loss_K": mean_with_batch("late_loss_K", loss_P, 7),
        "row_variance_K": mean_with_batch("row_variance_K", variance_P, 1),
        "rows_K": n_P,
        "last_loss_K": loss_P,
        "last_count_K": count_P,
    }
    changed = {name: state[name].copy() for name in values}
    for name, value_P in values.items():
        changed[name][seen_K] = value_P
    return state | changed


class FallsOverRms(NamedTuple):
    """Falls per row in units of their root mean square, none below 0, and their variances."""

    fall_over_rms_P: Floats
    variance_P: Floats


def falls_per_row_and_variances(state_P: Means, loss_weight_P: Floats) -> FallsOverRms:
    """How fast the weighted losses fall per row, in root mean squares, and the variances of that.

    Of a loss a - s log n the mean with the weight n^p is a - s (log N - 1/(p+1)) after N rows; so
    the slope is s = 8 (early - late), and the fall per row s/N. The slope has the variance
    64 int_0^N (4 n^3/N^4 - 8 n^7/N^8)^2 dn = 47/N times that of a row.
    """
    n_P = state_P["rows_K"]
    fall_P = loss_weight_P * 8 * (state_P["early_loss_K"] - state_P["late_loss_K"]) / n_P
    variance_P = loss_weight_P**2 * SLOPE_VARIANCE * state_P["row_variance_K"] / n_P**3
    unit = root_mean_square_or_one(fall_P)
    return FallsOverRms((fall_P / unit).clip(min=0), variance_P / unit**2)


def has_above_mean_relative_fall(state_P: Means) -> NDArray[np.bool_]:
    """Whether each loss has fallen by a larger part of its first value than the mean domain's."""
    fallen_P = 1 - state_P["late_loss_K"] / state_P["first_loss_K"]
    return fallen_P > fallen_P.mean()


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
def cubic_smoothing_matrix(window: int) -> Floats:
    """Matrix that replaces a window's values by its cubic least-squares fit (Savitzky-Golay).

    The middle row smooths in the interior, the rows behind it at the end of a series.
    """
    place_W = np.linspace(-1, 1, window)
    basis, _ = np.linalg.qr(np.stack([place_W**power for power in range(4)], axis=1))
    result = basis @ basis.T
    # All callers share it.
    result.setflags(write=False)
    return result


def reducible_losses(law_Kx3: LogScaleLogFloorExponent, rows: float) -> Floats:
    """The part e^a n^-alpha of each domain's loss that more rows take away, in nats."""
    a_K, _, alpha_K = law_Kx3.T
    return np.exp(a_K - alpha_K * np.log(rows))


def fit_laws(
    rows_T: Ints, loss_TxK: Floats, min_log_irreducible: float
) -> LogScaleLogFloorExponent:
    """The law of each domain, Kx3: a, c and alpha.

    Losses are smoothed, in nats; `min_log_irreducible` bounds c from below.
    """
    # A cubic can dip below a loss that is nearly 0.
    x_T, y_KxT = np.log(rows_T), np.log(loss_TxK.clip(min=1e-9)).T
    low_3 = np.array([-10.0, min_log_irreducible, 1e-3])
    high_3 = np.array([6.5, np.inf, 0.8])
    few = np.linspace(0, len(x_T) - 1, min(FEW, len(x_T))).round().astype(np.int64)
    law_KxSx3 = np.broadcast_to(STARTS_Sx3, (len(y_KxT), *STARTS_Sx3.shape))
    law_KxSx3, value_KxS = _descend_laws(
        law_KxSx3, x_T[few], y_KxT[:, few], low_3, high_3, tries=20
    )
    best_KxS = value_KxS.argsort(axis=1, kind="stable")[:, :4]
    law_KxSx3 = np.take_along_axis(law_KxSx3, best_KxS[..., None], axis=1)
    law_KxSx3, value_KxS = _descend_laws(law_KxSx3, x_T, y_KxT, low_3, high_3, tries=100)
    best_K = value_KxS.argmin(axis=1)
    return law_KxSx3[np.arange(len(best_K)), best_K]


def _descend_laws(
    law_KxSx3: Floats, x_T: Floats, y_KxT: Floats, low_3: Floats, high_3: Floats, *, tries: int
) -> tuple[Floats, Floats]:
    """Laws and objectives after `tries` steps, each taken only if it lowers the objective."""
    damping_KxS = np.full(law_KxSx3.shape[:2], 1e-2)
    value_KxS, gradient, hessian = law_objective_and_derivatives(
        law_KxSx3, x_T, y_KxT, low_3, high_3
    )
    for _ in range(tries):
        scale = hessian.diagonal(axis1=-2, axis2=-1) + 1e-12
        damped = hessian + _diagonal_matrices(damping_KxS[..., None] * scale + 1e-15)
        step = np.linalg.solve(damped, gradient[..., None])[..., 0]
        if (np.abs(step) <= 1e-10 * (1 + np.abs(law_KxSx3))).all():
            break
        trial = law_KxSx3 - step
        value, slope, curvature = law_objective_and_derivatives(trial, x_T, y_KxT, low_3, high_3)
        better_KxS = value < value_KxS
        damping_KxS = np.where(better_KxS, damping_KxS / 5, damping_KxS * 4).clip(1e-12, 1e12)
        law_KxSx3 = np.where(better_KxS[..., None], trial, law_KxSx3)
        value_KxS = np.where(better_KxS, value, value_KxS)
        gradient = np.where(better_KxS[..., None], slope, gradient)
        hessian = np.where(better_KxS[..., None, None], curvature, hessian)
    return law_KxSx3, value_KxS


def _diagonal_matrices(entry_KxSx3: Floats) -> Floats:
    return entry_KxSx3[..., None] * np.eye(3)


@np.errstate(divide="ignore", over="ignore")
def law_objective_and_derivatives(
    law_KxSx3: Floats, x_T: Floats, y_KxT: Floats, low_3: Floats, high_3: Floats
) -> tuple[Floats, Floats, Floats]:
    """Objective_KxS, gradient_KxSx3, and a positive Hessian_KxSx3x3 that bounds its curvature.

    Of S laws (a, c, alpha) for each domain, at points x = log n with log losses y.
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
        hessian = hessian + _diagonal_matrices(np.where(past > 0, 1 / past.clip(ROUNDING), 0))
    return value_KxS, gradient, hessian
