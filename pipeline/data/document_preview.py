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


def refuse_unreadable_first_documents(source: LocalSource) -> None:
    """Stops at a file, of `MOST_FILES` at most, whose first document cannot be read."""
    listed = source.user_files()
    for path, name in [*listed[: MOST_FILES - 1], *listed[MOST_FILES - 1 :][-1:]]:
        # A text file may be one document, which is not read whole here.
        source_file = source.source_file(path, name, Counter(), cut="1000 characters")
        next(file_formats.read_source_file(source_file), None)


def few_or_unequal_documents_warning(
    source: LocalSource, validation_share: float, scored_rows: int, length: int
) -> str | None:
    """What to do where documents are too few for validation, or of too unequal lengths.

    None where they are enough. Of the validation text `scored_rows` of `length` tokens are scored.
    """
    held_out, share = source.validation_source(), 1.0
    if held_out is None:
        held_out, share = source, (1 - SEARCH_SHARE) * validation_share

    def estimate_effective_validation_documents(all_characters_N: list[int]) -> float:
        scored_N = _simulated_scored_tokens_per_document(
            all_characters_N, share, scored_rows, length
        )
        scored_G = scored_N[scored_N > 0]
        return skew_limited_effective_documents(scored_G / scored_G.sum()) if len(scored_G) else 0.0

    enough = _document_count_for_enough_validation(share)
    characters_N = _document_characters_unless_enough(
        held_out, enough, estimate_effective_validation_documents
    )
    if characters_N is None:
        return None
    count, worth = len(characters_N), estimate_effective_validation_documents(characters_N)
    doubts, can, remedies = [], "may not be able to", ["give it more text"]
    if count < enough:
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


def _document_count_for_enough_validation(validation_share: float) -> int:
    """Documents of which a part of this share is enough for validation."""
    return math.ceil(ENOUGH_DOCUMENTS / validation_share)


def _simulated_scored_tokens_per_document(
    characters_N: list[int], validation_share: float, scored_rows: int, length: int
) -> Floats:
    """About how many tokens are scored of each document, [N]; 0 of most.

    A part of this share of the documents is for validation, and rows are spread evenly over it.
    """
    count = round(len(characters_N) * validation_share)
    if not count:
        return np.zeros(len(characters_N))
    chosen_D = ((np.arange(count) + 0.5) * len(characters_N) / count).astype(int)
    end_D = np.cumsum(1 + np.array(characters_N)[chosen_D] // CHARACTERS_A_TOKEN)
    total = max(1, int(end_D[-1]) // length)
    row_R = np.arange(min(total, scored_rows)) * total // min(total, scored_rows)
    token_T = (row_R[:, None] * length + np.arange(length)).ravel()
    token_T = token_T[token_T < end_D[-1]]
    scored_T = chosen_D[np.searchsorted(end_D, token_T, side="right")]
    return np.bincount(scored_T, minlength=len(characters_N)).astype(float)


def _document_characters_unless_enough(
    source: LocalSource,
    least_document_count: int,
    estimate_effective_validation_documents: Callable[[list[int]], float],
) -> list[int] | None:
    """Characters (or bytes) of each document of a source; None: they are enough, or very long."""
    files = [path for path, _ in source.user_files()]
    if (
        source.bytes is None
        and 1 < len(files) < least_document_count
        and source.count_single_document_files() == len(files)
    ):
        return [path.stat().st_size for path in files]
    characters_N: list[int] = []
    characters, wanted = 0, least_document_count
    for document in source.read(Counter(), []):
        characters_N.append(len(document.text))
        characters += characters_N[-1]
        if characters > MOST_CHARACTERS:
            return None
        if len(characters_N) == wanted:
            if estimate_effective_validation_documents(characters_N) >= LEAST_DOCUMENTS:
                return None
            wanted *= 2
    is_enough = (
        len(characters_N) >= least_document_count
        and estimate_effective_validation_documents(characters_N) >= LEAST_DOCUMENTS
    )
    return None if is_enough else characters_N
