"""How large a difference so many seeds and items show: the power of the test over seeds.

The test is close to that of `mean_difference.half_width`: a difference D counts where |D| exceeds

    half = sqrt((t(S - 1) SD)^2 / S + (1.96 SE)^2),

SD the standard deviation of the S seeds' differences, SE the error from items or documents, which
all seeds share.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.comparison.distributions import two_sided_normal_quantile, two_sided_t_quantile

POWER, LEVEL = 0.8, 0.05
MOST = 1000.0
"""More than so many times the validation text, runs or items nobody has."""


class VarianceGrid(NamedTuple):
    """Values of V / degrees, V chi-squared, and their probabilities."""

    ratio_V: Floats
    weight_V: Floats


def variance_grid(degrees: int) -> VarianceGrid:
    """V / degrees at 1000 evenly spaced values of ln V."""
    # The density of x = ln V is proportional to exp(degrees x / 2 - exp(x) / 2).
    x = np.linspace(math.log(degrees) - 40 / degrees**0.5, math.log(degrees) + 5, 1000)
    density = np.exp(degrees / 2 * (x - math.log(degrees)) - (np.exp(x) - degrees) / 2)
    return VarianceGrid(np.exp(x) / degrees, density / density.sum())


@functools.lru_cache(maxsize=256)
def detection_probability(
    difference: float, seed_sd: float, seeds: int, item_stderr: float, level: float = LEVEL
) -> float:
    """Probability that the test finds a true difference, with its sign.

    The observed difference is normal with variance SD^2 / S + SE^2; the square of the observed SD
    is SD^2 V / (S - 1), V chi-squared with S - 1 degrees. SD is that of at least two seeds'
    differences, SE the error from the choice of items, both in the difference's unit; the level is
    two-sided.
    """
    ratio, weight = variance_grid(seeds - 1)
    of_seeds = (two_sided_t_quantile(level, seeds - 1) * seed_sd) ** 2 * ratio / seeds
    half = np.sqrt(of_seeds + (two_sided_normal_quantile(level) * item_stderr) ** 2)
    spread = math.sqrt(seed_sd**2 / seeds + item_stderr**2)
    # Phi(z) = erfc(-z / sqrt(2)) / 2; NormalDist.cdf takes ten times as long.
    missed = (half - difference) / (spread * math.sqrt(2))
    return float(weight @ [math.erfc(z) for z in missed.tolist()]) / 2


def wanted_item_factor(
    difference: float, seed_sd: float, seeds: int, item_stderr: float, level: float = LEVEL
) -> float | None:
    """How many times the items show the difference with probability `POWER`, by the same seeds.

    The error from f times as many items of the same kind is SE / sqrt(f). Where seeds do not
    differ, f = ((z(level) + z(power)) SE / D)^2: of D = SE, (1.960 + 0.842)^2 = 7.85. It is right
    to 1 %; None where even `MOST` would not do, since the seeds differ too much.
    """

    def is_enough(factor: float) -> bool:
        error = item_stderr / math.sqrt(factor)
        return detection_probability(difference, seed_sd, seeds, error, level) >= POWER

    return smallest_sufficient_factor(is_enough)


def smallest_sufficient_factor(is_enough: Callable[[float], bool]) -> float | None:
    """The smallest factor from 1 to `MOST` that is enough, to 1 %; None where none is."""
    if not is_enough(MOST):
        return None
    low, high = 0.0, math.log(MOST)
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(math.exp(middle)) else (middle, high)
    return math.exp(high)


@functools.lru_cache(maxsize=256)
def smallest_detectable(seed_sd: float, seeds: int, item_stderr: float = 0.0) -> float:
    """The smallest true difference that the test finds with probability `POWER`.

    Three seeds that differ by 1 and no error from items: 3.26, where the quantiles' own sum (4.303
    + 1.061) / sqrt(3) = 3.10 is too small: that of a normal difference over a known spread.
    Arguments as of `detection_probability`.
    """
    return smallest_detected(
        lambda difference: detection_probability(difference, seed_sd, seeds, item_stderr) >= POWER,
        math.sqrt(seed_sd**2 / seeds + item_stderr**2),
        1e-4,
    )


def smallest_detected(
    is_detected: Callable[[float], bool], start: float, tolerance: float
) -> float:
    """The smallest difference that is found, to a relative tolerance, looked for from a start."""
    low, high = 0.0, start
    while high and not is_detected(high):
        low, high = high, 2 * high
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_detected(middle) else (middle, high)
    return high
