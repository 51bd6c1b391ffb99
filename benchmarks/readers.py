"""Readers of packed tokens, ours and others: each writes what it reads and gives batches of rows.

A reader is a function from a folder of corpora and the counts of rows by domain to a `Read`; what
it keeps in a format of its own, `PREPARE` has written beside each corpus before.

Legend of shapes: B rows of a batch, L tokens of context in a row.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import peers
from pipeline.data import shards
from pipeline.data.batches import Mixture

LENGTH = 1024

Tokens = npt.NDArray[Any]
Read = Callable[[int], Tokens]
"""Reads the batch of a number: int64 [B, L + 1], rows grouped by domain."""


class Ours:
    """`pipeline.data.batches.Mixture`, as a training run has it."""

    def __init__(self, folder: Path, counts: Sequence[int]) -> None:
        """Opens the corpora."""
        corpora = {path.name: shards.Corpus.open(path, "train") for path in folders(folder)}
        self.mixture = Mixture(corpora, LENGTH, 0, "train")
        self.counts = np.array(counts)

    def __call__(self, number: int) -> Tokens:
        """A batch of exact counts."""
        return self.mixture.batch(self.counts, number * self.counts)[0]

    def order(self, number: int) -> None:
        """Computes the order of a batch without reading it."""
        for order, count in zip(self.mixture._orders, self.counts, strict=True):
            order.take(int(number * count), int(count))


def nanogpt(folder: Path, counts: Sequence[int]) -> Read:
    """Slices of a memory map, one after the other, stacked: get_batch of nanoGPT."""
    streams = [_stream(path) for path in folders(folder)]
    draw = np.random.default_rng(0)

    def read(number: int) -> Tokens:
        rows = []
        for stream, count in zip(streams, counts, strict=True):
            starts = draw.integers(0, len(stream) - LENGTH - 1, count)
            rows += [stream[s : s + LENGTH + 1].astype(np.int64) for s in starts]
        return np.stack(rows)

    return read


def datasets(folder: Path, counts: Sequence[int]) -> Read:
    """`datasets.Dataset[rows]` of packed rows in NumPy's format, per domain."""
    package = importlib.import_module("datasets")
    listed = [
        package.load_from_disk(str(path / "arrow")).with_format("numpy") for path in folders(folder)
    ]
    draw = np.random.default_rng(0)

    def read(number: int) -> Tokens:
        parts = [
            rows[draw.integers(0, len(rows), count)]["ids"]
            for rows, count in zip(listed, counts, strict=True)
        ]
        return np.concatenate(parts).astype(np.int64)

    return read


def grain(folder: Path, counts: Sequence[int]) -> Read:
    """Grain's `MapDataset` over rows of a memory map: shuffled, repeated, batched by domain."""
    package = importlib.import_module("grain")
    listed = [
        package.MapDataset.source(_rows(path)).shuffle(seed=0).repeat().batch(count)
        for path, count in zip(folders(folder), counts, strict=True)
    ]

    def read(number: int) -> Tokens:
        return np.concatenate([rows[number] for rows in listed]).astype(np.int64)

    return read


def litdata(folder: Path, counts: Sequence[int]) -> Read:
    """`StreamingDataset` of tokens of litdata, shuffled and iterated: its fast way."""
    package = importlib.import_module("litdata")
    loader = importlib.import_module("litdata.streaming.item_loader").TokensLoader
    listed = [
        package.StreamingDataset(
            str(path / "litdata"), item_loader=loader(block_size=LENGTH + 1), shuffle=True, seed=0
        )
        for path in folders(folder)
    ]
    rows = [_endless(one) for one in listed]
    return lambda number: _stacked(row.numpy() for row in _taken(rows, counts))


def mosaicml(folder: Path, counts: Sequence[int]) -> Read:
    """mosaicml-streaming's `StreamingDataset` of MDS rows, shuffled and iterated."""
    package = peers.streaming()
    package.base.util.clean_stale_shared_memory()
    listed = [
        package.StreamingDataset(
            local=str(path / "mds"), shuffle=True, shuffle_seed=0, batch_size=count
        )
        for path, count in zip(folders(folder), counts, strict=True)
    ]
    rows = [_endless(one) for one in listed]
    return lambda number: _stacked(row["tokens"] for row in _taken(rows, counts))


def _endless(rows: Any) -> Iterator[Any]:
    while True:
        yield from rows


def _taken(rows: Sequence[Iterator[Any]], counts: Sequence[int]) -> Iterator[Any]:
    for one, count in zip(rows, counts, strict=True):
        for _ in range(count):
            yield next(one)


def _stacked(rows: Iterator[Tokens]) -> Tokens:
    return np.stack(list(rows)).astype(np.int64)


def folders(folder: Path) -> list[Path]:
    """The corpora of a folder."""
    return sorted(folder.glob("domain-*"))


def _stream(path: Path) -> Tokens:
    return np.memmap(path / "train-00000.bin", "<u2", mode="r")


def _rows(path: Path) -> Tokens:
    """Rows that do not overlap, of L + 1 tokens: what readers of samples are given."""
    stream = _stream(path)
    rows = len(stream) // (LENGTH + 1)
    return stream[: rows * (LENGTH + 1)].reshape(rows, LENGTH + 1)


def _write_arrow(path: Path) -> None:
    package = importlib.import_module("datasets")
    width = package.Sequence(package.Value("uint16"), length=LENGTH + 1)
    package.Dataset.from_dict(
        {"ids": _rows(path)}, features=package.Features({"ids": width})
    ).save_to_disk(str(path / "arrow"), max_shard_size="10GB")


def _write_litdata(path: Path) -> None:
    importlib.import_module("litdata").optimize(
        fn=_torch_rows,
        inputs=[str(path)],
        output_dir=str(path / "litdata"),
        chunk_bytes="64MB",
        num_workers=1,
        item_loader=importlib.import_module("litdata.streaming.item_loader").TokensLoader(),
    )


def _torch_rows(path: str) -> Iterator[Any]:
    from_numpy = importlib.import_module("torch").from_numpy
    for row in _rows(Path(path)):
        yield from_numpy(row.copy())


def _write_mds(path: Path) -> None:
    columns = {"tokens": f"ndarray:uint16:{LENGTH + 1}"}
    with peers.streaming().MDSWriter(columns=columns, out=str(path / "mds")) as writer:
        for row in _rows(path):
            writer.write({"tokens": np.asarray(row)})


READERS: dict[str, Callable[[Path, Sequence[int]], Read]] = {
    "ours": Ours,
    "nanogpt": nanogpt,
    "datasets": datasets,
    "grain": grain,
    "litdata": litdata,
    "mosaicml-streaming": mosaicml,
}
PREPARE: dict[str, Callable[[Path], None]] = {
    "datasets": _write_arrow,
    "litdata": _write_litdata,
    "mosaicml-streaming": _write_mds,
}
"""What writes a corpus in a reader's own format, for those that have one."""
