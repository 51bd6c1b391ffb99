"""Token shards on disk: a corpus is one endless row of token ids, cut into files.

A corpus's manifest promises what its files hold, and must agree with itself.

Legend of shapes: R rows asked for, L tokens of context in a row.
"""

import bisect
import contextlib
import hashlib
import mmap
import os
import resource
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Ints
from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.runtime import atomic_files, checksums, manifests

FORMAT = 2
SPLITS = ("train", "validation", "search")
DOCUMENT = np.dtype([("tokens", "<u4"), ("bytes", "<u4"), ("hash", "<u8")])
"""One document of a split: tokens (EOS included), UTF-8 bytes, first 8 bytes of its SHA-256."""

Tokens = npt.NDArray[np.int64]


def documents_file_name(split: str) -> str:
    """Name of the file that lists a split's documents."""
    return f"{split}-documents.npy"


def token_dtype(vocabulary: int) -> np.dtype[Any]:
    """The smaller one of two little-endian dtypes that holds every id below `vocabulary`."""
    return np.dtype("<u2" if vocabulary <= 2**16 else "<u4")


def data_fingerprint(dtype: str, splits: dict[str, dict[str, Any]]) -> str:
    """Identity of a corpus's tokens: SHA-256 over the dtype and every split's shard hashes."""
    hashes = {n: [shard["sha256"] for shard in splits[n]["shards"]] for n in sorted(splits)}
    return atomic_files.json_digest({"dtype": dtype, "shards": hashes})


def read_corpus_manifest(folder: Path) -> dict[str, Any]:
    path = folder / atomic_files.MANIFEST
    if not path.exists():
        raise InputError(
            f"{folder} holds no finished corpus (no {atomic_files.MANIFEST}): pack it first"
        )
    manifest = manifests.read_manifest(path, "pack", "pack it anew")
    if manifest["format"] != FORMAT:
        raise InputError(f"{path} is not a corpus of format {FORMAT}: pack it anew")
    return manifest


def files_of_split(
    folder: Path, split: str, manifest: dict[str, Any]
) -> list[checksums.ListedFile]:
    """A split's shards and the list of its documents, as the corpus's manifest has them."""
    remedy, documents = "pack it anew", documents_file_name(split)
    size = np.dtype(manifest["dtype"]).itemsize
    facts = manifest["files"].get(documents)
    if facts is None:
        raise InputError(f"{folder / atomic_files.MANIFEST} does not list {documents}: {remedy}")
    listed = [
        (shard["file"], shard["tokens"] * size, shard["sha256"])
        for shard in manifest["splits"][split]["shards"]
    ]
    listed.append((documents, facts["bytes"], facts["sha256"]))
    return [
        checksums.ListedFile(folder / name, size, sha256, remedy) for name, size, sha256 in listed
    ]


def refuse_self_contradictory_manifest(folder: Path, split: str, manifest: dict[str, Any]) -> None:
    """Stops at a manifest whose shards do not give a split's sum, or the corpus's fingerprint."""
    splits, path = manifest["splits"], folder / atomic_files.MANIFEST
    tokens, summed = splits[split]["tokens"], sum(s["tokens"] for s in splits[split]["shards"])
    if tokens != summed:
        raise InputError(
            f"{path} says {tokens:,} {split} tokens, but its shards have {summed:,}: pack it anew"
        )
    if manifest["fingerprint"] != data_fingerprint(manifest["dtype"], splits):
        raise InputError(f"{path} has a fingerprint that is not that of its shards: pack it anew")


def refuse_replaced_tokenizer(folder: Path, manifest: dict[str, Any]) -> None:
    """Stops where the tokenizer that a corpus was packed with has been replaced since.

    A tokenizer that is not where it was is no mistake: corpora may be moved without it.
    """
    packed_with = manifest["tokenizer"]["sha256"]
    for name, recorded in manifest.get("inputs", {}).items():
        path = folder / name
        if path.suffix != ".model":
            continue
        result = atomic_files.sha256(path) if path.is_file() else recorded
        if {recorded, result} != {packed_with}:
            raise InputError(
                f"{folder} was packed with the tokenizer of SHA-256 {packed_with}, but {path} has "
                f"{result if result != packed_with else recorded}: pack it anew"
            )


