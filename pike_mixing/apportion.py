"""Weights to whole rows: largest-remainder apportionment, or one that evens out over steps.

Plain rounding breaks the sum: six equal domains and b = 256 would give 258 rows.
"""

import numpy as np

from pike_mixing.arrays import Floats, Ints


def apportion(weights_K: Floats, b: int) -> Ints:
    """Counts b_K (int64) nearest to b * w_K that sum to b exactly.

    Every domain gets the whole part of its quota; the rows left go one each to the largest
    remainders, ties to the lower index. Six equal domains and b = 256: 43 43 43 43 42 42.
    """
    quota_K = weights_K / weights_K.sum() * b
    count_K = np.floor(quota_K)
    left = b - int(count_K.sum())
    # Remainders that differ by rounding alone are ties: 0.3 * 5 and (0.1 + 0.2) * 5.
    remainder_K = (quota_K - count_K).round(decimals=9)
    order_K = np.argsort(-remainder_K, kind="stable")
    count_K[order_K[:left]] += 1
    return count_K.astype(np.int64)


GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it modulo 1 spread more evenly over [0, 1) than those of any other number."""


def apportion_over_steps(weights_K: Floats, b: int, step: int) -> Ints:
    """Counts b_K (int64) that sum to b, and over the steps to b * w_K per step on average.

    The domains' quotas lie end to end on [0, b); a count is the number of points u, u + 1, ... in a
    domain's stretch, with u = step * GOLDEN modulo 1. So a count is its quota rounded up or down,
    and a weight of 0.01 in a batch of 24 rows, which largest remainders seldom serve, gets a row in
    about one step of four.

    Args:
        weights_K: Non-negative float64 weights that sum to 1.
        b: Batch size.
        step: 0-based step.
    """
    # Sums that differ from a whole number by rounding alone are that number: at step 0, where a
    # point lies on it, one of five equal domains would take a row of another one.
    sum_K = weights_K.cumsum()
    end_K = (sum_K / sum_K[-1] * b).round(decimals=9)
    # Points in [0, x): those of u, u + 1, ... below x.
    below_K = np.ceil(end_K - step * GOLDEN % 1).clip(min=0)
    return np.diff(below_K, prepend=0).astype(np.int64)
