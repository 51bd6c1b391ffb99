"""From sums over micro-batches to gradient statistics.

With n micro-batches of s_i rows (R in all), mean gradients g_i and their row-weighted mean g,

    sum_i s_i |g_i|^2 - R |g|^2 = (n - 1) sigma^2    in expectation

gives an unbiased estimate of the variance sigma^2 of one row's gradient for micro-batches of any
size, and |g|^2 - sigma^2 / R an unbiased one of the true squared norm. With micro-batches of one
row it is the variance of the rows themselves.
"""

from typing import Any

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.interface import Statistics


def variance_of_rows(weighted_squares: Any, squared_norm: Any, rows: Any, others: Any) -> Any:
    """sigma^2 of one row's gradient; numbers, arrays or tensors alike.

    Args:
        weighted_squares: sum_i s_i |g_i|^2 over the micro-batches.
        squared_norm: |g|^2 of the mean gradient of the rows.
        rows: Rows R.
        others: n - 1, or NaN where n is 1.
    """
    return (weighted_squares - rows * squared_norm) / others


def statistics_of(
    squared_norm_K: Floats, variance_K: Floats, loss_K: Floats, rows_K: Floats
) -> Statistics:
    """The statistics of K domains; NaN where one was not measured, with 0 rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        unbiased_K = squared_norm_K - variance_K / rows_K
    return Statistics(
        squared_norm_K=squared_norm_K,
        squared_norm_unbiased_K=unbiased_K,
        variance_K=variance_K,
        loss_K=loss_K,
        rows_K=rows_K,
    )
