"""A run killed again and again, at random moments and while it writes checkpoints.

    python -m benchmarks.interruption [--kills 20] [--seed 0]

Trains a small run of PiKE once without a break and once under SIGKILL; every other kill strikes
while a checkpoint lies half written. Both must end with the same bits. What was seen is printed and
recorded in benchmarks/results/interruption.json.
"""

import argparse
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import machine
from pipeline.data import packing, sources, tokenizer
from pipeline.runtime import atomic_files

ROOT = Path(__file__).resolve().parents[1]
LAUNCHER = """
import os, sys
from pipeline.training import train as pretrain
from pipeline.__main__ import main
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if not child:
        os._exit(main(sys.argv[1:]))
    sys.stdin.readline()
    os.kill(child, 9)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Starts the command at a line and kills it at the next, again and again, with all imported."""

LANGUAGES = {
    name: {"kind": "synthetic", "symbols": 12, "documents": 200, "length": 200, "order": 1}
    | {"successors": successors, "noise": 0.1, "alphabet": alphabet, "seed": 1}
    for name, successors, alphabet in (("easy", 2, 0x4E00), ("hard", 6, 0x5000))
}
TOKENIZER = {"model": "char", "vocabulary": 64, "characters": 4000, "validation_share": 0.2}
RUN: dict[str, Any] = {
    "scenario": "languages",
    "model_name": "small",
    "method_name": "pike",
    "seed": 0,
    "domains": list(LANGUAGES),
    "tokenizer": "symbols",
    "model": {"layers": 4, "width": 128, "heads": 4, "head_width": 32},
    "rule": "pike",
    "method": {"zeta1": 0.5, "zeta2": 0.1, "every": 10, "first": 0, "rows": 4},
}


@dataclasses.dataclass(frozen=True)
class Kill:
    """How one process ended."""

    code: int
    """-9 where it was killed."""
    writing: bool
    """Whether a checkpoint lay half written then."""


def corpora(folder: Path) -> Path:
    """Two small synthetic languages, packed; the folder of their corpora."""
    for name, values in LANGUAGES.items():
        atomic_files.write_json(folder / f"{name}.json", values)
        sources.download(folder / f"{name}.json", folder / name)
    atomic_files.write_json(folder / "tokenizer.json", {"kind": "train", **TOKENIZER})
    model = folder / "symbols.model"
    tokenizer.build(folder / "tokenizer.json", [folder / name for name in LANGUAGES], model)
    atomic_files.write_json(folder / "packing.json", {"validation_share": 0.2})
    for name in LANGUAGES:
        packing.pack(folder / "packing.json", folder / name, model, folder / "corpora" / name)
    return folder / "corpora"


def run_file(folder: Path, steps: int) -> Path:
    """`run.json` of a run that writes a checkpoint at every second step."""
    rates = {"peak_learning_rate": 0.01, "initial_learning_rate": 0.0, "final_learning_rate": 0.001}
    training = {"rows": 8, "length": 32, "steps": steps, "warmup_steps": 10, **rates}
    often = {"checkpoint_every": 25, "resume_every": 2, "resume_keep": 2}
    atomic_files.write_json(folder / "run.json", {**RUN, "training": {**training, **often}})
    return folder / "run.json"


def command(run: Path, corpora: Path) -> list[str]:
    """Arguments of the training, behind `python -m pipeline`."""
    return [*("pretrain", str(run), "--corpora", str(corpora), "--device", "cpu", "--threads", "1")]


def environment() -> dict[str, str]:
    """That of the processes: one thread each."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def train(run: Path, corpora: Path) -> str:
    """Trains to the end; SHA-256 of the last weights."""
    subprocess.run(
        [sys.executable, "-m", "pipeline", *command(run, corpora)],
        env=environment(),
        cwd=ROOT,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return atomic_files.read_json(run.parent / atomic_files.MANIFEST)["weights_sha256"]


def kill(run: Path, corpora: Path, kills: int, seed: int) -> list[Kill]:
    """Starts the training and kills it, so many times or until it ends by itself.

    Every other kill waits for some steps and then for a checkpoint in the making; all others strike
    at a random moment, from before the first look at the folder to some dozen steps later.
    """
    draw, seen = random.Random(seed), []
    arguments = [sys.executable, "-c", LAUNCHER, *command(run, corpora)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        arguments, env=environment(), cwd=ROOT, stderr=subprocess.DEVNULL, **pipes
    ) as launcher:
        assert launcher.stdin is not None
        assert launcher.stdout is not None
        launcher.stdout.readline()
        while len(seen) < kills and not (run.parent / atomic_files.MANIFEST).exists():
            launcher.stdin.write("\n")
            launcher.stdin.flush()
            before = set(_partials(run.parent))
            if not len(seen) % 2:
                _await_partial(run.parent, before, draw.randint(2, 10))
                time.sleep(draw.uniform(0, 0.01))
            else:
                time.sleep(draw.uniform(0.0, 1.2))
            launcher.stdin.write("\n")
            launcher.stdin.flush()
            code = int(launcher.stdout.readline())
            seen.append(Kill(code, bool(set(_partials(run.parent)) - before)))
    return seen


def _partials(folder: Path) -> list[Path]:
    return list(folder.glob("checkpoints/.*.part"))


def _await_partial(folder: Path, before: set[Path], further: int) -> None:
    """Waits until the run is some steps further, and then for a checkpoint in the making.

    A process killed before may have left one: that of the new process has another name.
    """
    goal = max(atomic_files.steps(folder / "checkpoints"), default=0) + further
    until = time.monotonic() + 120
    while time.monotonic() < until and not (folder / atomic_files.MANIFEST).exists():
        reached = max(atomic_files.steps(folder / "checkpoints"), default=0) >= goal
        if reached and set(_partials(folder)) - before:
            return
        time.sleep(0.0005)


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    chosen, load_before = parser.parse_args(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packed, steps = corpora(folder), 12 * chosen.kills
        expected = train(run_file(folder / "unbroken", steps), packed)
        run = run_file(folder / "broken", steps)
        seen = kill(run, packed, chosen.kills, chosen.seed)
        found = train(run, packed)
        resumes = atomic_files.read_json(run.parent / atomic_files.MANIFEST)["resumes"]
    killed = [one for one in seen if one.code == -signal.SIGKILL]
    result = {
        "seed": chosen.seed,
        "kills": len(killed),
        "while_a_checkpoint_was_written": sum(one.writing for one in killed),
        "resumes": resumes,
        "weights_sha256": {"unbroken": expected, "broken": found},
        "same_bits": found == expected,
        "machine": machine.described(load_before),
        "date": time.strftime("%Y-%m-%d"),
    }
    text = json.dumps(result, indent=2)
    (ROOT / "benchmarks" / "results" / "interruption.json").write_text(
        text + "\n", encoding="utf-8"
    )
    print(text)


if __name__ == "__main__":
    main()
