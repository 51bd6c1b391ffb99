"""How fast a batch is read: 256 rows of 1,024 tokens of six domains, beside other readers.

    python -m benchmarks.reading [--megatokens 64] [--batches 200]

Medians of single batches, warm (pages in memory) and cold (pages dropped before each batch), in
milliseconds, are printed and recorded in benchmarks/results/reading.json.

    ours        `pipeline.data.batches.Mixture`, shuffled, exact counts of each domain
    nanogpt     slices of a memory map, one after the other, stacked (get_batch of nanoGPT)
    datasets    `datasets.Dataset[rows]` of packed rows in NumPy's format, per domain
"""

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from pipeline import files
from pipeline.data import sealing, shards
from pipeline.data.batches import Mixture

ROOT = Path(__file__).resolve().parents[1]
DOMAINS, ROWS, LENGTH = 6, 256, 1024
COUNTS = np.array([43, 43, 43, 43, 42, 42])

Read = Callable[[int], object]
"""Reads the batch of a number."""


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megatokens", type=int, default=64, help="tokens of all domains")
    parser.add_argument("--batches", type=int, default=200)
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=ROOT) as name:
        folder = Path(name)
        for domain in range(DOMAINS):
            _corpus(folder / f"domain-{domain}", chosen.megatokens * 10**6 // DOMAINS)
        readers = {"ours": _ours, "nanogpt": _nanogpt}
        if importlib.util.find_spec("datasets"):
            readers["datasets"] = _datasets(folder)
        warm: dict[str, list[float]] = {name: [] for name in readers}
        cold: dict[str, list[float]] = {name: [] for name in readers}
        opened = {name: open_(folder) for name, open_ in readers.items()}
        for number in range(-20, chosen.batches):
            for name, read in opened.items():
                seconds = _timed(read, number + 20)
                if number >= 0:
                    warm[name].append(1000 * seconds)
        opened.clear()
        for number in range(min(20, chosen.batches)):
            for name, open_ in readers.items():
                read = open_(folder)
                # The order of 4,096 rows is computed at once: that is not the disk's time.
                _order(read, 1000 + number)
                _drop(folder)
                cold[name].append(1000 * _timed(read, 1000 + number))
    result = {
        "rows": ROWS,
        "length": LENGTH,
        "domains": DOMAINS,
        "megatokens": chosen.megatokens,
        "warm_milliseconds": {n: statistics.median(v) for n, v in warm.items()},
        "cold_milliseconds": {n: statistics.median(v) for n, v in cold.items()},
        "machine": machine.described(load),
        "date": time.strftime("%Y-%m-%d"),
    }
    files.write_json(ROOT / "benchmarks" / "results" / "reading.json", result)
    print(json.dumps(result, indent=2))


def _order(read: Read, number: int) -> None:
    """Has a reader compute the order of a batch without reading it, if it computes one."""
    getattr(read, "order", lambda number: None)(number)


def _timed(read: Read, number: int) -> float:
    began = time.perf_counter()
    read(number)
    return time.perf_counter() - began


def _corpus(folder: Path, tokens: int) -> None:
    """A corpus of random tokens."""
    folder.mkdir()
    stream = np.random.default_rng(0).integers(3, 32_000, tokens, dtype=np.uint16)
    splits, listed = {}, {}
    for split, part in (("train", stream), ("validation", stream[:5000])):
        writer = shards.ShardWriter(folder, split, dtype=np.dtype("<u2"), shard_tokens=2**26)
        writer.append(part)
        splits[split] = {"tokens": len(part), "shards": writer.close()}
        path = folder / sealing.documents_file(split)
        np.save(path, np.array([(len(part), 0, 0)], shards.DOCUMENT))
        listed[path.name] = {"bytes": path.stat().st_size, "sha256": files.sha256(path)}
    shards_of = {split: facts["shards"] for split, facts in splits.items()}
    manifest: dict[str, Any] = {
        "stage": "pack",
        "format": sealing.FORMAT,
        "dtype": "uint16",
        "tokenizer": {"vocabulary": 32_000, "eos": 1, "sha256": "-"},
        "splits": splits,
        "files": listed,
        "fingerprint": sealing.data_fingerprint("uint16", shards_of),
    }
    files.write_json(folder / files.MANIFEST, manifest)


def _folders(folder: Path) -> list[Path]:
    return sorted(folder.glob("domain-*"))


def _drop(folder: Path) -> None:
    """Drops the files' pages from memory, as far as nothing holds them."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _ours(folder: Path) -> Read:
    corpora = {path.name: shards.Corpus.open(path, "train") for path in _folders(folder)}
    return _Ours(Mixture(corpora, LENGTH, 0, "train"))


class _Ours:
    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture

    def __call__(self, number: int) -> object:
        return self.mixture.batch(COUNTS, number * COUNTS)

    def order(self, number: int) -> None:
        for order, count in zip(self.mixture._orders, COUNTS, strict=True):
            order.take(int(number * count), int(count))


def _nanogpt(folder: Path) -> Read:
    streams = [np.memmap(p / "train-00000.bin", "<u2", mode="r") for p in _folders(folder)]
    draw = np.random.default_rng(0)

    def read(number: int) -> object:
        rows = []
        for stream, count in zip(streams, COUNTS, strict=True):
            starts = draw.integers(0, len(stream) - LENGTH - 1, count)
            rows += [stream[s : s + LENGTH + 1].astype(np.int64) for s in starts]
        return np.stack(rows)

    return read


def _datasets(folder: Path) -> Callable[[Path], Read]:
    """Packed rows as `datasets` keeps them: one Arrow file per domain."""
    datasets = importlib.import_module("datasets")
    for path in _folders(folder):
        stream = np.memmap(path / "train-00000.bin", "<u2", mode="r")
        rows = (len(stream) - 1) // LENGTH
        packed = stream[: rows * LENGTH].reshape(rows, LENGTH)
        width = datasets.Sequence(datasets.Value("uint16"), length=LENGTH)
        features = datasets.Features({"ids": width})
        datasets.Dataset.from_dict({"ids": packed}, features=features).save_to_disk(
            str(path / "arrow"), max_shard_size="10GB"
        )

    def open_(folder: Path) -> Read:
        listed = [
            datasets.load_from_disk(str(path / "arrow")).with_format("numpy")
            for path in _folders(folder)
        ]
        draw = np.random.default_rng(0)

        def read(number: int) -> object:
            parts = [
                rows[draw.integers(0, len(rows), count)]["ids"]
                for rows, count in zip(listed, COUNTS, strict=True)
            ]
            return np.concatenate(parts).astype(np.int64)

        return read

    return open_


if __name__ == "__main__":
    main()
