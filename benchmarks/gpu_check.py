"""All that a rented NVIDIA card has to show, by one command; it writes one record.

    python -m benchmarks.gpu_check [--device cuda] [--target quick] [--parts tests ...]
                                   [options of benchmarks.gpu_utilisation]

In turn, whether or not those before held: the tests marked `device`, of which some hold runs to
the same bits; how near a step comes to the card's peak (`benchmarks.gpu_utilisation`); the first
tables of the default experiment, as `make run` makes them, in build/gpu-check. Record: that of
`benchmarks.gpu_utilisation`, with `check` beside its numbers (with `--device cpu`, which tries the
command, in build/gpu-check);
`make docs` puts both into docs/performance.md. It is written after each part. With `--parts`, for
a card that is lent for minutes, other parts stay in it. Exit code 1 when something did not hold, 2
without a card.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import records
from pipeline.runtime import atomic_files

FOLDER = Path("build/gpu-check")
STEPS = FOLDER / "steps.json"
Facts = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--target", nargs="+", default=["quick"], help="what the workflow makes")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="all when absent")
    parser.add_argument("--out", type=Path, help="the record")
    chosen, further = parser.parse_known_args()
    if chosen.device == "cuda" and not torch.cuda.is_available():
        sys.stderr.write(
            f"gpu-check: torch {torch.__version__} sees no NVIDIA GPU: run it on a machine where "
            "nvidia-smi shows one, after `make setup TORCH=cuda`\n"
        )
        sys.exit(2)
    folder = records.ROOT / FOLDER
    out: Path = (
        chosen.out
        or (records.RESULTS if chosen.device == "cuda" else folder) / "gpu_utilisation.json"
    )
    if not chosen.parts:
        shutil.rmtree(folder, ignore_errors=True)
        out.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    wrong = []
    for name in chosen.parts or PARTS:
        print(f"gpu-check: {name}", flush=True)
        began = time.monotonic()
        facts = PARTS[name](chosen, further)
        check = {**facts, "seconds": time.monotonic() - began}
        record, steps = _read(out), _read(records.ROOT / STEPS)
        record |= {**steps, "check": {**record.get("check", {}), name: check}}
        atomic_files.write_json(out, record)
        wrong += [] if facts["holds"] else [name]
    print(f"gpu-check: {out}: " + (f"does not hold: {', '.join(wrong)}" if wrong else "ok"))
    sys.exit(bool(wrong))


def tests(chosen: argparse.Namespace, _: list[str]) -> Facts:
    """The tests marked `device`, of which some must run where there is a card."""
    done = ran("pytest", "-q", "-m", "device", "tests/training", stdout=subprocess.PIPE)
    print(done.stdout)
    last = done.stdout.rstrip().rpartition("\n")[2]
    count = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|skipped)", last)}
    some = "passed" in count or chosen.device == "cpu"
    return {"holds": not done.returncode and some, **count}


def utilisation(chosen: argparse.Namespace, further: list[str]) -> Facts:
    """What `benchmarks.gpu_utilisation` measures."""
    words = ["--device", chosen.device, "--out", STEPS, *further]
    return {"holds": not ran("benchmarks.gpu_utilisation", *words).returncode}


def experiment(chosen: argparse.Namespace, _: list[str]) -> Facts:
    """The default experiment as `make run` makes it: jobs share the card that `auto` finds."""
    results = FOLDER / "results"
    shutil.rmtree(records.ROOT / results, ignore_errors=True)
    words = ["--profile", "workflow/profiles/default", "--config", f"results={results}"]
    if chosen.device == "cpu":
        rules = ("pretrain", "evaluate", "probe")
        words += ["--set-resources", *(f"{rule}:device=cpu" for rule in rules)]
    failed = ran("snakemake", *words, "--", *chosen.target).returncode
    runs = (records.ROOT / results).glob(f"runs/*/*/*/*/{atomic_files.MANIFEST}")
    devices = [_read(run)["device"] for run in runs]
    holds = not failed and {name.partition(":")[0] for name in devices} == {chosen.device}
    return {"holds": holds, "target": chosen.target, "trainings": len(devices)}


PARTS: dict[str, Callable[[argparse.Namespace, list[str]], Facts]] = {
    part.__name__: part for part in (tests, utilisation, experiment)
}


def ran(*command: object, **how: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", *map(str, command)]
    return subprocess.run(words, cwd=records.ROOT, text=True, check=False, **how)


def _read(path: Path) -> Facts:
    return atomic_files.read_json(path) if path.exists() else {}


if __name__ == "__main__":
    main()
