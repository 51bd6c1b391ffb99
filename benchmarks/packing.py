"""How fast documents become tokens on disk, beside SentencePiece alone and `datasets.map`.

    python -m benchmarks.packing [--megabytes 120] [--rounds 3] [--workers 2]

Each variant runs in a process of its own, at two sizes; its speed is the further megabytes over the
further CPU-seconds of it and all its children, so that imports and start-up do not count. Medians
over interleaved rounds are printed and recorded in benchmarks/results/packing.json.

    encode      SentencePiece's own batch encoding of the documents, results dropped
    ours        `pike pack` from documents on disk to a finished corpus
    datasets    tokenising with `datasets.map` and writing a memory map, as nanoGPT prepares text
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import sentencepiece

from benchmarks import machine
from pipeline import files
from pipeline.data import documents as store
from pipeline.data import sources, tokenizer

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Measures, prints and records; or, in a child, does one variant's work."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--variant", choices=sorted(PEERS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--source", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.variant:
        PEERS[chosen.variant](chosen.folder, chosen.source, chosen.workers)
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(_measured(Path(folder), chosen), indent=2))


def _measured(folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    load = os.getloadavg()[0]
    sizes = _prepared(folder, chosen.megabytes)
    names = [n for n in VARIANTS if n != "datasets" or importlib.util.find_spec("datasets")]
    speeds: dict[str, list[float]] = {name: [] for name in names}
    walls: dict[str, list[float]] = {name: [] for name in names}
    memory: dict[str, float] = {}
    for _ in range(chosen.rounds):
        for name in names:
            used = {source: _cost(folder, name, source, chosen.workers) for source in sizes}
            further = sizes["large"] - sizes["small"]
            speeds[name].append(further / (used["large"][0] - used["small"][0]))
            walls[name].append(used["large"][1])
            memory[name] = used["large"][2]
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    result = {
        "megabytes": sizes,
        "megabytes_per_cpu_second": speeds,
        "median": medians,
        "relative_to_encode": {name: m / medians["encode"] for name, m in medians.items()},
        "wall_seconds_of_large": walls,
        "peak_megabytes_of_a_process": memory,
        "workers": chosen.workers,
        "machine": machine.described(load),
        "date": time.strftime("%Y-%m-%d"),
    }
    out = ROOT / "benchmarks" / "results" / "packing.json"
    files.write_json(out, result)
    return result


def _prepared(folder: Path, megabytes: int) -> dict[str, float]:
    """Documents of two sizes and a tokenizer; returns the sizes in megabytes."""
    settings = folder / "settings.json"
    files.write_json(settings, {"kind": "python", "topic": "code"})
    sources.download(settings, folder / "code")
    texts = [text for _, text in store.read(folder / "code")]
    sizes = {}
    for name, wanted in (("small", megabytes / 3), ("large", megabytes)):
        # The same text again and again, each time another document.
        files.write_json(
            folder / f"{name}.json", {"kind": "local", "files": f"{folder}/{name}.jsonl"}
        )
        total, number = 0, 0
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as out:
            while total < wanted * 1e6:
                text = f"{number} {texts[number % len(texts)]}"
                out.write(json.dumps({"text": text}) + "\n")
                total, number = total + len(text.encode()), number + 1
        sources.download(folder / f"{name}.json", folder / name)
        sizes[name] = files.read_json(folder / name / files.MANIFEST)["bytes"] / 1e6
    train = {"kind": "train", "model": "unigram", "vocabulary": 8192, "characters": 1_000_000}
    files.write_json(settings, {**train, "validation_share": 0.05})
    tokenizer.build(settings, [folder / "code"], folder / "tokens.model")
    files.write_json(folder / "packing.json", {"validation_share": 0.05})
    return sizes


def _cost(folder: Path, variant: str, source: str, workers: int) -> tuple[float, float, float]:
    """CPU-seconds of a variant's process and its children, wall seconds, megabytes at the peak."""
    arguments = ["--variant", variant, "--folder", str(folder), "--source", source]
    command = [sys.executable, "-m", "benchmarks.packing", *arguments, "--workers", str(workers)]
    if variant == "ours":
        command = _ours(folder, source, workers)
    began = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_DATASETS_CACHE": str(folder / "cache")}
    child = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0, variant
    return used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024


def _encode(folder: Path, source: str, workers: int) -> None:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokens.model"))
    for path in sorted((folder / source).glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=1024, columns=["text"]):
            processor.encode(batch.column(0).to_pylist(), out_type="numpy", num_threads=workers)


def _ours(folder: Path, source: str, workers: int) -> list[str]:
    """The command that a user gives."""
    places = {
        "--documents": folder / source,
        "--tokenizer": folder / "tokens.model",
        "--out": folder / f"corpus-{time.time_ns()}" / source,
    }
    named = [str(part) for pair in places.items() for part in pair]
    settings = str(folder / "packing.json")
    return [sys.executable, "-m", "pipeline", "pack", settings, *named, "--workers", str(workers)]


def _datasets(folder: Path, source: str, workers: int) -> None:
    datasets = importlib.import_module("datasets")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokens.model"))
    listed = [str(path) for path in sorted((folder / source).glob("*.parquet"))]
    cache = str(folder / f"cache-{time.time_ns()}")
    rows = datasets.load_dataset("parquet", data_files=listed, split="train", cache_dir=cache)

    def tokens(row: dict[str, str]) -> dict[str, Any]:
        ids = [*processor.encode(row["text"]), processor.eos_id()]
        return {"ids": ids, "len": len(ids)}

    done = rows.map(tokens, remove_columns=["id", "text"], num_proc=workers)
    total = int(np.sum(done["len"], dtype=np.int64))
    out = np.memmap(f"{cache}.bin", dtype=np.uint16, mode="w+", shape=(total,))
    place = 0
    for number in range(64):
        part = done.shard(num_shards=64, index=number, contiguous=True).with_format("numpy")
        if len(part):
            stream = np.concatenate(part["ids"])
            out[place : place + len(stream)] = stream
            place += len(stream)
    out.flush()


PEERS = {"encode": _encode, "datasets": _datasets}
VARIANTS = ("encode", "ours", "datasets")

if __name__ == "__main__":
    main()