class SplitWriter(contextlib.AbstractContextManager["SplitWriter"]):
    """Writes a split: tokens to `{split}-00000.bin`, `-00001.bin`, ..., and a list of documents.

    The bytes are appended with write(), never through a memory map: on a full disk a map kills
    the process with SIGBUS and no message, write() raises.
    """

    def __init__(self, folder: Path, split: str, *, vocabulary: int, shard_tokens: int) -> None:
        """Begins one of `SPLITS` in the folder of a corpus, `shard_tokens` tokens in a file."""
        self._folder, self._split, self._shard_tokens = folder, split, shard_tokens
        self._dtype = token_dtype(vocabulary)
        self.counts_V = np.zeros(vocabulary, np.int64)
        """How often each id was written."""
        self.tokens = self._documents = self._characters = 0
        self._shards: list[dict[str, Any]] = []
        self._shard: BinaryIO | None = None
        self._shard_hash, self._shard_held = hashlib.sha256(), 0
        # A file without a name, as large as the list that is made of it.
        self._list = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed in __exit__

    def add(
        self, tokens_T: npt.NDArray[Any], document_N: npt.NDArray[Any], characters: int
    ) -> None:
        """Writes documents (of `DOCUMENT`) and their tokens behind those already there."""
        self.counts_V += np.bincount(tokens_T, minlength=len(self.counts_V))
        self.tokens += len(tokens_T)
        self._documents += len(document_N)
        self._characters += characters
        stream = np.ascontiguousarray(tokens_T, dtype=self._dtype)
        with errors.explain_disk_errors(self._folder):
            self._list.write(document_N.tobytes())
            # A document may span files.
            while len(stream):
                if self._shard is None:
                    self._shard = self._shard_path().open("wb")
                piece = stream[: self._shard_tokens - self._shard_held]
                content = piece.tobytes()
                self._shard.write(content)
                self._shard_hash.update(content)
                self._shard_held += len(piece)
                stream = stream[len(piece) :]
                if self._shard_held == self._shard_tokens:
                    self._finish_shard()

    def close_and_return_facts(self, unknown_id: int | None) -> dict[str, Any]:
        """Ends the split; returns its part of the manifest."""
        with errors.explain_disk_errors(self._folder):
            self._finish_shard()
            self._list.flush()
            document_N = (
                np.memmap(self._list, DOCUMENT, "r") if self._documents else np.empty(0, DOCUMENT)
            )
            np.save(self._folder / documents_file_name(self._split), document_N)
        count_by_exponent = np.histogram(document_N["tokens"], 2 ** np.arange(34))[0].tolist()
        return {
            "tokens": self.tokens,
            "documents": self._documents,
            # Of the document with most tokens, in the split's tokens.
            "largest_share": float(document_N["tokens"].max(initial=0) / max(self.tokens, 1)),
            "bytes": int(document_N["bytes"].sum(dtype=np.int64)),
            "characters": self._characters,
            "unknown_tokens": 0 if unknown_id is None else int(self.counts_V[unknown_id]),
            "pieces": int(np.count_nonzero(self.counts_V)),
            "entropy_nats": entropy_nats(self.counts_V),
            # How many have at least 2^n and fewer than 2^(n+1) tokens, by 2^n.
            "lengths": {str(2**n): count for n, count in enumerate(count_by_exponent) if count},
            "shards": self._shards,
        }

    def _shard_path(self) -> Path:
        return self._folder / f"{self._split}-{len(self._shards):05d}.bin"

    def _finish_shard(self) -> None:
        if self._shard is None:
            return
        self._shard.flush()
        os.fsync(self._shard.fileno())
        self._shard.close()
        name, digest = self._shard_path().name, self._shard_hash.hexdigest()
        self._shards.append({"file": name, "tokens": self._shard_held, "sha256": digest})
        self._shard, self._shard_hash, self._shard_held = None, hashlib.sha256(), 0

    def __exit__(self, *_: object) -> None:
        """Closes the files; after an error their last bytes do not matter."""
        # To close a file can fail on a full disk, too: the other one is closed all the same.
        with errors.explain_disk_errors(self._folder), self._list:
            if self._shard is not None:
                self._shard.close()


