"""What is left out of a corpus on request: duplicates, short texts, evaluation items.

Legend of shapes: N documents, G n-grams, W words of a text.
"""

import functools
import gzip
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pike_mixing.limits import Limits, NonNegativeInt, PositiveInt
from pipeline.data.ngrams import window_hashes
from pipeline.data.splits import text_hash
from pipeline.runtime import file_patterns

_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\w+")
"""A word, or one character of a script that writes no blanks between words."""
_RECENT = 2**20
"""Hashes that are held as Python's numbers before they join the sorted ones."""


@dataclass(frozen=True)
class Decontamination:
    """Evaluation items whose text no training document may hold."""

    files: Annotated[tuple[str, ...], Limits(filled=True)]
    """Paths or patterns of .jsonl, .jsonl.gz and .parquet files with an item in each record, or
    .txt files with an item on each line. Every text of an item is looked for by itself."""
    ngram: PositiveInt = 13
    """Words in a row, letter case and punctuation aside, that a document may not share with an
    item (13 in arXiv 2005.14165, appendix C). Shorter texts are not looked for."""


@dataclass(frozen=True)
class Hygiene:
    """What happens to documents before they are encoded, in this order; nothing by default."""

    normalisation: Literal["NFC", "NFKC"] | None = None
    """Unicode normalisation of the text; absent: the text as it is."""
    min_characters: NonNegativeInt = 0
    """Documents of fewer characters, blanks at both ends aside, are left out."""
    decontaminate: Decontamination | None = None
    """Evaluation items; documents that hold one are left out, of both splits."""
    drop_duplicates: bool = False
    """Whether of documents with the same text only the first is kept."""


class Seen:
    """Hashes that have been, in 8 bytes each."""

    def __init__(self) -> None:
        self._sorted: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._recent: set[int] = set()

    def new(self, hash_N: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of the hashes are new, those before them in the array included; all are added."""
        place_N = np.searchsorted(self._sorted, hash_N)
        old_N = np.zeros(len(hash_N), bool)
        inside_N = place_N < len(self._sorted)
        old_N[inside_N] = self._sorted[place_N[inside_N]] == hash_N[inside_N]
        for number, hashed in enumerate(hash_N.tolist()):
            old_N[number] |= hashed in self._recent
            self._recent.add(hashed)
        if len(self._recent) > _RECENT:
            self._sorted = np.union1d(self._sorted, np.fromiter(self._recent, np.uint64))
            self._recent = set()
        return ~old_N


class EvaluationNgrams(NamedTuple):
    """The n-grams of evaluation items."""

    ngram: int
    hash_G: npt.NDArray[np.uint64]
    """Sorted."""
    item_G: npt.NDArray[np.int64]
    """The item of each; of an n-gram that several share, the first."""
    files: list[str]
    file_of_item: list[int]
    short: list[int]
    """Items of each file without a text of `ngram` words."""

    def found(self, text: str) -> npt.NDArray[np.int64]:
        """The items of which the text holds an n-gram."""
        hash_G = ngrams(text, self.ngram)
        place_G = np.searchsorted(self.hash_G, hash_G)
        place_G[place_G == len(self.hash_G)] = 0
        return np.unique(self.item_G[place_G[self.hash_G[place_G] == hash_G]])

    def report(self, documents_by_item: dict[int, int]) -> list[dict[str, Any]]:
        """What the manifest says of each file: items, those found, and documents that held one."""
        rows = []
        for number, name in enumerate(self.files):
            own = [item for item, file in enumerate(self.file_of_item) if file == number]
            found = [documents_by_item[item] for item in own if item in documents_by_item]
            facts = {"items": len(own), "too_short": self.short[number], "found": len(found)}
            rows.append({"file": name, **facts, "documents": sum(found)})
        return rows


def paths(chosen: Decontamination) -> list[Path]:
    """The files of the items.

    Raises:
        InputError: a pattern without a file.
    """
    found: dict[str, None] = {}
    for pattern in chosen.files:
        matches = file_patterns.files(pattern)
        if not matches:
            raise InputError(
                f"packing.hygiene.decontaminate.files: no file matches {pattern!r} from "
                f"{Path.cwd()}"
            )
        found.update(dict.fromkeys(matches))
    return [Path(name) for name in found]


@functools.cache
def items(chosen: Decontamination) -> EvaluationNgrams:
    """Reads the evaluation items, once a process.

    Raises:
        InputError: no file, one that cannot be read, or no text of enough words in all of them.
    """
    hashes: list[npt.NDArray[np.uint64]] = []
    owners: list[npt.NDArray[np.int64]] = []
    file_of_item: list[int] = []
    listed = paths(chosen)
    short = [0] * len(listed)
    for number, path in enumerate(listed):
        for texts in _records(path):
            own = [ngrams(text, chosen.ngram) for text in texts]
            hash_G = np.concatenate([*own, np.empty(0, np.uint64)])
            short[number] += not len(hash_G)
            hashes.append(hash_G)
            owners.append(np.full(len(hash_G), len(file_of_item)))
            file_of_item.append(number)
    every = np.concatenate([*hashes, np.empty(0, np.uint64)])
    if not len(every):
        raise InputError(
            f"packing.hygiene.decontaminate: no item in {', '.join(map(str, listed))} has a text "
            f"of {chosen.ngram} words: lower ngram, or name other files"
        )
    hash_G, first = np.unique(every, return_index=True)
    names = [str(path) for path in listed]
    return EvaluationNgrams(
        chosen.ngram, hash_G, np.concatenate(owners)[first], names, file_of_item, short
    )


def ngrams(text: str, length: int) -> npt.NDArray[np.uint64]:
    """A hash of each `length` words in a row."""
    plain = unicodedata.normalize("NFKC", text).lower()
    word_W = np.fromiter(map(_hashed, _WORD.findall(plain)), np.uint64)
    return window_hashes(word_W, length)


_hashed = functools.lru_cache(maxsize=2**18)(text_hash)


def _records(path: Path) -> Iterator[list[str]]:
    """The texts of each item."""
    try:
        if path.suffix == ".parquet":
            for batch in pq.ParquetFile(path).iter_batches():
                yield from (list(_texts(record)) for record in batch.to_pylist())
            return
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as lines:
            if path.suffix == ".txt":
                yield from ([line] for line in lines if line.strip())
            else:
                yield from (list(_texts(json.loads(line))) for line in lines if line.strip())
    except (OSError, EOFError, ValueError, pa.ArrowInvalid) as error:
        raise InputError(
            f"packing.hygiene.decontaminate.files: {path} cannot be read ({error}): items are in "
            ".jsonl, .jsonl.gz, .parquet or .txt"
        ) from error


def _texts(value: object) -> Iterator[str]:
    """All texts within a record, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
