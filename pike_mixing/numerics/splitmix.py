"""The counter-based hash of orders and languages: the same on every platform and NumPy version."""

import numpy as np
import numpy.typing as npt

Uint64s = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Step between counters."""


def mix(value: Uint64s) -> Uint64s:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
