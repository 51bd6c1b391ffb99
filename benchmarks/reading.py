"""How fast a batch is read: 256 rows of 1,024 tokens of six domains, beside nanoGPT and litdata.

    python -m benchmarks.reading [--megatokens 48] [--turns 200] [--cold 40]

    ours      `pipeline.data.batches.DomainRows`, as a training run has it
    nanogpt   slices of a memory map, one after the other, stacked: get_batch of nanoGPT
    litdata   `StreamingDataset` of tokens, shuffled and iterated: its fast way

Each lives in a process of its own, with one thread for arithmetic and its own copy of the data, and
reads a batch in turn:

    warm    pages in memory: medians in processor time, and by the clock; then nine more in a row,
            without the other readers, whose data the processor's caches hold when a turn begins
    cold    opened anew and the files' pages dropped before each batch: medians by the clock, which
            hold the disk's time; how many megabytes came from it is recorded beside

`pip install --no-deps -r benchmarks/peers.txt` brings litdata; without it the record names it as
missing. Record: benchmarks/results/reading.json. Shapes: B rows of a batch, L tokens of a row.
"""

import gc
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import corpora, measure, records
from pipeline.data import shards
from pipeline.data.batches import DomainRows

LENGTH = 1024
COUNTS = (43, 43, 43, 43, 42, 42)
FIRST = 20
"""Turns before the first that counts."""
TURN = 10
"""Batches of a warm turn."""
Tokens = npt.NDArray[Any]
Read = Callable[[int], Tokens]
"""Reads the batch of a number: int64 [B, L + 1], rows grouped by domain."""


def ours(folders: list[Path], first: int) -> Read:
    """Batches of exact counts."""
    corpora = {path.name: shards.Corpus.open(path, "train") for path in folders}
    mixture, counts = DomainRows(corpora, LENGTH, 0, "train"), np.array(COUNTS)
    # The order of 4,096 rows is computed at once: that is not the disk's time.
    for order, count in zip(mixture._orders, COUNTS, strict=True):
        order.take(first * count, count)
    return lambda number: mixture.read_tokens_at(counts, number * counts)


def nanogpt(folders: list[Path], _: int) -> Read:
    """Rows at random places."""
    streams, draw = [_stream(path) for path in folders], np.random.default_rng(0)

    def read(number: int) -> Tokens:
        rows = []
        for stream, count in zip(streams, COUNTS, strict=True):
            starts = draw.integers(0, len(stream) - LENGTH - 1, count)
            rows += [stream[s : s + LENGTH + 1].astype(np.int64) for s in starts]
        return np.stack(rows)

    return read


def litdata(folders: list[Path], _: int) -> Read:
    """Rows of its own chunks, which are written before."""
    from litdata import StreamingDataset, optimize
    from litdata.streaming.item_loader import TokensLoader

    listed = []
    for path in folders:
        if not (place := path / "litdata").exists():
            how = {"chunk_bytes": "64MB", "num_workers": 1, "item_loader": TokensLoader()}
            optimize(fn=_torch_rows, inputs=[str(path)], output_dir=str(place), **how)
        loader = TokensLoader(block_size=LENGTH + 1)
        listed.append(StreamingDataset(str(place), item_loader=loader, shuffle=True, seed=0))
    rows = [_endless(one) for one in listed]

    def read(number: int) -> Tokens:
        pairs = zip(rows, COUNTS, strict=True)
        taken = [next(one).numpy() for one, count in pairs for _ in range(count)]
        return np.stack(taken).astype(np.int64)

    return read


def _stream(path: Path) -> Tokens:
    return np.memmap(path / "train-00000.bin", "<u2", mode="r")


def _torch_rows(path: str) -> Iterator[Any]:
    import torch

    stream = _stream(Path(path))
    for start in range(0, len(stream) - LENGTH, LENGTH + 1):
        yield torch.from_numpy(stream[start : start + LENGTH + 1].copy())


def _endless(rows: Any) -> Iterator[Any]:
    while True:
        yield from rows


