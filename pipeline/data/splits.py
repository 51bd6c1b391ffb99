"""Which documents are for validation: a function of the text, so that duplicates cannot cross."""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt


def text_hash(text: str) -> int:
    """First 8 bytes of the text's SHA-256 as a big-endian number."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def is_validation(hashed: int, share: float) -> bool:
    """Whether the document of this hash is among the share kept for validation."""
    return hashed / 2**64 < share


def are_validation(hash_N: npt.NDArray[np.uint64], share: float) -> npt.NDArray[np.bool_]:
    """`is_validation` of N documents: division by a power of two is exact, rounding is the same."""
    rounded_N: npt.NDArray[Any] = hash_N.astype(np.float64)
    return rounded_N / 2.0**64 < share
