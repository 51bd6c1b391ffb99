"""How fast domains' losses fall with the rows that they are given, and by how much they fell.

Shapes: K domains, P of them.
"""

import numpy as np

from pike_mixing.arrays import Array, Floats, Ints
from pike_mixing.numerics.shrinkage import root_mean_square

Means = dict[str, Array]
"""Running means by name, which `with_losses` makes and takes: parts of a method's state."""

SLOPE_VARIANCE = 64 * (16 / 7 + 64 / 15 - 64 / 11)
"""Variance of a slope of the loss in log rows, times the number of rows, over that of a row: 47."""


def with_losses(state: Means, loss_K: Floats, count_K: Ints) -> Means:
    """The state with the mean losses of one more batch's rows.

    The n-th row of a domain has the weight n^3 in its early loss, n^7 in its late one. Half of the
    squared difference of two rows is their variance, and more where the loss falls; that of batches
    of b and c rows is divided by (1/b + 1/c) / 2, and its mean is weighed by n.

    Args:
        state: The state before.
        loss_K: Mean losses of the batch's rows, nats per token.
        count_K: Those rows.
    """
    seen_K = np.isfinite(loss_K) & (count_K > 0)
    loss_P, count_P = loss_K[seen_K], count_K[seen_K]
    before_P = state["rows_K"][seen_K]
    n_P = before_P + count_P
    last_P, last_count_P = state["last_loss_K"][seen_K], state["last_count_K"][seen_K]
    variance_P = (loss_P - last_P) ** 2 / (1 / count_P + 1 / last_count_P)

    def mean(name: str, value_P: Floats, power: int) -> Floats:
        mean_P, share_P = state[name][seen_K], 1 - (before_P / n_P) ** (power + 1)
        return np.where(np.isnan(mean_P), value_P, mean_P + share_P * (value_P - mean_P))

    first_P = state["first_loss_K"][seen_K]
    values = {
        "first_loss_K": np.where(np.isnan(first_P), loss_P, first_P),
        "early_loss_K": mean("early_loss_K", loss_P, 3),
        "late_loss_K": mean("late_loss_K", loss_P, 7),
        "row_variance_K": mean("row_variance_K", variance_P, 1),
        "rows_K": n_P,
        "last_loss_K": loss_P,
        "last_count_K": count_P,
    }
    changed = {name: state[name].copy() for name in values}
    for name, value_P in values.items():
        changed[name][seen_K] = value_P
    return state | changed


def loss_decreases(state_P: Means, worth_P: Floats) -> tuple[Floats, Floats]:
    """How fast the losses fall per row, in root mean squares, and the variances of that.

    Of a loss a - s log n the mean with the weight n^p is a - s (log N - 1/(p+1)) after N rows; so
    the slope is s = 8 (early - late), and the fall per row s/N. The slope has the variance
    64 int_0^N (4 n^3/N^4 - 8 n^7/N^8)^2 dn = 47/N times that of a row.
    """
    n_P = state_P["rows_K"]
    decrease_P = worth_P * 8 * (state_P["early_loss_K"] - state_P["late_loss_K"]) / n_P
    variance_P = worth_P**2 * SLOPE_VARIANCE * state_P["row_variance_K"] / n_P**3
    unit = root_mean_square(decrease_P)
    return (decrease_P / unit).clip(min=0), variance_P / unit**2


def protected(score_P: Floats, state_P: Means) -> Floats:
    """The scores, without those below 0 of domains that have not fallen by more than the mean part.

    The part of a loss that has fallen is 1 - late / first.
    """
    fallen_P = 1 - state_P["late_loss_K"] / state_P["first_loss_K"]
    return np.where((score_P < 0) & ~(fallen_P > fallen_P.mean()), 0.0, score_P)