READERS = {"ours": ours, "nanogpt": nanogpt, "litdata": litdata}
_opened: dict[str, Read] = {}
"""In a reader's process: what it has open."""


def taken(name: str, folder: Path, number: int, cold: bool) -> dict[str, float]:
    """What a batch of a turn takes, in milliseconds and megabytes; runs in a reader's process."""
    folders, number = sorted(folder.glob("domain-*")), number * TURN
    if cold or name not in _opened:
        _opened.clear()
        gc.collect()
        _opened[name] = READERS[name](folders, number)
    if cold:
        _drop(folder)
    read, before, kept = _opened[name], _from_disk(), list[Tokens]()

    def further() -> None:
        for n in range(1, TURN):
            read(number + n)

    seconds = measure.timed(lambda: kept.append(read(number)))
    assert (kept[0].shape, kept[0].dtype) == ((sum(COUNTS), LENGTH + 1), np.int64)
    result = {"cpu": 1e3 * seconds.processor, "wall": 1e3 * seconds.clock}
    result["megabytes"] = (_from_disk() - before) / 1e6
    if not cold:
        result["in_a_row"] = 1e3 * measure.timed(further).processor / (TURN - 1)
    return result


def _from_disk() -> int:
    """Bytes that the process has had fetched from disks so far."""
    path = Path("/proc/self/io")
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def _drop(folder: Path) -> None:
    """Drops the files' pages from memory, as far as no process maps them."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def corpus(folder: Path, tokens: int) -> None:
    """Corpora of random letters, of which each is a token."""
    values = {"kind": "synthetic", "order": 0, "symbols": 256, "successors": 256, "noise": 1.0}
    values |= {"alphabet": 0x5200, "length": 1000, "documents": tokens // len(COUNTS) // 1000}
    named = {f"domain-{k}": {**values, "seed": k} for k in range(len(COUNTS))}
    corpora.packed(folder, named, model="char", vocabulary=512)


def main() -> None:
    chosen = measure.arguments(__doc__, "reading", megatokens=48, turns=200, cold=40)
    versions = measure.versions("litdata")
    names = [name for name in READERS if name != "litdata" or versions]
    seen: dict[str, dict[str, list[dict[str, float]]]] = {"warm": {}, "cold": {}}
    spawn = multiprocessing.get_context("spawn")
    pools = {name: ProcessPoolExecutor(1, mp_context=spawn) for name in names}
    with tempfile.TemporaryDirectory(dir=records.ROOT / "results") as temporary:
        corpus(Path(temporary), chosen.megatokens * 10**6)
        for name in names:
            shutil.copytree(Path(temporary) / "corpora", Path(temporary) / name)
        kinds = ["warm"] * (FIRST + chosen.turns) + ["cold"] * chosen.cold
        for number, kind in enumerate(kinds):
            for name, pool in pools.items():
                given = name, Path(temporary) / name, number, kind == "cold"
                found = pool.submit(taken, *given).result()
                if number >= FIRST:
                    seen[kind].setdefault(name, []).append(found)
        for pool in pools.values():
            pool.shutdown()

    def medians(kind: str, what: str) -> dict[str, float]:
        return measure.medians({n: [one[what] for one in of] for n, of in seen[kind].items()})

    result = {
        "rows": sum(COUNTS),
        "length": LENGTH,
        "domains": len(COUNTS),
        "megatokens": chosen.megatokens,
        "warm_cpu_milliseconds": medians("warm", "cpu"),
        "warm_milliseconds": medians("warm", "wall"),
        "in_a_row_cpu_milliseconds": medians("warm", "in_a_row"),
        "cold_milliseconds": medians("cold", "wall"),
        "cold_megabytes_from_disk": medians("cold", "megabytes"),
        "missing": {} if versions else {"litdata": "benchmarks/peers.txt"},
        "versions": versions,
    }
    shown = {name: of for name, of in result.items() if isinstance(of, dict) and "ours" in of}
    print(measure.table("batch", shown))
    measure.record(chosen, result)


if __name__ == "__main__":
    main()
