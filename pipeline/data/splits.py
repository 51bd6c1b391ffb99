"""Which documents are for validation: a function of the text, so that duplicates cannot cross."""

import hashlib
from typing import Any


def text_hash(text: str) -> int:
    """First 8 bytes of the text's SHA-256 as a big-endian number."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def is_validation(hashed: Any, share: float) -> Any:
    """Whether the document of this hash is among the share kept for validation.

    Of an array of hashes, uint64 [N], bool [N]: dividing by a power of two rounds both alike.
    """
    return hashed / 2.0**64 < share
