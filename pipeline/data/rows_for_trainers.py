"""The rows of a packed corpus for a trainer of somebody else."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pike_mixing.errors import InputError
from pipeline.data.shards import SPLITS, Corpus, Tokens


@dataclass(frozen=True)
class PackedRows:
    """Rows of one split, in the corpus's order: a map-style data set of PyTorch.

    A row is a dictionary of `input_ids` and `labels`, both the same L + 1 tokens (int64): causal
    models of transformers shift labels themselves, so that a row has L targets, those of a run.
    """

    corpus: Corpus
    targets_per_row: int
    """Tokens L of context: each of them has a target."""

    def __len__(self) -> int:
        return self.corpus.row_count(self.targets_per_row)

    def __getitem__(self, number: int) -> dict[str, Tokens]:
        """A row by its number.

        Raises:
            IndexError: there is no such row.
        """
        if not -len(self) <= number < len(self):
            raise IndexError(f"row {number} of {len(self)}")
        tokens_L1 = self.corpus.read_rows(np.array([number % len(self)]), self.targets_per_row)[0]
        return {"input_ids": tokens_L1, "labels": tokens_L1.copy()}

    def __iter__(self) -> Iterator[dict[str, Tokens]]:
        return (self[number] for number in range(len(self)))


def open_packed_rows(folder: str | Path, split: str, targets_per_row: int) -> PackedRows:
    """The rows of a split of a corpus that `pike pack` wrote, checked against its manifest.

    Args:
        folder: The corpus: `results/corpora/{tokenizer}/{source}`.
        split: One of `shards.SPLITS`.
        targets_per_row: Tokens L of context; a row has one more.

    Raises:
        InputError: no such split, no row of so many targets, or a damaged corpus.
    """
    if split not in SPLITS:
        raise InputError(f"split: {split!r}: one of {', '.join(SPLITS)}")
    result = PackedRows(Corpus.open(Path(folder), split, verify=True), targets_per_row)
    if targets_per_row < 1 or not len(result):
        raise InputError(
            f"targets_per_row: {targets_per_row}: {folder} has {result.corpus.tokens:,} tokens "
            f"({split}): a row takes from 2 to all of them"
        )
    return result
