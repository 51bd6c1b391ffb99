"""The rows of a packed corpus for a trainer of somebody else."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pike_mixing.errors import InputError
from pipeline.data.corpus_manifest import SPLITS
from pipeline.data.shards import Corpus, Tokens

if TYPE_CHECKING:
    import datasets


@dataclass(frozen=True)
class PackedRows:
    """Rows of one split, in the corpus's order: a map-style data set of PyTorch.

    A row is a dictionary of `input_ids` and `labels`, both the same L + 1 tokens (int64): causal
    models of transformers shift labels themselves, so that a row has L targets, those of a run.
    """

    corpus: Corpus
    length: int
    """Tokens L of context."""

    def __len__(self) -> int:
        return self.corpus.rows(self.length)

    def __getitem__(self, number: int) -> dict[str, Tokens]:
        """A row by its number.

        Raises:
            IndexError: there is no such row.
        """
        if not -len(self) <= number < len(self):
            raise IndexError(f"row {number} of {len(self)}")
        tokens_L1 = self.corpus.read(np.array([number % len(self)]), self.length)[0]
        return {"input_ids": tokens_L1, "labels": tokens_L1.copy()}

    def __iter__(self) -> Iterator[dict[str, Tokens]]:
        return (self[number] for number in range(len(self)))

    def to_datasets(self) -> "datasets.Dataset":
        """A copy as a `datasets.Dataset`, in the cache of `datasets`, which it is read from."""
        import datasets

        facts = {
            "folder": str(self.corpus.folder.absolute()),
            "split": self.corpus.split,
            "length": self.length,
            # A corpus that is packed anew is another data set for the cache.
            "fingerprint": self.corpus.fingerprint,
        }
        return datasets.Dataset.from_generator(_rows, gen_kwargs=facts)


def open_rows(folder: str | Path, split: str, length: int) -> PackedRows:
    """The rows of a split of a corpus that `pike pack` wrote, checked against its manifest.

    Args:
        folder: The corpus: `results/corpora/{tokenizer}/{source}`.
        split: One of `corpus_manifest.SPLITS`.
        length: Tokens L of context.

    Raises:
        InputError: no such split, a length without a row, or a damaged corpus.
    """
    if split not in SPLITS:
        raise InputError(f"split: {split!r}: one of {', '.join(SPLITS)}")
    result = PackedRows(Corpus.open(Path(folder), split, verify=True), length)
    if length < 1 or not len(result):
        raise InputError(
            f"length: {length}: {folder} has {result.corpus.tokens:,} tokens ({split}): a row "
            "takes from 2 to all of them"
        )
    return result


def _rows(folder: str, split: str, length: int, fingerprint: str) -> Iterator[dict[str, Tokens]]:
    yield from open_rows(folder, split, length)
