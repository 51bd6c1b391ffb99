"""Weights to whole rows: largest-remainder apportionment.

Plain rounding breaks the sum: six equal domains and b = 256 would give 258 rows.
"""

import torch
from torch import Tensor


def apportion(weights_K: Tensor, b: int) -> Tensor:
    """Counts b_K (int64) nearest to b * w_K that sum to b exactly.

    Every domain gets the whole part of its quota; the rows left go one each to the largest
    remainders, ties to the lower index. Six equal domains and b = 256: 43 43 43 43 42 42.

    Args:
        weights_K: Non-negative float64 weights that sum to 1.
        b: Batch size.
    """
    quota_K = weights_K / weights_K.sum() * b
    count_K = quota_K.floor()
    left = b - int(count_K.sum())
    # Remainders that differ by rounding alone are ties: 0.3 * 5 and (0.1 + 0.2) * 5.
    remainder_K = (quota_K - count_K).round(decimals=9)
    order_K = torch.argsort(remainder_K, descending=True, stable=True)
    count_K[order_K[:left]] += 1
    return count_K.to(torch.int64)
