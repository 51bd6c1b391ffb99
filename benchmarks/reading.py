"""How fast a batch is read: 256 rows of 1,024 tokens of six domains, beside other readers.

    python -m benchmarks.reading [--megatokens 48] [--batches 200] [--cold 40]

Each reader (`benchmarks.readers`) lives in a process of its own, with one thread for arithmetic and
its own copy of the data, and reads a batch in turn:

    warm    pages in memory: medians in processor time, and by the clock
    cold    opened anew and the files' pages dropped before each batch: medians by the clock, which
            hold the disk's time; how many megabytes came from it is recorded beside

Recorded in benchmarks/results/reading.json; `benchmarks.peers` says how to have all readers.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine, peers
from benchmarks.readers import LENGTH, PREPARE, READERS, Read, folders
from pipeline.data import corpus_manifest, shards
from pipeline.runtime import atomic_files

ROOT = Path(__file__).resolve().parents[1]
COUNTS = (43, 43, 43, 43, 42, 42)
FIRST = 20
"""Batches that are read before the first that counts."""


def main() -> None:
    """Measures, prints and records; or, in a child, reads what it is told to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megatokens", type=int, default=48, help="tokens of all domains")
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--cold", type=int, default=40, help="batches read cold")
    parser.add_argument("--readers", default=",".join(READERS))
    parser.add_argument("--reader", choices=sorted(READERS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.reader:
        _serve(chosen.reader, chosen.folder)
        return
    load, asked = os.getloadavg()[0], chosen.readers.split(",")
    missing = peers.missing(asked)
    with tempfile.TemporaryDirectory(dir=ROOT) as name:
        there = [reader for reader in asked if reader not in missing]
        seen = _measured(Path(name), there, chosen)
    result = {
        "rows": sum(COUNTS),
        "length": LENGTH,
        "domains": len(COUNTS),
        "megatokens": chosen.megatokens,
        "warm_cpu_milliseconds": _medians(seen, "warm", "cpu"),
        "warm_milliseconds": _medians(seen, "warm", "wall"),
        "cold_milliseconds": _medians(seen, "cold", "wall"),
        "cold_cpu_milliseconds": _medians(seen, "cold", "cpu"),
        "cold_megabytes_from_disk": _medians(seen, "cold", "megabytes"),
        "missing": missing,
        "versions": peers.versions(asked),
        "machine": machine.described(load) | {"threads": 1},
        "date": time.strftime("%Y-%m-%d"),
    }
    atomic_files.write_json(ROOT / "benchmarks" / "results" / "reading.json", result)
    print(json.dumps(result, indent=2))


Seen = dict[tuple[str, str], list[dict[str, float]]]
"""By reader and kind of batch."""


def _measured(folder: Path, readers: Sequence[str], chosen: argparse.Namespace) -> Seen:
    children: dict[str, subprocess.Popen[str]] = {}
    seen: Seen = {}
    try:
        for name in readers:
            for domain in range(len(COUNTS)):
                place = folder / name / f"domain-{domain}"
                _corpus(place, chosen.megatokens * 10**6 // len(COUNTS))
            children[name] = _started(folder / name, name)
        for number in range(FIRST + chosen.batches):
            for name, child in children.items():
                found = _asked(child, f"warm {number}")
                if number >= FIRST:
                    seen.setdefault((name, "warm"), []).append(found)
        for number in range(chosen.cold):
            for name, child in children.items():
                seen.setdefault((name, "cold"), []).append(_asked(child, f"cold {1000 + number}"))
    finally:
        for child in children.values():
            assert child.stdin is not None
            child.stdin.close()
            child.wait()
    return seen


def _medians(seen: Seen, kind: str, quantity: str) -> dict[str, float]:
    return {
        name: statistics.median(one[quantity] for one in found)
        for (name, of), found in seen.items()
        if of == kind
    }


def _started(folder: Path, name: str) -> subprocess.Popen[str]:
    """A process that has prepared and opened a reader."""
    command = [sys.executable, "-m", "benchmarks.reading", "--reader", name]
    child = subprocess.Popen(
        [*command, "--folder", str(folder)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_DATASETS_OFFLINE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    _asked(child, "open 0")
    return child


def _asked(child: subprocess.Popen[str], command: str) -> dict[str, float]:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(command + "\n")
    child.stdin.flush()
    while line := child.stdout.readline():
        # Others talk on standard output, too.
        if line.startswith("{"):
            found: dict[str, float] = json.loads(line)
            return found
    raise RuntimeError(f"{child.args} ended at {command!r}")


def _serve(name: str, folder: Path) -> None:
    """Reads batches as the lines of standard input say, and answers what each took."""
    for path in folders(folder):
        PREPARE.get(name, lambda path: None)(path)
    read: Read | None = None
    for line in sys.stdin:
        kind, _, number = line.partition(" ")
        if kind != "warm":
            read = None
            gc.collect()
            read = READERS[name](folder, COUNTS)
        assert read is not None
        if kind == "cold":
            # The order of 4,096 rows is computed at once: that is not the disk's time.
            getattr(read, "order", lambda number: None)(int(number))
            _drop(folder)
        found = {} if kind == "open" else _timed(read, int(number))
        print(json.dumps(found), flush=True)


def _timed(read: Read, number: int) -> dict[str, float]:
    before, wall, cpu = _from_disk(), time.perf_counter(), time.process_time()
    tokens_BxL1 = read(number)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert tokens_BxL1.shape == (sum(COUNTS), LENGTH + 1), tokens_BxL1.shape
    assert tokens_BxL1.dtype == np.int64
    return {"cpu": 1e3 * cpu, "wall": 1e3 * wall, "megabytes": (_from_disk() - before) / 1e6}


def _from_disk() -> int:
    """Bytes that the process has had fetched from disks so far."""
    path = Path("/proc/self/io")
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def _corpus(folder: Path, tokens: int) -> None:
    """A corpus of random tokens."""
    folder.mkdir(parents=True)
    stream = np.random.default_rng(0).integers(3, 32_000, tokens, dtype=np.uint16)
    splits, listed = {}, {}
    for split, part in (("train", stream), ("validation", stream[:5000])):
        writer = shards.ShardWriter(folder, split, dtype=np.dtype("<u2"), shard_tokens=2**26)
        writer.append(part)
        splits[split] = {"tokens": len(part), "shards": writer.close()}
        path = folder / corpus_manifest.documents_file(split)
        np.save(path, np.array([(len(part), 0, 0)], shards.DOCUMENT))
        listed[path.name] = {"bytes": path.stat().st_size, "sha256": atomic_files.sha256(path)}
    shards_of = {split: facts["shards"] for split, facts in splits.items()}
    manifest: dict[str, Any] = {
        "stage": "pack",
        "format": corpus_manifest.FORMAT,
        "dtype": "uint16",
        "tokenizer": {"vocabulary": 32_000, "eos": 1, "sha256": "-"},
        "splits": splits,
        "files": listed,
        "fingerprint": corpus_manifest.data_fingerprint("uint16", shards_of),
    }
    atomic_files.write_json(folder / atomic_files.MANIFEST, manifest)


def _drop(folder: Path) -> None:
    """Drops the files' pages from memory, as far as no process maps them."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


if __name__ == "__main__":
    main()
