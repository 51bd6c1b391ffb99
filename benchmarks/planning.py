"""How long a dry run takes to plan many runs, beside a workflow that holds almost nothing.

    python -m benchmarks.planning [--runs 1000] [--rounds 3]

Both plan about the same number of jobs, in turn. Record: benchmarks/results/planning.json.
"""

import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import yaml

from benchmarks import measure, records
from pipeline.planning import planner

EMPTY = """
rule all:
    input: expand("out/{{i}}", i=range({jobs}))
rule one:
    output: "out/{{i}}"
    shell: "touch {{output}}"
"""


def main() -> None:
    chosen = measure.arguments(__doc__, "planning", runs=1000, rounds=3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = planner.read_expanded_config(records.ROOT / "config.yaml")
        first = config["runs"][0]
        first["seeds"] = list(range(max(1, chosen.runs // len(first["methods"]))))
        # The other tables and figures are of runs that are not planned here.
        config |= {"runs": [first], "tables": {"perplexity": {}}, "figures": {"losses": {}}}
        del config["quick"]
        (folder / "many.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        snakefile = str(records.ROOT / "workflow/Snakefile")
        ours = ["--snakefile", snakefile, "--configfile", "many.yaml"]
        jobs = planned(folder, ours)
        (folder / "Empty").write_text(EMPTY.format(jobs=jobs), encoding="utf-8")
        ways = {"ours": ours, "almost empty": ["--snakefile", "Empty"]}
        steps = {way: partial(planned, folder, given) for way, given in ways.items()}
        seconds = measure.seconds_of(steps, chosen.rounds, "clock", warm=0)
    medians = {way: 1000 * median / jobs for way, median in measure.medians(seconds).items()}
    print(measure.table("seconds per 1,000 jobs", {w: {"median": m} for w, m in medians.items()}))
    result = {"runs": chosen.runs, "jobs": jobs, "seconds": seconds}
    measure.record(chosen, {**result, "median_seconds_per_thousand_jobs": medians})


def planned(folder: Path, arguments: list[str]) -> int:
    """Plans a workflow; the number of its jobs."""
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "rules", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    total = re.search(r"^total\s+(\d+)$", done.stdout + done.stderr, re.MULTILINE)
    assert total is not None, done.stdout + done.stderr
    return int(total[1])


if __name__ == "__main__":
    main()
