"""How fast documents become tokens on disk, beside SentencePiece alone and litdata.

    python -m benchmarks.packing [--megabytes 150] [--rounds 3] [--workers 2]

    ours      `pike pack` from documents on disk to a finished corpus
    encode    SentencePiece's own batch encoding of the documents, results dropped
    litdata   `optimize` of litdata with `TokensLoader`, around the same encoding

Each runs in a process of its own, at two sizes; its speed is the further megabytes over the further
CPU-seconds of it and all its children, so that imports and start-up do not count. Rounds are
interleaved; ratios are those of the same round. `pip install --no-deps -r benchmarks/peers.txt`
brings litdata; without it the record names it as missing. Record: benchmarks/results/packing.json.
"""

import ctypes
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sentencepiece

from benchmarks import corpora, measure, records
from pipeline.runtime import atomic_files

SET_CHILD_SUBREAPER = 36
"""Linux's number of prctl."""
PATIENCE = 20.0
"""Seconds that workers without a parent are waited for."""


def groups(folder: Path, source: str) -> list[str]:
    """Row groups of the documents: path and number."""
    listed = sorted((folder / source).glob("*.parquet"))
    return [f"{p}:{n}" for p in listed for n in range(pq.read_metadata(p).num_row_groups)]


@functools.cache
def _processor(folder: str) -> Any:
    return sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{corpora.MODEL}")


def encoded(group: str, folder: str, workers: int = 1) -> list[Any]:
    """The tokens of each document of a row group, the fastest way that SentencePiece has."""
    path, _, number = group.rpartition(":")
    column = pq.ParquetFile(path).read_row_group(int(number), columns=["text"]).column("text")
    texts = pc.cast(column.combine_chunks(), pa.binary()).to_pylist()
    tokens: list[Any] = _processor(folder).encode(texts, out_type="numpy", num_threads=workers)
    return tokens


def encode(folder: Path, source: str, workers: int) -> None:
    for group in groups(folder, source):
        encoded(group, str(folder), workers)


def litdata(folder: Path, source: str, workers: int) -> None:
    """Encodes in processes of litdata's."""
    from litdata import optimize
    from litdata.streaming.item_loader import TokensLoader

    optimize(
        fn=functools.partial(_documents, folder=str(folder)),
        inputs=groups(folder, source),
        output_dir=str(folder / f"litdata-{time.time_ns()}"),
        chunk_bytes="64MB",
        num_workers=workers,
        item_loader=TokensLoader(),
    )


def _documents(group: str, folder: str) -> Iterator[Any]:
    import torch

    end = _processor(folder).eos_id()
    for ids in encoded(group, folder):
        yield torch.from_numpy(np.append(ids, end).astype(np.uint16))


def command(folder: Path, name: str, source: str, workers: int) -> list[str]:
    """What packs the documents in a process of its own."""
    if name != "ours":
        call = f"{name}(Path({str(folder)!r}), {source!r}, {workers})"
        # litdata's own processes read this module by its name.
        text = f"from pathlib import Path; from benchmarks.packing import *; {call}"
        return [sys.executable, "-c", text]
    out = folder / f"corpus-{time.time_ns()}" / source
    words = ["pack", folder / "packing.json", "--documents", folder / source, "--out", out]
    words += ["--tokenizer", folder / corpora.MODEL, "--workers", workers]
    return [sys.executable, "-m", "pipeline", *map(str, words)]


def cost(given: list[str]) -> float:
    """CPU-seconds of a command's process and of all that come from it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    used = measure.children_seconds()
    subprocess.run(given, cwd=records.ROOT, env=environment, check=True, **quiet)
    # Some leave workers behind that they have not waited for: their work counts as well.
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end:
        try:
            reaped, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if not reaped:
            time.sleep(0.02)
    return measure.children_seconds() - used


def main() -> None:
    chosen = measure.arguments(__doc__, "packing", megabytes=150.0, rounds=3, workers=2)
    # This process becomes the parent of processes whose own has ended.
    adopted = ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    assert adopted == 0, os.strerror(ctypes.get_errno())
    versions = measure.versions("litdata")
    names = ["ours", "encode", *versions]
    speeds: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        folder, sizes = Path(temporary), {}
        for name, size in (("small", chosen.megabytes / 3), ("large", chosen.megabytes)):
            made = corpora.documents(folder, name, size * 1e6)
            sizes[name] = atomic_files.read_json(made / atomic_files.MANIFEST)["bytes"] / 1e6
        corpora.trained_tokenizer(folder, [corpora.python_code(folder)])
        for _ in range(chosen.rounds):
            for name in names:
                used = {s: cost(command(folder, name, s, chosen.workers)) for s in sizes}
                further = sizes["large"] - sizes["small"]
                speeds[name].append(further / (used["large"] - used["small"]))
    result = {
        "megabytes": sizes,
        "megabytes_per_cpu_second": speeds,
        "median": measure.medians(speeds),
        "relative_to_encode": {
            name: measure.ratios(of, speeds["encode"])["median"] for name, of in speeds.items()
        },
        "workers": chosen.workers,
        "missing": {} if versions else {"litdata": "benchmarks/peers.txt"},
        "versions": versions,
    }
    shown = {"median": result["median"], "in that of encode": result["relative_to_encode"]}
    print(measure.table("MB a CPU-second", shown))
    measure.record(chosen, result)


if __name__ == "__main__":
    main()
