"""How fast documents become tokens on disk, beside SentencePiece alone and other packers.

    python -m benchmarks.packing [--megabytes 150] [--rounds 3] [--workers 2]

Each way (`pike pack` from documents on disk to a finished corpus, and `benchmarks.packers`) runs in
a process of its own, at two sizes; its speed is the further megabytes over the further CPU-seconds
of it and all its children, so that imports and start-up do not count. Medians over interleaved
rounds, and those of the ratios of each round to SentencePiece's own batch encoding, are recorded in
benchmarks/results/packing.json; `benchmarks.peers` says how to have all peers.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import machine, peers
from benchmarks.packers import FAST_MODEL, MODEL, PACKERS
from pipeline.data import documents as store
from pipeline.data import sources, tokenizer
from pipeline.model import hf_tokenizer
from pipeline.runtime import atomic_files

ROOT = Path(__file__).resolve().parents[1]
SET_CHILD_SUBREAPER = 36
"""Linux's number of prctl."""
PATIENCE = 20.0
"""Seconds that workers without a parent are waited for."""


def main() -> None:
    """Measures, prints and records; or, in a child, does one variant's work."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--packers", default=",".join(["ours", *PACKERS]))
    parser.add_argument("--variant", choices=sorted(PACKERS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--source", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.variant:
        PACKERS[chosen.variant](chosen.folder, chosen.source, chosen.workers)
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(_measured(Path(folder), chosen), indent=2))


def _measured(folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    load, asked = os.getloadavg()[0], chosen.packers.split(",")
    sizes, missing = _prepared(folder, chosen.megabytes), peers.missing(asked)
    names = [name for name in asked if name not in missing]
    speeds: dict[str, list[float]] = {name: [] for name in names}
    walls: dict[str, list[float]] = {name: [] for name in names}
    result: dict[str, Any] = {}
    _adopt_orphans()
    for _ in range(chosen.rounds):
        for name in names:
            used = {source: _cost(folder, name, source, chosen.workers) for source in sizes}
            further = sizes["large"] - sizes["small"]
            speeds[name].append(further / (used["large"][0] - used["small"][0]))
            walls[name].append(used["large"][1])
        result = {
            "megabytes": sizes,
            "megabytes_per_cpu_second": speeds,
            "median": {name: statistics.median(values) for name, values in speeds.items()},
            "relative_to_encode": {
                name: statistics.median(
                    a / b for a, b in zip(values, speeds["encode"], strict=True)
                )
                for name, values in speeds.items()
            },
            "wall_seconds_of_large": walls,
            "workers": chosen.workers,
            "missing": missing,
            "versions": peers.versions(asked),
            "machine": machine.described(load),
            "date": time.strftime("%Y-%m-%d"),
        }
        atomic_files.write_json(ROOT / "benchmarks" / "results" / "packing.json", result)
    return result


def _prepared(folder: Path, megabytes: int) -> dict[str, float]:
    """Documents of two sizes and a tokenizer; returns the sizes in megabytes."""
    settings = folder / "settings.json"
    atomic_files.write_json(settings, {"kind": "python", "topic": "code"})
    sources.download(settings, folder / "code")
    texts = [text for _, text in store.read(folder / "code")]
    sizes = {}
    for name, wanted in (("small", megabytes / 3), ("large", megabytes)):
        # The same text again and again, each time another document.
        atomic_files.write_json(
            folder / f"{name}.json", {"kind": "local", "files": f"{folder}/{name}.jsonl"}
        )
        total, number = 0, 0
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as out:
            while total < wanted * 1e6:
                text = f"{number} {texts[number % len(texts)]}"
                out.write(json.dumps({"text": text}) + "\n")
                total, number = total + len(text.encode()), number + 1
        sources.download(folder / f"{name}.json", folder / name)
        sizes[name] = atomic_files.read_json(folder / name / atomic_files.MANIFEST)["bytes"] / 1e6
    train = {"kind": "train", "model": "unigram", "vocabulary": 8192, "characters": 1_000_000}
    atomic_files.write_json(settings, {**train, "validation_share": 0.05})
    tokenizer.build(settings, [folder / "code"], folder / MODEL)
    hf_tokenizer.converted(folder / MODEL).save(str(folder / FAST_MODEL))
    atomic_files.write_json(folder / "packing.json", {"validation_share": 0.05})
    return sizes


def _cost(folder: Path, variant: str, source: str, workers: int) -> tuple[float, float]:
    """CPU-seconds of a variant's process and its children, and wall seconds."""
    arguments = ["--variant", variant, "--folder", str(folder), "--source", source]
    command = [sys.executable, "-m", "benchmarks.packing", *arguments, "--workers", str(workers)]
    if variant == "ours":
        command = _ours(folder, source, workers)
    began = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_DATASETS_CACHE": str(folder / "cache")}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(command, cwd=ROOT, env=environment, **quiet)
    seconds = ended = 0.0
    # Some leave workers behind that they have not waited for: their work counts as well.
    while not ended or time.perf_counter() < ended + PATIENCE:
        try:
            reaped, status, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        seconds += used.ru_utime + used.ru_stime
        if reaped == child.pid:
            assert status == 0, command
            ended = time.perf_counter()
        elif not reaped:
            time.sleep(0.02)
    return seconds, ended - began


def _adopt_orphans() -> None:
    """Makes this process the parent of processes whose own has ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    adopted = libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    assert adopted == 0, os.strerror(ctypes.get_errno())


def _ours(folder: Path, source: str, workers: int) -> list[str]:
    """The command that a user gives."""
    places = {
        "--documents": folder / source,
        "--tokenizer": folder / MODEL,
        "--out": folder / f"corpus-{time.time_ns()}" / source,
    }
    named = [str(part) for pair in places.items() for part in pair]
    settings = str(folder / "packing.json")
    return [sys.executable, "-m", "pipeline", "pack", settings, *named, "--workers", str(workers)]


if __name__ == "__main__":
    main()
