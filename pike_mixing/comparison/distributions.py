"""Tails and quantiles: two-sided, of the normal distribution, Student's t and a fair coin."""

import math

import numpy as np
from scipy import special

from pike_mixing.arrays import Floats


def two_sided_critical_z(error_level: float) -> float:
    """The z with P(|Z| > z) = error_level; 1.96 at 0.05."""
    return float(-special.ndtri(error_level / 2))


def fair_coin_pmf(trials: int) -> Floats:
    """Probabilities of 0 ... trials heads of a fair coin."""
    heads = np.arange(trials + 1)
    ways = special.gammaln([heads + 1, trials - heads + 1]).sum(axis=0)
    return np.exp(math.lgamma(trials + 1) - ways - trials * math.log(2))


def two_sided_t_p(t: float, degrees: float) -> float:
    """P(|T| > t) of Student's t. One degree, t = 1: quartiles of Cauchy's distribution, so 1/2."""
    return float(2 * special.stdtr(degrees, -abs(t)))


def two_sided_critical_t(error_level: float, degrees: float) -> float:
    """The t with P(|T| > t) = error_level."""
    return float(-special.stdtrit(degrees, error_level / 2))
