"""What is left out of a corpus on request: duplicates, short texts, evaluation items.

Legend of shapes: G n-grams of items, N n-grams of a text, W words of a text.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pike_mixing.errors import InputError
from pipeline.data.corpus_settings import Decontamination, text_hash
from pipeline.data.ngrams import window_hashes
from pipeline.runtime import file_patterns, record_files

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
UNSPACED, LETTER = f"[{_UNSPACED}]", rf"[^\W{_UNSPACED}]"
"""Patterns of one character: of a script that writes no blanks between words, and of a word."""


@functools.cache
def combining_mark_pattern() -> str:
    r"""Pattern of a combining mark, a vowel of Hindi among them, which `\w` leaves out of words.

    To look at all characters takes 0.1 s, which no other stage waits for.
    """
    every = map(chr, range(sys.maxunicode + 1))
    marks = (one for one in every if unicodedata.category(one)[0] == "M")
    # The look-ahead is for speed alone: no mark lies below U+0300.
    return rf"(?![\0-\u02ff])[{''.join(one for one in marks if not re.match(UNSPACED, one))}]"


_word_hash = functools.lru_cache(maxsize=2**18)(text_hash)


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    """A word, or one character of a script that writes no blanks between words."""
    return re.compile(rf"{UNSPACED}|{LETTER}(?:{LETTER}|{combining_mark_pattern()})*")


def evaluation_item_files(settings: Decontamination) -> list[Path]:
    """The files of the items, or an InputError where a pattern matches none."""
    where = "packing.hygiene.decontaminate.files"
    return [Path(name) for name in file_patterns.files_in_pattern_order(settings.files, where)]


@functools.cache
def evaluation_ngram_hashes(settings: Decontamination) -> npt.NDArray[np.uint64]:
    """Sorted hashes of the n-grams of the evaluation items, which are read once a process."""
    listed = evaluation_item_files(settings)
    remedy = "packing.hygiene.decontaminate.files takes .jsonl, .jsonl.gz, .parquet and .txt"
    items = (item for path in listed for item in record_files.read_records_by_suffix(path, remedy))
    hashes = [ngram_hashes(text, settings.ngram) for item in items for text in _nested_texts(item)]
    hash_G = np.unique(np.concatenate([*hashes, np.empty(0, np.uint64)]))
    if not len(hash_G):
        raise InputError(
            f"packing.hygiene.decontaminate: no item in {', '.join(map(str, listed))} has a text "
            f"of {settings.ngram} words: lower ngram, or name other files"
        )
    return hash_G


def has_evaluation_item(text: str, settings: Decontamination) -> bool:
    """Whether a text shares an n-gram with an evaluation item."""
    known_G, hash_N = evaluation_ngram_hashes(settings), ngram_hashes(text, settings.ngram)
    place_N = np.searchsorted(known_G, hash_N).clip(max=len(known_G) - 1)
    return bool((known_G[place_N] == hash_N).any())


def ngram_hashes(text: str, words_per_ngram: int) -> npt.NDArray[np.uint64]:
    """A hash of each `words_per_ngram` words in a row."""
    plain = unicodedata.normalize("NFKC", text).lower()
    word_W = np.fromiter(map(_word_hash, _word_pattern().findall(plain)), np.uint64)
    return window_hashes(word_W, words_per_ngram)


def _nested_texts(value: object) -> Iterator[str]:
    """All texts within a record, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _nested_texts(inner)
