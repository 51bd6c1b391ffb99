"""How much memory packing and training take, as a corpus grows.

    python -m benchmarks.memory [--gigabytes 0.1 1 10] [--workers 2] [--steps 20]

For each size made-up text is written as documents, packed by `pike pack` and trained on by
`pike pretrain`, each a process of its own whose memory, and that of all its children, is read from
/proc/PID/smaps_rollup several times a second. Peaks of three sums are recorded in
benchmarks/results/memory.json:

    rss         resident pages, those that processes share counted in each of them; the bar's
    pss         resident pages, each divided among the processes of the machine that map it
    anonymous   what the processes themselves have made, without pages of files

The pages of files that the system keeps because nobody else wants the memory belong to no process
and are not counted. The largest size takes 1.6 times its bytes of disk for a while.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from pipeline.data import documents as store
from pipeline.data import tokenizer
from pipeline.runtime import atomic_files

ROOT = Path(__file__).resolve().parents[1]
SETTINGS: dict[str, Any] = {"layers": 4, "width": 128, "heads": 4, "head_width": 32}
VOCABULARY, ROWS, LENGTH = 8192, 4, 256
KINDS = {"rss": "Rss:", "pss": "Pss:", "anonymous": "Anonymous:"}
EVERY = 0.2
"""Seconds between two looks at the memory."""
STATES = 4
"""Numbers kept of each weight: itself, its gradient and two moments."""


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="where there is room; absent: the system's")
    chosen, load = parser.parse_args(), os.getloadavg()[0]
    sizes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        for gigabytes in chosen.gigabytes:
            sizes[f"{gigabytes:g} GB"] = _measured(Path(name) / "work", gigabytes, chosen)
            result = {
                "sizes": sizes,
                "workers": chosen.workers,
                "model": {**SETTINGS, "vocabulary": VOCABULARY, "rows": ROWS, "length": LENGTH},
                "machine": machine.described(load),
                "date": time.strftime("%Y-%m-%d"),
            }
            # A later size may not come to its end.
            atomic_files.write_json(ROOT / "benchmarks" / "results" / "memory.json", result)
            print(json.dumps(result, indent=2), flush=True)


def _measured(folder: Path, gigabytes: float, chosen: argparse.Namespace) -> dict[str, Any]:
    folder.mkdir()
    source, model, corpus = (folder / name for name in ("text", "text.model", "corpora/text"))
    began = time.perf_counter()
    _write(source, gigabytes * 1e9)
    written = time.perf_counter() - began
    values = {"kind": "train", "model": "unigram", "vocabulary": VOCABULARY}
    values |= {"characters": 1_000_000, "validation_share": 0.01}
    atomic_files.write_json(folder / "tokenizer.json", values)
    tokenizer.build(folder / "tokenizer.json", [source], model)
    atomic_files.write_json(folder / "packing.json", {"validation_share": 0.01})
    places = {"--documents": source, "--tokenizer": model, "--out": corpus}
    named = [str(part) for pair in places.items() for part in pair]
    packing = _watched(
        "pack", str(folder / "packing.json"), *named, "--workers", str(chosen.workers)
    )
    # Only the text's manifest is looked at from here on, and disks are not endless.
    for path in source.glob("*.parquet"):
        path.unlink()
    run = _run_file(folder / "run", chosen.steps)
    training = _watched("pretrain", str(run), "--corpora", str(corpus.parent), "--device", "cpu")
    facts = atomic_files.read_json(corpus / atomic_files.MANIFEST)
    weights = atomic_files.read_json(run.parent / atomic_files.MANIFEST)["parameters"]
    shutil.rmtree(folder)
    return {
        "bytes": sum(split["bytes"] for split in facts["splits"].values()),
        "tokens": sum(split["tokens"] for split in facts["splits"].values()),
        "seconds_to_write": written,
        "pack": packing,
        "train": training,
        "model_megabytes": STATES * 4 * weights / 1e6,
        "steps": chosen.steps,
    }


def _write(folder: Path, size: float) -> None:
    """Documents of so many bytes, as a download leaves them."""
    folder.mkdir()
    totals = store.write(_documents(size), folder)
    facts = {
        "documents": totals.documents,
        "bytes": totals.bytes,
        "revision": "made up",
        "licence": "CC0-1.0",
        "skipped": {},
        "entropy_nats_per_character": None,
    }
    atomic_files.write_manifest(
        folder / atomic_files.MANIFEST,
        stage=store.STAGE,
        settings={},
        inputs=[],
        files=totals.files,
        modules=["pipeline.data.documents"],
        facts=facts,
    )


def _documents(size: float) -> Iterator[store.Document]:
    """Documents of 2 to 200 sentences out of 20,000; no two are equal."""
    draw = np.random.Generator(np.random.PCG64(0))
    sentences = np.array(list(_sentences(20_000, draw)), object)
    number, total = 0, 0.0
    while True:
        picked = sentences[draw.integers(0, len(sentences), 2**18)].tolist()
        place = 0
        while place < len(picked):
            length = int(2 * math.exp(draw.random() * math.log(100)))
            text = f"{number} {' '.join(picked[place : place + length])}"
            yield store.Document(str(number), text)
            number, place, total = number + 1, place + length, total + len(text)
            if total >= size:
                return


def _sentences(count: int, draw: np.random.Generator) -> Iterator[str]:
    """Sentences of 5 to 20 words out of 50,000 with Zipf's frequencies."""
    words = _words(50_000, draw)
    for length in draw.integers(5, 21, count).tolist():
        # u uniform in [0, 1): the rank V^u has a probability of about 1 / (rank ln V).
        ranks = (len(words) ** draw.random(length)).astype(np.int64)
        yield " ".join(words[rank - 1] for rank in ranks).capitalize() + "."


