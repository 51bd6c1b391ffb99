"""One experiment in two places: whether both made the same.

    python -m benchmarks.places results elsewhere/results [--record]

Compares the weights of all runs and every table of the database, but for what the clock says, and
prints what differs. It is how a run through Slurm is held against one on the machine alone; with
--record what was seen goes into benchmarks/results/places.json.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import machine
from pipeline.runtime import atomic_files

ROOT = Path(__file__).resolve().parents[1]
CLOCK = {"seconds", "share", "wall_seconds", "tokens_per_second", "resumes"} | {
    "model_flops_utilisation",
    "memory_bytes",
}
"""Columns that no two runs share."""
SUMS = {"sha256", "facts", "recorded_sha256", "current_sha256"}
"""Columns of files and manifests that hold such."""


def contents(database: Path, runs: Collection[str] | None = None) -> dict[str, list[str]]:
    """All rows of every table of a database, by table, without what the clock says.

    Args:
        database: The database.
        runs: Only rows of these, of tables that have rows of runs.
    """
    found = {}
    listed = "select table_name, list(column_name) from duckdb_columns() where not internal "
    with duckdb.connect(str(database), read_only=True) as opened:
        tables = {n for (n,) in opened.sql("select table_name from duckdb_tables()").fetchall()}
        for name, columns in opened.sql(f"{listed} group by 1").fetchall():
            kept = ", ".join(f'"{c}"' for c in sorted(set(columns) - CLOCK - SUMS))
            if name not in tables or not kept or (runs is not None and "run" not in columns):
                continue
            some = "true" if runs is None else "list_contains(?, run)"
            query = f'select {kept} from "{name}" where {some} order by all'
            rows = opened.execute(query, [] if runs is None else [list(runs)]).fetchall()
            # As text: no two numbers are alike that are none.
            found[name] = [str(row) for row in rows]
    return found


def weights(results: Path) -> dict[str, str]:
    """SHA-256 of each run's final weights, that of the file itself, by run."""
    found = {}
    for path in sorted(results.glob("runs/*/*/*/seed*/manifest.json")):
        manifest = atomic_files.read_json(path)
        model = path.parent / "checkpoints" / f"step{manifest['steps']}" / "model.safetensors"
        found[manifest["run"]] = atomic_files.sha256(model)
    return found


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Names that only one has, or under which they have different things."""
    return sorted(n for n in first.keys() | second.keys() if first.get(n) != second.get(n))


def compared(first: Path, second: Path) -> dict[str, Any]:
    """What two results folders have in common, and where they differ."""
    of_first, of_second = weights(first), weights(second)
    tables = [contents(place / "pike.duckdb") for place in (first, second)]
    return {
        "runs": len(of_first.keys() | of_second.keys()),
        "runs_that_differ": differing(of_first, of_second),
        "tables": len(tables[0].keys() | tables[1].keys()),
        "rows": sum(map(len, tables[0].values())),
        "tables_that_differ": differing(*tables),
    }


def main() -> int:
    """Compares, prints, and says whether both are the same."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--record", action="store_true")
    chosen, load_before = parser.parse_args(), os.getloadavg()[0]
    found = compared(chosen.first, chosen.second)
    text = json.dumps(found, indent=2)
    if chosen.record:
        noted = {"machine": machine.described(load_before), "date": time.strftime("%Y-%m-%d")}
        path = ROOT / "benchmarks" / "results" / "places.json"
        path.write_text(json.dumps(found | noted, indent=2) + "\n", encoding="utf-8")
    print(text)
    return int(bool(found["runs_that_differ"] or found["tables_that_differ"]))


if __name__ == "__main__":
    sys.exit(main())
