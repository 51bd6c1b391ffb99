"""A plan's look at the user's own files: can they be read, are the documents enough for a verdict?

A module of its own: what a download is made with does not depend on it.
"""

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.comparison.document_sizes import LEAST_DOCUMENTS, skew_limited_effective_documents
from pipeline.data import file_formats
from pipeline.data.corpus_settings import ENOUGH_DOCUMENTS, SEARCH_SHARE
from pipeline.data.local_files import LocalSource
from pipeline.data.source_interface import CUT, CUT_LONG

MOST_FILES, MOST_CHARACTERS = 20, 2**26
"""A plan reads the first document of so many files, and up to so many characters of text."""
CHARACTERS_A_TOKEN = 4
"""Of a tokenizer that need not be there yet."""
EVEN = 0.8
"""Documents worth this part of their number are of like length: to cut them helps little."""


def check_first_documents(source: LocalSource) -> None:
    """Stops at a file, of `MOST_FILES` at most, whose first document cannot be read."""
    listed = source.named_files()
    for path, name in [*listed[: MOST_FILES - 1], *listed[MOST_FILES - 1 :][-1:]]:
        # A text file may be one document, which is not read whole here.
        source_file = source.source_file(path, name, Counter(), cut="1000 characters")
        next(file_formats.read_source_file(source_file), None)


def explain_few_documents(
    source: LocalSource, validation_share: float, rows: int, length: int
) -> str | None:
    """What to do where documents are too few for validation, or of too unequal lengths.

    None where they are enough. Of the validation text `rows` of `length` tokens are scored.
    """
    held_out, share = source.validation_source(), 1.0
    if held_out is None:
        held_out, share = source, (1 - SEARCH_SHARE) * validation_share

    def effective_document_count(length_N: list[int]) -> float:
        scored_G = _scored_tokens_per_document(length_N, share, rows, length)
        return skew_limited_effective_documents(scored_G / scored_G.sum()) if len(scored_G) else 0.0

    length_N = _document_lengths_unless_enough(
        held_out, _least_document_count(share), effective_document_count
    )
    if length_N is None:
        return None
    count, worth = len(length_N), effective_document_count(length_N)
    doubts, can, remedies = [], "may not be able to", ["give it more text"]
    if count < _least_document_count(share):
        doubts.append(
            f"of its {count:,} documents about {round(count * share):,} are for validation, where "
            f"{ENOUGH_DOCUMENTS} are enough"
        )
    if worth < LEAST_DOCUMENTS:
        doubts.append(
            f"those that are scored count as only about {worth:.0f} documents of equal length, and "
            f"an answer needs {LEAST_DOCUMENTS}"
        )
        can = "will probably not be able to"
    if held_out.count_single_document_files():
        remedies.insert(0, f"each text file is one document: {CUT}")
    elif worth < min(LEAST_DOCUMENTS, EVEN * count * share):
        remedies.insert(0, CUT_LONG)
    if held_out.bytes is not None:
        remedies.append("raise its `bytes`")
    if held_out is source:
        remedies.append(f"raise packing.validation_share ({validation_share})")
    return (
        f"{'; '.join(doubts)}. `pike advise` {can} say which method is better: "
        f"{', or '.join(remedies)}"
    )


def _least_document_count(share: float) -> int:
    """Documents of which a part of this share is enough for validation."""
    return math.ceil(ENOUGH_DOCUMENTS / share)


def _scored_tokens_per_document(
    length_N: list[int], share: float, rows: int, length: int
) -> Floats:
    """About how many tokens are scored of each document, of those of which any are.

    A part of this share of the documents is for validation, and rows are spread evenly over it.
    """
    count = round(len(length_N) * share)
    if not count:
        return np.zeros(0)
    chosen_D = ((np.arange(count) + 0.5) / share).astype(int)
    end_D = np.cumsum(1 + np.array(length_N)[chosen_D] // CHARACTERS_A_TOKEN)
    total = max(1, int(end_D[-1]) // length)
    row_R = np.arange(min(total, rows)) * total // min(total, rows)
    token_N = (row_R[:, None] * length + np.arange(length)).ravel()
    token_N = token_N[token_N < end_D[-1]]
    scored_D = np.bincount(np.searchsorted(end_D, token_N, side="right"))
    return scored_D[scored_D > 0].astype(float)


def _document_lengths_unless_enough(
    source: LocalSource, least: int, effective_document_count: Callable[[list[int]], float]
) -> list[int] | None:
    """The length of each document of a source; None: they are enough, or very long in all."""
    files = [path for path, _ in source.named_files()]
    if (
        source.bytes is None
        and 1 < len(files) < least
        and source.count_single_document_files() == len(files)
    ):
        return [path.stat().st_size for path in files]
    length_N: list[int] = []
    characters, wanted = 0, least
    for document in source.read(Counter(), []):
        length_N.append(len(document.text))
        characters += length_N[-1]
        if characters > MOST_CHARACTERS:
            return None
        if len(length_N) == wanted:
            if effective_document_count(length_N) >= LEAST_DOCUMENTS:
                return None
            wanted *= 2
    is_enough = len(length_N) >= least and effective_document_count(length_N) >= LEAST_DOCUMENTS
    return None if is_enough else length_N
