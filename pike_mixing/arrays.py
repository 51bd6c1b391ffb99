"""The arrays of the interface: float64 for numbers, int64 for counts; NaN for not measured."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def filled(value_K: Floats, last_K: Floats) -> Floats:
    """Gaps filled by the domain's last known value, else by the mean of the domains that have one.

    All NaN when nothing is known of any domain.
    """
    value_K = np.where(np.isnan(value_K), last_K, value_K)
    known_K = ~np.isnan(value_K)
    return np.where(known_K, value_K, value_K[known_K].mean()) if known_K.any() else value_K
