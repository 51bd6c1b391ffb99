"""From sums over micro-batches to the variance of one row's gradient.

With n micro-batches of s_i rows (R in all), mean gradients g_i and their row-weighted mean g,

    sum_i s_i |g_i|^2 - R |g|^2 = (n - 1) sigma^2    in expectation

gives an unbiased estimate of the variance sigma^2 of one row's gradient for micro-batches of any
size. With micro-batches of one row it is the variance of the rows themselves.
"""

from typing import Any


def variance_of_rows(
    weighted_squares: Any, squared_norm: Any, rows: Any, degrees_of_freedom: Any
) -> Any:
    """sigma^2 of one row's gradient; numbers, arrays or tensors alike.

    Args:
        weighted_squares: sum_i s_i |g_i|^2 over the micro-batches.
        squared_norm: |g|^2 of the mean gradient of the rows.
        rows: Rows R.
        degrees_of_freedom: n - 1, or NaN where n is 1.
    """
    return (weighted_squares - rows * squared_norm) / degrees_of_freedom
