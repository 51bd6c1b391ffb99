"""Which documents are held out: a function of the text, so that duplicates cannot cross.

Of those held out most are the validation split, which results are measured on. The others are the
search split: grids and finders choose by its losses, so that no result is over documents by which
a setting or a mixture was chosen.
"""

import hashlib
import unicodedata
from typing import Any, Literal

Normalisation = Literal["NFC", "NFKC"] | None
"""Of Unicode, for a text before it is hashed and written; None leaves it as it is."""
SEARCH_SHARE = 0.1
"""Share of the held-out documents that are the search split."""


def normalised(text: str, how: Normalisation) -> str:
    """The text as it is hashed and written."""
    return text if how is None else unicodedata.normalize(how, text)


def text_hash(text: str) -> int:
    """First 8 bytes of the text's SHA-256 as a big-endian number."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def is_held_out(hashed: Any, share: float) -> Any:
    """Whether the document of this hash is among the share that is not trained on.

    Of an array of hashes, uint64 [N], bool [N]: dividing by a power of two rounds both alike.
    """
    return hashed / 2.0**64 < share


def is_search(hashed: Any, share: float) -> Any:
    """Whether a held-out document of this hash (or uint64 [N]) is of the search split.

    `share` is that of the held-out documents; 1 where the source says which they are.
    """
    return is_held_out(hashed, share * SEARCH_SHARE)
