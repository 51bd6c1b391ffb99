"""What a measurement does not cover: a domain without rows in a batch is NaN, never 0."""

import numpy as np

from pike_mixing.arrays import Floats


def filled(value_K: Floats, last_K: Floats) -> Floats:
    """Gaps filled by the domain's last known value, else by the mean of the domains that have one.

    All NaN when nothing is known of any domain.
    """
    value_K = np.where(np.isnan(value_K), last_K, value_K)
    known_K = ~np.isnan(value_K)
    return np.where(known_K, value_K, value_K[known_K].mean()) if known_K.any() else value_K
