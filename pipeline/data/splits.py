"""Which documents are for validation: a function of the text, so that duplicates cannot cross."""

import hashlib


def text_hash(text: str) -> int:
    """First 8 bytes of the text's SHA-256 as a big-endian number."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def is_validation(hashed: int, share: float) -> bool:
    """Whether the document of this hash is among the share kept for validation."""
    return hashed / 2**64 < share
