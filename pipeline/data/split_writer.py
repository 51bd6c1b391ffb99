"""One split of a corpus while it is written: tokens to shards, documents to a list, counts.

Memory holds the counts of the vocabulary and what is being written, however large the corpus.

Legend of shapes: N documents, T tokens of all of them, V pieces of the vocabulary.
"""

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline import errors
from pipeline.data.corpus_manifest import documents_file
from pipeline.data.encoding import Encoded
from pipeline.data.shards import DOCUMENT, ShardWriter, token_dtype


class SplitWriter(contextlib.AbstractContextManager["SplitWriter"]):
    """Appends documents to a split."""

    def __init__(self, folder: Path, split: str, *, vocabulary: int, shard_tokens: int) -> None:
        """Begins a split in a folder.

        Args:
            folder: The corpus in the making.
            split: One of `corpus_manifest.SPLITS`.
            vocabulary: Pieces of the tokenizer.
            shard_tokens: Tokens in a shard file.
        """
        self._folder, self._split = folder, split
        self._shards = ShardWriter(
            folder, split, dtype=token_dtype(vocabulary), shard_tokens=shard_tokens
        )
        self.counts_V = np.zeros(vocabulary, np.int64)
        self.documents = self.characters = 0
        # A file without a name, as large as the list that is made of it.
        self._list = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed in __exit__

    @property
    def tokens(self) -> int:
        """Tokens so far."""
        return self._shards.tokens

    def add(self, batch: Encoded, chosen_N: npt.NDArray[np.bool_]) -> None:
        """Writes the chosen documents of a batch behind those already there.

        Raises:
            InputError: the disk is full or not writable.
        """
        if not chosen_N.any():
            return
        tokens_T = _tokens_of(batch, chosen_N)
        self._shards.append(tokens_T)
        self.counts_V += np.bincount(tokens_T, minlength=len(self.counts_V))
        records_N = np.empty(int(chosen_N.sum()), DOCUMENT)
        records_N["tokens"] = batch.tokens_N[chosen_N]
        records_N["bytes"] = batch.bytes_N[chosen_N]
        records_N["hash"] = batch.hash_N[chosen_N]
        with errors.explain_disk_errors(self._folder):
            self._list.write(records_N.tobytes())
        self.documents += len(records_N)
        self.characters += int(batch.characters_N[chosen_N].sum())

    def close(self, unknown: int | None) -> dict[str, Any]:
        """Ends the split; returns its part of the manifest."""
        with errors.explain_disk_errors(self._folder):
            self._list.flush()
            document_N = (
                np.memmap(self._list, DOCUMENT, "r") if self.documents else np.empty(0, DOCUMENT)
            )
            np.save(self._folder / documents_file(self._split), document_N)
        count_by_exponent = np.histogram(document_N["tokens"], 2 ** np.arange(34))[0].tolist()
        return {
            "tokens": self.tokens,
            "documents": self.documents,
            # Of the document with most tokens, in the split's tokens.
            "largest_share": float(document_N["tokens"].max(initial=0) / max(self.tokens, 1)),
            "bytes": int(document_N["bytes"].sum(dtype=np.int64)),
            "characters": self.characters,
            "unknown_tokens": 0 if unknown is None else int(self.counts_V[unknown]),
            "pieces": int(np.count_nonzero(self.counts_V)),
            "entropy_nats": entropy(self.counts_V),
            # How many have at least 2^n and fewer than 2^(n+1) tokens, by 2^n.
            "lengths": {str(2**n): count for n, count in enumerate(count_by_exponent) if count},
            "shards": self._shards.close(),
        }

    def __exit__(self, *_: object) -> None:
        """Closes the files; after an error their last bytes do not matter."""
        with errors.explain_disk_errors(self._folder):
            self._list.close()
            self._shards.__exit__()


def entropy(counts_V: npt.NDArray[np.int64]) -> float:
    """Entropy in nats of a token drawn from the counted ones."""
    seen = counts_V[counts_V > 0]
    total = seen.sum()
    return float(np.log(total) - (seen @ np.log(seen)) / total) if len(seen) else 0.0


def _tokens_of(batch: Encoded, chosen_N: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Tokens of the chosen documents, copied run by run: a mask over tokens takes ten times."""
    if chosen_N.all():
        return batch.tokens_T
    end_N = np.cumsum(batch.tokens_N)
    start_N = end_N - batch.tokens_N
    edges = np.diff(chosen_N.astype(np.int8), prepend=0, append=0)
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    runs = zip(start_N[first], end_N[last], strict=True)
    return np.concatenate([batch.tokens_T[start:end] for start, end in runs])
