"""All that a rented NVIDIA card has to show, by one command; it writes one record.

    python -m benchmarks.gpu_check [--device cuda] [--target quick] [options of benchmarks.gpu]

In turn, whether or not those before held: the tests marked `device`; how near a step comes to the
card's peak (`benchmarks.gpu`); the first tables of the default experiment, through the profile
`gpu`; one of its runs twice more, which must leave the same bits. Results lie in build/gpu-check,
made anew. Record: that of `benchmarks.gpu`, with `check` beside its numbers (with `--device cpu`,
which tries the command, in build/gpu-check); `make docs` puts both into docs/performance.md. Exit
code 1 when something did not hold, 2 without a card.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import measure
from pipeline.runtime import atomic_files

FOLDER = Path("build/gpu-check")
RUN = FOLDER / "results/runs/symbols/nano/pike-middle/seed100"
Facts = dict[str, Any]


def main() -> None:
    """Checks, and records."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--target", default="quick", help="what the workflow makes")
    parser.add_argument("--out", type=Path, help="the record")
    chosen, further = parser.parse_known_args()
    if chosen.device == "cuda" and not torch.cuda.is_available():
        sys.stderr.write(
            f"gpu-check: torch {torch.__version__} sees no NVIDIA GPU: run it on a machine where "
            "nvidia-smi shows one, after `make setup TORCH=cuda`\n"
        )
        sys.exit(2)
    folder, steps = measure.ROOT / FOLDER, FOLDER / "steps.json"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    own = ["--device", chosen.device, "--out", steps, *further]
    parts: dict[str, Callable[[], Facts]] = {
        "tests": lambda: tests(chosen.device),
        "utilisation": lambda: {"holds": not ran("benchmarks.gpu", *own).returncode},
        "experiment": lambda: experiment(chosen.device, chosen.target),
        "same_bits": lambda: same_bits(chosen.device),
    }
    check = {}
    for name, part in parts.items():
        print(f"gpu-check: {name}", flush=True)
        began = time.monotonic()
        check[name] = {**part(), "seconds": time.monotonic() - began}
    path = measure.ROOT / steps
    measured = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    out = chosen.out or (measure.RESULTS if chosen.device == "cuda" else folder) / "gpu.json"
    out.write_text(json.dumps({**measured, "check": check}, indent=2) + "\n", "utf-8")
    wrong = [name for name, facts in check.items() if not facts["holds"]]
    print(f"gpu-check: {out}: " + (f"does not hold: {', '.join(wrong)}" if wrong else "ok"))
    sys.exit(bool(wrong))


def tests(device: str) -> Facts:
    """The tests marked `device`, of which some must run where there is a card."""
    done = ran("pytest", "-q", "-m", "device", "tests/training", stdout=subprocess.PIPE)
    print(done.stdout)
    last = done.stdout.rstrip().rpartition("\n")[2]
    count = {kind: int(n) for n, kind in re.findall(r"(\d+) (passed|failed|skipped)", last)}
    return {"holds": not done.returncode and ("passed" in count or device == "cpu"), **count}


def experiment(device: str, target: str) -> Facts:
    """The default experiment through the profile; on a CPU, with its device alone replaced."""
    own = [f"{rule}:device=cpu" for rule in ("pretrain", "evaluate", "probe")]
    words = ["--profile", "workflow/profiles/gpu", "--config", f"results={FOLDER / 'results'}"]
    words += ["--set-resources", *own] if device == "cpu" else []
    return {"holds": not ran("snakemake", *words, "--", target).returncode}


def same_bits(device: str) -> Facts:
    """A run of the experiment's, twice, where nothing is left to chance."""
    if not (measure.ROOT / RUN / "run.json").exists():
        return {"holds": False}
    values, result = atomic_files.read_json(measure.ROOT / RUN / "run.json"), []
    values["training"]["deterministic"] = True
    corpora = FOLDER / "results/corpora" / values["tokenizer"]
    for name in ("one", "two"):
        run = measure.ROOT / FOLDER / name / "run.json"
        atomic_files.write_json(run, values)
        if ran("pipeline", "pretrain", run, "--corpora", corpora, "--device", device).returncode:
            return {"holds": False}
        result.append(atomic_files.read_json(run.parent / atomic_files.MANIFEST)["weights_sha256"])
    return {"holds": result[0] == result[1], "weights_sha256": result}


def ran(*command: object, **how: Any) -> subprocess.CompletedProcess[str]:
    """Runs a module of this environment to its end."""
    words = [sys.executable, "-m", *map(str, command)]
    return subprocess.run(words, cwd=measure.ROOT, text=True, check=False, **how)


if __name__ == "__main__":
    main()
