"""Noisy measurements of P domains in a common unit, shrunk towards "all domains are alike"."""

import numpy as np

from pike_mixing.arrays import Floats


def root_mean_square(value_P: Floats) -> np.float64:
    """The root of the mean square; 1 where all are 0. NumPy's, whose square raises no error."""
    largest = np.abs(value_P).max(initial=0)
    if largest == 0:
        return np.float64(1)
    # No square overflows, nor do all underflow.
    return np.float64(largest * np.sqrt(((value_P / largest) ** 2).mean()))


def shrunk(mean_P: Floats, variance_P: Floats) -> Floats:
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
