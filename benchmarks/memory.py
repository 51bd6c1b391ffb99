"""How much memory packing and training take, as a corpus grows.

    python -m benchmarks.memory [--gigabytes 0.1 1 10] [--workers 2] [--steps 20]

`pike pack` and `pike pretrain` run for each size, and the memory of each process and its children
is read from /proc/PID/smaps_rollup several times a second. Peaks of three sums are recorded in
benchmarks/results/memory.json:

    rss         resident pages, those that processes share counted in each of them; the bar's
    pss         resident pages, each divided among the processes of the machine that map it
    anonymous   what the processes themselves have made, without pages of files

The largest size takes 1.6 times its bytes of disk for a while.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import corpora, measure, records
from pipeline.runtime import atomic_files

MODEL: dict[str, Any] = {"layers": 4, "width": 128, "heads": 4, "head_width": 32}
BATCH = {"rows": 4, "length": 256}
KINDS = {"rss": "Rss:", "pss": "Pss:", "anonymous": "Anonymous:"}
EVERY = 0.2
"""Seconds between two looks at the memory."""
STATES = 4
"""Numbers kept of each weight: itself, its gradient and two moments."""


def main() -> None:
    chosen = measure.arguments(
        __doc__, "memory", gigabytes=[0.1, 1.0, 10.0], workers=2, steps=20, folder=Path()
    )
    sizes: dict[str, Any] = {}
    for gigabytes in chosen.gigabytes:
        with tempfile.TemporaryDirectory(dir=chosen.folder.resolve()) as name:
            result = measured(Path(name), gigabytes, chosen.workers, chosen.steps)
        sizes[f"{gigabytes:g} GB"] = result
        peaks = {stage: result[stage]["peak_megabytes"] for stage in ("pack", "train")}
        print(measure.table(f"{gigabytes:g} GB, MB", peaks), flush=True)
        # After each size, since a later one may not come to its end.
        model = {**MODEL, **BATCH, "vocabulary": corpora.TOKENIZER["vocabulary"]}
        measure.record(chosen, {"sizes": sizes, "workers": chosen.workers, "model": model})


def measured(folder: Path, gigabytes: float, workers: int, steps: int) -> dict[str, Any]:
    source = corpora.documents(folder, "text", gigabytes * 1e9)
    model, corpus = corpora.trained_tokenizer(folder, [source]), folder / "corpora" / "text"
    named = ("--documents", source, "--tokenizer", model, "--out", corpus, "--workers", workers)
    packing = watched("pack", folder / "packing.json", *named)
    # Only the text's manifest is looked at from here on, and disks are not endless.
    for path in source.glob("*.parquet"):
        path.unlink()
    often = {"steps": steps, "warmup_steps": 1, "checkpoint_every": steps, "resume_every": steps}
    run = corpora.run_file(folder / "run", ["text"], MODEL, **BATCH, **often)
    training = watched("pretrain", run, "--corpora", corpus.parent, "--device", "cpu")
    splits = atomic_files.read_json(corpus / atomic_files.MANIFEST)["splits"].values()
    weights = atomic_files.read_json(run.parent / atomic_files.MANIFEST)["parameters"]
    return {
        **{name: sum(split[name] for split in splits) for name in ("bytes", "tokens")},
        "pack": packing,
        "train": training,
        "model_megabytes": STATES * 4 * weights / 1e6,
        "steps": steps,
    }


def watched(*arguments: object) -> dict[str, Any]:
    """Runs a command of ours; its seconds and its peaks of memory in megabytes."""
    began, peaks = time.perf_counter(), dict.fromkeys(KINDS, 0.0)
    command = [sys.executable, "-m", "pipeline", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    used = measure.children_seconds()
    how = {"env": environment, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=records.ROOT, **how) as child:
        while child.poll() is None:
            held = memory(child.pid)
            peaks = {kind: max(peak, held[kind]) for kind, peak in peaks.items()}
            time.sleep(EVERY)
    assert not child.returncode, command
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": measure.children_seconds() - used,
        "peak_megabytes": peaks,
    }


def memory(process: int) -> dict[str, float]:
    """Megabytes that a process and all that come from it hold, by kind."""
    sums = dict.fromkeys(KINDS, 0.0)
    for place in family(Path("/proc") / str(process)):
        lines = _read(place / "smaps_rollup").splitlines()[1:]
        result = {line.split()[0]: int(line.split()[1]) for line in lines}
        for kind, label in KINDS.items():
            sums[kind] += result.get(label, 0) * 1024 / 1e6
    return sums


def family(place: Path) -> Iterator[Path]:
    """A process and all that come from it.

    A child that has not begun its own program yet shares its parent's memory, whose pages would
    count twice: it is left out.
    """
    yield place
    for listed in place.glob("task/*/children"):
        for number in _read(listed).split():
            child = Path("/proc") / number
            if _read(child / "cmdline") not in ("", _read(place / "cmdline")):
                yield from family(child)


def _read(path: Path) -> str:
    """A file of a process, empty when that has ended since."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return ""


if __name__ == "__main__":
    main()
