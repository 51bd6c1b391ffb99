"""p-values of a difference between two methods on the same items, and Holm's correction.

Shapes: S seeds, G clusters (documents that items were cut from), M comparisons.
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy import optimize

from pike_mixing.comparison.distributions import fair_coin_pmf
from pike_mixing.comparison.mean_difference import Estimate, half_width


def p_value(estimate: Estimate) -> float | None:
    """The level at which the interval of `half_width` touches zero.

    Below 1e-100 it is 0, above 0.999998 it is 1.
    """
    if estimate.of_items is None:
        return None
    size, least, most = abs(estimate.difference), 1e-100, 1 - 1e-6

    def interval_half_width_at(level: float) -> float:
        return half_width(estimate, level) or 0.0

    if size <= interval_half_width_at(1 - 2e-6):
        return 1.0
    if interval_half_width_at(least) <= size:
        return 0.0

    # Logarithms of both are nearly a straight line.
    def log_ratio(log_level: float) -> float:
        return math.log(interval_half_width_at(math.exp(log_level)) / size)

    return math.exp(optimize.brentq(log_ratio, math.log(least), math.log(most)))


def p_value_if_enough(estimate: Estimate) -> float | None:
    """`p_value` where a verdict may rest on it: not over few seeds or documents."""
    return p_value(estimate) if estimate.has_enough_for_verdict else None


def exact_sign_flip_p(sum_G: npt.ArrayLike) -> float:
    """Exact two-sided p-value for differences that come in clusters: McNemar by document.

    Under the null hypothesis the two methods can be swapped within any document, all its items
    together: every sum d_g of differences, in points, has either sign with probability 1/2. p is
    the probability that |sum of +-d_g| is at least as large as the one found, by convolution,
    without drawing. Items that stand alone give McNemar's p-value.
    """
    value_U, times_U = np.unique(np.asarray(sum_G, np.float64).ravel(), return_counts=True)
    fractions = [Fraction(value).limit_denominator(1000) for value in value_U.tolist()]
    scale = math.lcm(*(f.denominator for f in fractions))
    times_of: Counter[int] = Counter()
    total = 0
    for fraction, times in zip(fractions, times_U.tolist(), strict=True):
        unit = int(fraction * scale)
        total += unit * times
        times_of[abs(unit)] += times
    del times_of[0]
    weight_X = np.ones(1)
    for size, times in sorted(times_of.items()):
        one_X = np.zeros(2 * size * times + 1)
        one_X[:: 2 * size] = fair_coin_pmf(times)
        weight_X = np.convolve(weight_X, one_X)
    reach, result = len(weight_X) // 2, abs(total)
    tails = weight_X[: reach - result + 1].sum() + weight_X[reach + result :].sum()
    return min(1.0, float(tails))


def holm_adjusted(p_M: Sequence[float | None]) -> list[float | None]:
    """Holm's p-values: the chance of any false finding in the family stays below the level.

    The smallest of m p-values is multiplied by m, the next by m - 1, and so on; none may be
    smaller than one before it. Missing p-values stay missing and do not count.
    """
    order = sorted((p, i) for i, p in enumerate(p_M) if p is not None)
    adjusted: list[float | None] = [None] * len(p_M)
    highest = 0.0
    for rank, (p, i) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        adjusted[i] = highest
    return adjusted


def p_by_seeds_or_sign_flips(sum_SxG: npt.ArrayLike, estimate: Estimate) -> float | None:
    """The p-value of sums of differences in points, with their estimate.

    One seed: `exact_sign_flip_p` over documents, which says nothing about other seeds. Several:
    `p_value_if_enough`, None where seeds or documents are too few for one; where they are enough
    and nothing varies there is no error to go by, and documents are flipped too.
    """
    if estimate.seeds == 1 or (estimate.stderr == 0 and estimate.has_enough_for_verdict):
        return exact_sign_flip_p(
            [math.fsum(row_S) / estimate.seeds for row_S in np.asarray(sum_SxG).T]
        )
    return p_value_if_enough(estimate)