def _words(count: int, draw: np.random.Generator) -> list[str]:
    """Different words of one to five syllables, the frequent ones short and first."""
    syllables = [c + v for c in "bdfghklmnprstvw" for v in ("a", "e", "i", "o", "u", "an", "er")]
    found: dict[str, None] = {}
    while len(found) < count:
        length = 1 + min(4, len(found).bit_length() // 4)
        found["".join(syllables[i] for i in draw.integers(0, len(syllables), length))] = None
    return list(found)


def _run_file(folder: Path, steps: int) -> Path:
    rates = {"peak_learning_rate": 1e-3, "initial_learning_rate": 0.0, "final_learning_rate": 1e-4}
    training = {"rows": ROWS, "length": LENGTH, "steps": steps, "warmup_steps": 1, **rates}
    run = {
        "scenario": "memory",
        "model_name": "small",
        "method_name": "mix",
        "seed": 0,
        "domains": ["text"],
        "tokenizer": "text",
        "model": SETTINGS,
        "rule": "mix",
        "method": {},
        "training": {**training, "checkpoint_every": steps, "resume_every": steps},
    }
    folder.mkdir()
    atomic_files.write_json(folder / "run.json", run)
    return folder / "run.json"


def _watched(*arguments: str) -> dict[str, Any]:
    """Runs a command of ours; its seconds, CPU-seconds and peaks of memory in megabytes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    began, peaks = time.perf_counter(), dict.fromkeys(KINDS, 0.0)
    looks: list[float] = []
    child = subprocess.Popen(
        [sys.executable, "-m", "pipeline", *arguments],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    while True:
        reaped, status, used = os.wait4(child.pid, os.WNOHANG)
        if reaped:
            break
        held = memory(child.pid)
        peaks = {kind: max(peak, held[kind]) for kind, peak in peaks.items()}
        looks.append(held["pss"])
        time.sleep(EVERY)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert not child.returncode, arguments
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_megabytes": peaks,
        "median_pss_megabytes": statistics.median(looks),
    }


def memory(process: int) -> dict[str, float]:
    """Megabytes that a process and all that come from it hold, by kind."""
    sums = dict.fromkeys(KINDS, 0.0)
    for place in _family(process):
        try:
            lines = (place / "smaps_rollup").read_text(encoding="ascii").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended since.
        found = {line.split()[0]: int(line.split()[1]) for line in lines[1:]}
        for kind, label in KINDS.items():
            sums[kind] += found[label] * 1024 / 1e6
    return sums


def _family(process: int) -> Iterator[Path]:
    place = Path("/proc") / str(process)
    yield place
    for listed in place.glob("task/*/children"):
        try:
            children = listed.read_text(encoding="ascii").split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            if not _shares(place, Path("/proc") / child):
                yield from _family(int(child))


def _shares(parent: Path, child: Path) -> bool:
    """Whether a child has not begun its own program yet: until then it has its parent's memory.

    Python starts programs by vfork, and a look in between would count every page twice.
    """
    try:
        return (child / "cmdline").read_bytes() == (parent / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True  # Either has ended since.


if __name__ == "__main__":
    main()
