"""How long the database, tables and report of many runs take, and the database once a run is added.

    python -m benchmarks.growth [--results results/claims] [--runs 528] [--rounds 3]

Of a finished experiment (default: `workflow/configs/claims.yaml`) so many runs and one more are
drawn, with a fixed seed. Tests of the scenario and size of the one that is added are made again:
of the place with most runs, and of the middle one (with an oracle, those of all places). Databases,
tables, figures and report are commands of their own, by the clock. Record:
benchmarks/results/growth.json.
"""

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import measure
from pipeline.runtime import atomic_files

LESS = "one less of the"
"""What the name of a part begins with that lacks a run."""


def main() -> None:
    results = {"default": Path("results/claims"), "type": Path}
    chosen = measure.arguments(__doc__, "growth", results=results, runs=528, rounds=3)
    experiment: dict[str, Any] = atomic_files.read_json(
        chosen.results / "settings" / "experiment.json"
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        whole = _drawn(experiment["runs"], chosen.runs + 1)
        places = [place for place, _ in Counter(map(_place, whole)).most_common()]
        parts = {"whole": whole, "quarter": _drawn(whole, len(whole) // 4)}
        for name, place in (("largest", places[0]), ("middle", places[len(places) // 2])):
            added = next(run for run in reversed(whole) if _place(run) == place)
            parts[f"{LESS} {name}"] = [run for run in whole if run != added]
        files = {part: folder / part / "experiment.json" for part in parts}
        for part, runs in parts.items():
            own = experiment | {"runs": {run: experiment["runs"][run] for run in runs}}
            atomic_files.write_json(files[part], own)
        seconds: dict[str, list[float]] = {}
        for number in range(chosen.rounds):
            out = folder / str(number)
            for part, file in files.items():
                seconds.setdefault(part, []).append(_run("database", file, out / f"{part}.duckdb"))
                if part.startswith(LESS):
                    grown = _run("database", files["whole"], out / f"{part}.duckdb")
                    seconds.setdefault(f"{part} and that added", []).append(grown)
                else:
                    took = _outputs(chosen.results, out, part, file)
                    seconds.setdefault(f"tables and report of {part}", []).append(took)
    medians = measure.medians(seconds)
    medians["whole in quarters"] = _both(medians, "whole") / _both(medians, "quarter")
    print(measure.table("seconds", {name: {"median": m} for name, m in medians.items()}))
    measure.record(chosen, {"runs": chosen.runs, "median": medians, "seconds": seconds})


def _both(medians: dict[str, float], part: str) -> float:
    return medians[part] + medians[f"tables and report of {part}"]


def _drawn(runs: Any, number: int) -> list[str]:
    """So many of the runs, in their order."""
    names = [*runs]
    return [names[i] for i in sorted(random.Random(0).sample(range(len(names)), number))]


def _place(run: str) -> str:
    return run.rpartition("/")[0].rpartition("/")[0]


def _outputs(results: Path, out: Path, part: str, settings: Path) -> float:
    reads, own, seconds = ("--database", out / f"{part}.duckdb"), out / part, 0.0
    for kind, suffix in (("table", "md"), ("figure", "svg")):
        for asked in sorted((results / "settings" / f"{kind}s").glob("*.json")):
            seconds += _run(kind, asked, own / f"{kind}s" / f"{asked.stem}.{suffix}", *reads)
    folders = ("--tables", own / "tables", "--figures", own / "figures")
    return seconds + _run("report", settings, own / "report" / "index.html", *reads, *folders)


def _run(command: str, settings: Path, out: Path, *words: str | Path) -> float:
    own = [sys.executable, "-m", "pipeline", command, settings, "--out", out, *words]
    start = time.perf_counter()
    subprocess.run(own, check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
