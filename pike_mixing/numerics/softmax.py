"""Exponentials that are divided by their sum, without overflow. No numbers give no numbers."""

import numpy as np

from pike_mixing.arrays import Floats


@np.errstate(invalid="ignore")
def softmax(x_K: Floats) -> Floats:
    """exp(x_k) / sum_j exp(x_j)."""
    part_K = np.exp(x_K - x_K.max(initial=-np.inf))
    return part_K * (1 / part_K.sum()) if len(part_K) else part_K


def log_softmax(x_K: Floats) -> Floats:
    """The logarithm of the softmax: no weight underflows to 0."""
    below_K = x_K - x_K.max()
    return below_K - np.log(np.exp(below_K).sum())


def logsumexp(x_K: Floats) -> float:
    """Log sum_k exp(x_k); -infinity for no numbers and where all of them are -infinity."""
    highest = float(x_K.max(initial=-np.inf))
    return highest if np.isinf(highest) else float(np.log(np.exp(x_K - highest).sum()) + highest)
