"""How large a difference the comparison finds: the power of the test of `mean_difference`."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.comparison.distributions import two_sided_critical_t
from pike_mixing.comparison.mean_difference import LEVEL, Estimate, half_width

POWER = 0.8
MOST = 1000.0
"""More than so many times the validation text, runs or items nobody has."""


class VarianceRatioGrid(NamedTuple):
    """Ratios of an observed variance to the true one, and their probabilities."""

    ratio_V: Floats
    probability_V: Floats


def observed_to_true_variance_grid(degrees: float) -> VarianceRatioGrid:
    """V / degrees, V chi-squared, at 1000 evenly spaced values of ln V."""
    # The density of x = ln V is proportional to exp(degrees x / 2 - exp(x) / 2).
    x = np.linspace(math.log(degrees) - 40 / degrees**0.5, math.log(degrees) + 5, 1000)
    density = np.exp(degrees / 2 * (x - math.log(degrees)) - (np.exp(x) - degrees) / 2)
    return VarianceRatioGrid(np.exp(x) / degrees, density / density.sum())


def detection_power(
    difference: float,
    estimate: Estimate,
    level: float = LEVEL,
    *,
    runs: float = 1,
    items: float = 1,
) -> float:
    """Probability that the comparison finds a true difference, with its sign.

    Asked is a test of this two-sided level with so many times the estimate's runs and items of the
    same kind. The observed difference is normal, with both errors' variances; of D degrees, the
    square of the observed error over seeds is the true one's times V / D, V chi-squared.
    """
    assert estimate.of_items is not None
    of_items, unseen = estimate.of_items / math.sqrt(items), estimate.unseen / items
    fixed = math.hypot(
        two_sided_critical_t(level, estimate.degrees * items) * of_items, math.log(level) * unseen
    )
    of_seeds = (estimate.of_seeds or 0.0) / math.sqrt(runs)
    if of_seeds:
        degrees = estimate.seed_degrees * (estimate.seeds * runs - 1) / (estimate.seeds - 1)
        ratio_V, probability_V = observed_to_true_variance_grid(degrees)
        half_V = np.sqrt(
            (two_sided_critical_t(level, degrees) * of_seeds) ** 2 * ratio_V + fixed**2
        )
    else:
        half_V, probability_V = np.array([fixed]), np.ones(1)
    spread = math.hypot(of_seeds, of_items)
    if not spread:
        return float(probability_V @ (half_V < difference))
    # Phi(z) = erfc(-z / sqrt(2)) / 2; NormalDist.cdf takes ten times as long.
    missed = (half_V - difference) / (spread * math.sqrt(2))
    return float(probability_V @ [math.erfc(z) for z in missed.tolist()]) / 2


def detectable_difference(estimate: Estimate, level: float = LEVEL) -> float:
    """The smallest true difference that the comparison finds with probability `POWER`."""

    def is_detected(difference: float) -> bool:
        return detection_power(difference, estimate, level) >= POWER

    low, high = 0.0, half_width(estimate, level) or 0.0
    while high and not is_detected(high):
        low, high = high, 2 * high
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_detected(middle) else (middle, high)
    return high


@functools.lru_cache(maxsize=256)
def detection_probability(
    difference: float,
    seed_difference_sd: float,
    paired_seeds: int,
    item_stderr: float,
    level: float = LEVEL,
) -> float:
    """`detection_power` over paired seeds and very many items.

    The SD is that of at least two seeds' differences, the error that from the choice of items, both
    in the difference's unit; the level is two-sided.
    """
    estimate = _paired_estimate(seed_difference_sd, paired_seeds, item_stderr)
    return detection_power(difference, estimate, level)


def wanted_item_factor(
    difference: float,
    seed_difference_sd: float,
    paired_seeds: int,
    item_stderr: float,
    level: float,
) -> float | None:
    """How many times the items show the difference with probability `POWER`, by the same seeds.

    The error from f times as many items of the same kind is SE / sqrt(f). Where seeds do not
    differ, f = ((z(level) + z(power)) SE / D)^2: of D = SE, (1.960 + 0.842)^2 = 7.85. It is right
    to 1 %; None where even `MOST` would not do, since the seeds differ too much.
    """
    estimate = _paired_estimate(seed_difference_sd, paired_seeds, item_stderr)
    return smallest_sufficient_factor(
        lambda factor: detection_power(difference, estimate, level, items=factor) >= POWER
    )


def _paired_estimate(seed_sd: float, seeds: int, item_stderr: float) -> Estimate:
    of_seeds = seed_sd / math.sqrt(seeds)
    return Estimate(0.0, of_seeds=of_seeds, of_items=item_stderr, seeds=seeds, degrees=math.inf)


def smallest_sufficient_factor(is_enough: Callable[[float], bool]) -> float | None:
    """The smallest factor from 1 to `MOST` that is enough, to 1 %; None where none is."""
    if not is_enough(MOST):
        return None
    low, high = 0.0, math.log(MOST)
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(math.exp(middle)) else (middle, high)
    return math.exp(high)