def entropy_nats(counts_V: npt.NDArray[np.int64]) -> float:
    """Entropy in nats of a token drawn from the counted ones."""
    seen = counts_V[counts_V > 0]
    total = seen.sum()
    return float(np.log(total) - (seen @ np.log(seen)) / total) if len(seen) else 0.0


@dataclass(frozen=True, eq=False)
class Corpus:
    """One split of a packed corpus, read in place: nothing but the pages asked for is loaded."""

    folder: Path
    split: str
    manifest: dict[str, Any]
    tokens: int
    """Length of the stream, EOS of every document included."""
    vocabulary: int
    eos: int
    dtype: np.dtype[Any]
    fingerprint: str
    """Identity of the corpus's tokens, all splits."""
    watched: checksums.WatchedFiles
    """The split's files as they were before they were checked."""
    _starts: list[int]
    _maps: list[mmap.mmap]
    _shards: list[npt.NDArray[Any]]
    _views: dict[tuple[int, int], npt.NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, split: str, *, verify: bool = False) -> "Corpus":
        """Opens a split that `pack_corpus` has written.

        Sizes of its files, sums of tokens and the fingerprint are compared with the manifest at
        every open; the files' SHA-256, which takes 2.5 CPU-seconds a gigabyte, only when `verify`.
        Whatever makes a number verifies: training, evaluation and the probe. A file is hashed once
        for as long as nobody writes to it: digests are remembered beside the folder. `pike verify`
        hashes all files anew.

        Raises:
            InputError: no manifest, one that contradicts itself, or missing, truncated or changed
                files, all of which are named.
        """
        assert split in SPLITS, split
        manifest = read_corpus_manifest(folder)
        facts, dtype = manifest["splits"][split], np.dtype(manifest["dtype"]).newbyteorder("<")
        listed = files_of_split(folder, split, manifest)
        refuse_self_contradictory_manifest(folder, split, manifest)
        watched = checksums.WatchedFiles(listed)
        remembered = folder.parent / f".{folder.name}{checksums.REMEMBERED}"
        checksums.refuse_damaged(listed, content=verify, cache_file=remembered)
        maps = [_map_file(folder / shard["file"]) for shard in facts["shards"]]
        return cls(
            folder=folder,
            split=split,
            manifest=manifest,
            tokens=facts["tokens"],
            vocabulary=manifest["tokenizer"]["vocabulary"],
            eos=manifest["tokenizer"]["eos"],
            dtype=dtype,
            fingerprint=manifest["fingerprint"],
            watched=watched,
            _starts=np.cumsum([0] + [s["tokens"] for s in facts["shards"]]).tolist(),
            _maps=maps,
            _shards=[np.frombuffer(file, dtype) for file in maps],
        )

    def row_count(self, length: int) -> int:
        """How many rows of `length` tokens, each with the target of its last token, there are."""
        return max(0, (self.tokens - 1) // length)

    def read_rows(self, row_R: npt.NDArray[np.integer[Any]], length: int) -> Tokens:
        """Rows by number: int64 [R, length + 1], row i being `stream[i*L : i*L + L + 1]`."""
        tokens_RxL1 = np.empty((len(row_R), length + 1), np.int64)
        self.read_rows_into(tokens_RxL1, row_R)
        return tokens_RxL1

    def read_rows_into(self, tokens_RxL1: Tokens, row_R: npt.NDArray[np.integer[Any]]) -> None:
        """As `read_rows`, into an array that is there."""
        if not len(row_R):
            return
        width = tokens_RxL1.shape[1]
        row_R = np.asarray(row_R, dtype=np.int64)
        assert row_R.min() >= 0, row_R.min()
        assert row_R.max() < self.row_count(width - 1), (row_R.max(), self.row_count(width - 1))
        start_R = row_R * (width - 1)
        self._prefetch_rows(start_R, width)
        shard_R = np.searchsorted(self._starts, start_R, side="right") - 1
        inside_R = start_R + width <= np.take(self._starts, shard_R + 1)
        # Only the shards that hold a row of the batch are touched: there can be a thousand.
        for shard in np.unique(shard_R[inside_R]).tolist():
            here_R = inside_R & (shard_R == shard)
            # A view costs more to make than some rows to read: it is kept.
            if (shard, width) not in self._views:
                view = np.lib.stride_tricks.sliding_window_view(self._shards[shard], width)
                self._views[shard, width] = view
            window_TxL1 = self._views[shard, width]
            tokens_RxL1[here_R] = window_TxL1[start_R[here_R] - self._starts[shard]]
        for place in np.flatnonzero(~inside_R):
            tokens_RxL1[place] = self.read_tokens(start_R[place], start_R[place] + width)
        self._refuse_unknown_ids(tokens_RxL1)

    def _prefetch_rows(self, start_R: npt.NDArray[np.int64], width: int) -> None:
        """Begins to load rows from the disk, all at once, where the first had to be waited for.

        Asking costs as much as reading rows that are there, and saves waiting for each in turn.
        """
        waits = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        self.read_tokens(start_R[0], start_R[0] + 1)
        waited = resource.getrusage(resource.RUSAGE_SELF).ru_majflt != waits
        if not waited or not hasattr(mmap, "MADV_WILLNEED"):
            return
        size = self.dtype.itemsize
        for start in start_R.tolist():
            for shard, first, last in self._shard_spans(start, start + width):
                page = first * size // mmap.PAGESIZE * mmap.PAGESIZE
                self._maps[shard].madvise(mmap.MADV_WILLNEED, page, last * size - page)

    def read_tokens(self, start: int, stop: int) -> Tokens:
        """The stream's tokens `start` to `stop` (exclusive), int64."""
        assert 0 <= start <= stop <= self.tokens, (start, stop, self.tokens)
        pieces = [self._shards[s][first:last] for s, first, last in self._shard_spans(start, stop)]
        if not pieces:
            return np.empty(0, np.int64)
        result = np.concatenate(pieces).astype(np.int64)
        self._refuse_unknown_ids(result)
        return result

    def _refuse_unknown_ids(self, tokens: Tokens) -> None:
        """A model's embedding has no row for an id that no piece of the tokenizer has."""
        if (largest := int(tokens.max())) >= self.vocabulary:
            raise InputError(
                f"{self.folder}: the {self.split} split holds the token id {largest:,}, but the "
                f"tokenizer has {self.vocabulary:,} pieces: a shard was changed; delete the folder "
                "and pack it anew"
            )

    def _shard_spans(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Where tokens of the stream lie: shard, and first and last (exclusive) token in it."""
        shard = bisect.bisect_right(self._starts, start) - 1
        while start < stop:
            end = min(stop, self._starts[shard + 1])
            yield shard, start - self._starts[shard], end - self._starts[shard]
            start, shard = end, shard + 1

    def evenly_spread_row_numbers(self, length: int, at_most: int) -> Ints:
        """Numbers of at most so many rows of `length` tokens, spread evenly over the split."""
        total = self.row_count(length)
        if total < 1:
            raise InputError(
                f"{self.folder} has {self.tokens:,} {self.split} tokens, fewer than one row of "
                f"{length} tokens and a target: give the source more text, or that split a larger "
                "share"
            )
        count = min(total, at_most)
        return np.arange(count) * total // count

    def document_records(self) -> npt.NDArray[Any]:
        """The split's documents in stream order, structured as `DOCUMENT`, memory-mapped."""
        path = self.folder / documents_file_name(self.split)
        return np.load(path, allow_pickle=False, mmap_mode="r")


def _map_file(path: Path) -> mmap.mmap:
    """A file to be read here and there: only the pages that are touched are loaded."""
    with path.open("rb") as file:
        result = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # Rows are read in random order; the kernel's read-ahead would load 500 times the bytes.
    if hasattr(mmap, "MADV_RANDOM"):
        result.madvise(mmap.MADV_RANDOM)
    return result
