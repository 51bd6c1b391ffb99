"""A look at the user's own files before a run: can they be read, are the documents enough?

It reads the first document of some files, and up to `MOST_CHARACTERS` of text.
"""

import math
from collections import Counter

from pipeline.data import formats
from pipeline.data.corpus_settings import SEARCH_SHARE
from pipeline.data.local import LocalSource
from pipeline.data.packing import ENOUGH_DOCUMENTS
from pipeline.data.source_interface import CUT

MOST_FILES = 20
MOST_CHARACTERS = 2**26


def check_first_documents(source: LocalSource) -> None:
    """Reads the first document of `MOST_FILES` files at most, the last one among them.

    Raises:
        InputError: a file that cannot be read as what its suffix says, or has no such field.
    """
    listed = source.named_files()
    for path, name in [*listed[: MOST_FILES - 1], *listed[MOST_FILES - 1 :][-1:]]:
        # A text file may be one document, which is not read whole here.
        source_file = source.source_file(path, name, Counter(), cut="1000 characters")
        next(formats.read_source_file(source_file), None)


def count_documents_below(source: LocalSource, limit: int) -> int | None:
    """How many documents a source gives.

    None: `limit` or more, or their text has more than `MOST_CHARACTERS`.

    Raises:
        InputError: as the source's `read`.
    """
    listed = source.named_files()
    if (
        source.bytes is None
        and 1 < len(listed) < limit
        and _count_whole_files(source) == len(listed)
    ):
        return len(listed)
    count = characters = 0
    for count, document in enumerate(source.read(Counter(), []), start=1):
        characters += len(document.text)
        if count == limit or characters > MOST_CHARACTERS:
            return None
    return count


def _count_whole_files(source: LocalSource) -> int:
    """How many of a source's files are one document each."""
    text = [name for _, name in source.named_files() if formats.format_suffix(name) in formats.TEXT]
    return len(text) if source.documents == "file" else 0


def explain_few_documents(source: LocalSource, validation_share: float) -> str | None:
    """What to do where a source has too few documents for validation; None where they are enough.

    Raises:
        InputError: as the source's `read`.
    """
    held_out, share = source.validation_source(), 1.0
    if held_out is None:
        held_out, share = source, (1 - SEARCH_SHARE) * validation_share
    count = count_documents_below(held_out, math.ceil(ENOUGH_DOCUMENTS / share))
    if count is None:
        return None
    remedies = ["give it more text"]
    if _count_whole_files(held_out):
        remedies.insert(0, f"each text file is one document: {CUT}")
    if held_out.bytes is not None:
        remedies.append("raise its `bytes`")
    if held_out is source:
        remedies.append(f"raise packing.validation_share ({validation_share})")
    return (
        f"{count:,} documents, of which about {round(count * share):,} are for validation, where "
        f"{ENOUGH_DOCUMENTS} are enough: `pike advise` may not be able to say which method is "
        f"better: {', or '.join(remedies)}"
    )
