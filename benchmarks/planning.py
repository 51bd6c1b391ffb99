"""How long a dry run takes to plan many runs, beside a workflow that holds almost nothing.

    python -m benchmarks.planning [--runs 1000] [--rounds 3]

Both plan about the same number of jobs, in turn; medians are printed and recorded in
benchmarks/results/planning.json.
"""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
EMPTY = """
rule all:
    input: expand("out/{{i}}", i=range({jobs}))
rule one:
    output: "out/{{i}}"
    shell: "touch {{output}}"
"""


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = _ours(Path(folder), chosen.runs)
        jobs, _ = _planned(ours)
        peer = _peer(Path(folder), jobs)
        seconds: dict[str, list[float]] = {"ours": [], "almost empty": []}
        for _ in range(chosen.rounds):
            seconds["ours"].append(_planned(ours)[1])
            seconds["almost empty"].append(_planned(peer)[1])
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    result = {
        "runs": chosen.runs,
        "jobs": jobs,
        "seconds": seconds,
        "median_seconds_per_thousand_jobs": {n: 1000 * m / jobs for n, m in medians.items()},
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "date": time.strftime("%Y-%m-%d"),
    }
    text = json.dumps(result, indent=2)
    (ROOT / "benchmarks" / "results").mkdir(exist_ok=True)
    (ROOT / "benchmarks" / "results" / "planning.json").write_text(text + "\n", encoding="utf-8")
    print(text)


def _ours(folder: Path, runs: int) -> list[str]:
    config = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    methods = len(config["runs"][0]["methods"])
    config["runs"] = [config["runs"][0] | {"seeds": list(range(runs // methods))}]
    config["results"] = "planned"
    path = folder / "many.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return [
        "--snakefile",
        str(ROOT / "Snakefile"),
        "--configfile",
        str(path),
        "--directory",
        str(folder),
    ]


def _peer(folder: Path, jobs: int) -> list[str]:
    path = folder / "Empty"
    path.write_text(EMPTY.format(jobs=jobs), encoding="utf-8")
    return ["--snakefile", str(path), "--directory", str(folder)]


def _planned(arguments: list[str]) -> tuple[int, float]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "rules", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    total = re.search(r"^total\s+(\d+)$", done.stdout + done.stderr, re.MULTILINE)
    assert total is not None, done.stdout + done.stderr
    return int(total[1]), seconds


if __name__ == "__main__":
    main()
