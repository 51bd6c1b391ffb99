"""One split of a corpus while it is written: tokens to shards, documents to a list, counts.

Memory holds the counts of the vocabulary and what is being written, however large the corpus.

Legend of shapes: N documents, T tokens of all of them, V pieces of the vocabulary.
"""

import shutil
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pipeline import errors
from pipeline.data.corpus_manifest import documents_file
from pipeline.data.encoding import Encoded
from pipeline.data.shards import DOCUMENT, ShardWriter, token_dtype
from pipeline.runtime import atomic_files

_CHUNK = 2**20


class SplitWriter:
    """Appends documents to a split; can be stopped and gone on with."""

    def __init__(
        self,
        folder: Path,
        split: str,
        *,
        vocabulary: int,
        shard_tokens: int,
        state: dict[str, Any] | None = None,
    ) -> None:
        """Begins, or goes on from a `state`: what was written after it is cut off."""
        self._folder, self._split = folder, split
        self._shards = ShardWriter(
            folder,
            split,
            dtype=token_dtype(vocabulary),
            shard_tokens=shard_tokens,
            state=state and state["shards"],
        )
        self._raw = folder / atomic_files.WORK / f"{split}-documents.raw"
        self.counts_V = self._shards.counts(vocabulary)
        self.documents: int = state["documents"] if state else 0
        self.characters: int = state["characters"] if state else 0
        self._list: BinaryIO = self._raw.open("r+b" if state else "wb")
        self._list.truncate(self.documents * DOCUMENT.itemsize)
        self._list.seek(0, 2)

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
        for name, column_N in (
            ("tokens", batch.tokens_N),
            ("bytes", batch.bytes_N),
            ("hash", batch.hash_N),
        ):
            records_N[name] = column_N[chosen_N]
        with errors.explain_disk_errors(self._folder):
            self._list.write(records_N.tobytes())
        self.documents += len(records_N)
        self.characters += int(batch.characters_N[chosen_N].sum())

    def state(self) -> dict[str, Any]:
        """Syncs what was written; returns what it takes to go on from here, as JSON."""
        with errors.explain_disk_errors(self._folder):
            self._list.flush()
            atomic_files.sync(self._raw)
            shards = self._shards.state()
        return {"documents": self.documents, "characters": self.characters, "shards": shards}

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Hashes of all documents so far."""
        self._list.flush()
        return np.fromfile(self._raw, DOCUMENT)["hash"].astype(np.uint64)

    def close(self, unknown: int) -> dict[str, Any]:
        """Ends the split; returns its part of the manifest."""
        with errors.explain_disk_errors(self._folder):
            self._list.close()
            path = self._folder / documents_file(self._split)
            with self._raw.open("rb") as raw, path.open("wb") as out:
                header = {
                    "descr": np.lib.format.dtype_to_descr(DOCUMENT),
                    "fortran_order": False,
                    "shape": (self.documents,),
                }
                # As np.save writes it, without the whole list in memory.
                np.lib.format.write_array_header_1_0(out, header)
                shutil.copyfileobj(raw, out, _CHUNK)
        size, length_N = 0, np.zeros(33, np.int64)
        for start in range(0, self.documents, _CHUNK):
            part = np.fromfile(self._raw, DOCUMENT, _CHUNK, offset=start * DOCUMENT.itemsize)
            size += int(part["bytes"].sum(dtype=np.int64))
            # The exponent of frexp is that of the next power of two: exact below 2^53.
            length_N += np.bincount(np.frexp(part["tokens"].astype(float))[1] - 1, minlength=33)
        return {
            "tokens": self.tokens,
            "documents": self.documents,
            "bytes": size,
            "characters": self.characters,
            "unknown_tokens": int(self.counts_V[unknown]),
            "pieces": int(np.count_nonzero(self.counts_V)),
            "entropy_nats": entropy(self.counts_V),
            # How many have at least 2^n and fewer than 2^(n+1) tokens, by 2^n.
            "lengths": {str(2**n): int(count) for n, count in enumerate(length_N) if count},
            "shards": self._shards.close(),
        }

    def abandon(self) -> None:
        """Closes the files; what was written after the last state does not matter."""
        with errors.explain_disk_errors(self._folder):
            self._list.close()
            self._shards.__exit__(None, None, None)


def entropy(counts_V: npt.NDArray[np.int64]) -> float:
    """Entropy in nats of a token drawn from the counted ones."""
    seen = counts_V[counts_V > 0]
    if not len(seen):
        return 0.0
    total = seen.sum()
    return float(np.log(total) - (seen @ np.log(seen)) / total)


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
