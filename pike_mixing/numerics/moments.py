"""The variance of one row's gradient from micro-batches, and shrinking towards "all alike".

With n micro-batches of s_i rows (R in all), mean gradients g_i and their row-weighted mean g,

    sum_i s_i |g_i|^2 - R |g|^2 = (n - 1) sigma^2    in expectation

gives an unbiased estimate of the variance sigma^2 of one row's gradient for micro-batches of any
size. With micro-batches of one row it is the variance of the rows themselves. Measurements of P
domains in a common unit are shrunk towards the mean domain by their noise.
"""

from typing import Any

import numpy as np

from pike_mixing.arrays import Floats


def variance_of_rows(
    weighted_squares: Any, squared_norm: Any, rows: Any, degrees_of_freedom: Any
) -> Any:
    """sigma^2 of one row's gradient, from sum_i s_i |g_i|^2, |g|^2, R, and n - 1 or NaN.

    Numbers, arrays or tensors alike.
    """
    return (weighted_squares - rows * squared_norm) / degrees_of_freedom


def root_mean_square_or_one(value_P: Floats) -> np.float64:
    """The root of the mean square; 1 where all are 0. NumPy's, whose square raises no error."""
    largest = np.abs(value_P).max(initial=0)
    if largest == 0:
        return np.float64(1)
    # No square overflows, nor do all underflow.
    return np.float64(largest * np.sqrt(((value_P / largest) ** 2).mean()))


def shrunk_distances_from_mean(mean_P: Floats, variance_P: Floats) -> Floats:
    """How far each domain is from the mean domain, beyond noise.

    Between domains the measured m_k vary by S, of which the truth has S - mean V: the
    empirical-Bayes estimate keeps that share of each distance; nothing where noise explains S.
    """
    distance_P = mean_P - mean_P.mean()
    spread = (distance_P**2).sum() / max(len(mean_P) - 1, 1)
    noise = variance_P.mean()
    if not spread > noise:
        return np.zeros_like(mean_P)
    return (1 - noise / spread) * distance_P
