"""What a mixing method does, as flat numbers by name, for any tracker."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pike_mixing.interface import Statistics


def metrics(
    domains: Sequence[str],
    *,
    statistics: Statistics | None = None,
    **of_domains: Any,
) -> dict[str, float]:
    """Numbers by name: `mixing/weight/en`, `mixing/squared_norm/en`; what is NaN is left out.

    Args:
        domains: Names of the K domains.
        statistics: Gradient statistics.
        of_domains: K numbers by what they are: weight, count, loss, coefficient; None for none.
    """
    if statistics is not None:
        of_domains |= {
            "squared_norm": statistics.squared_norm_unbiased_K,
            "variance": statistics.variance_K,
        }
    return {
        f"mixing/{what}/{domain}": float(number)
        for what, numbers_K in of_domains.items()
        if numbers_K is not None
        for domain, number in zip(domains, numbers_K, strict=True)
        if not np.isnan(number)
    }
