"""One experiment in two places: whether both made the same.

    python tests/workflow/places.py results elsewhere/results

Compares the weights of all runs and every table of the database, but for what the clock says, and
prints what differs. It is how a run through Slurm is held against one on the machine alone.
"""

import json
import sys
from pathlib import Path

import duckdb

from pipeline.runtime import atomic_files

CLOCK = {"seconds", "share", "wall_seconds", "tokens_per_second", "resumes"} | {
    "model_flops_utilisation",
    "memory_bytes",
}
"""Columns that no two runs share."""
SUMS = {"sha256", "facts", "recorded_sha256", "current_sha256"}
"""Columns of files and manifests that hold such."""


def contents(database):
    """All rows of every table of a database, by table, without what the clock says."""
    found = {}
    listed = "select table_name, list(column_name) from duckdb_columns() where not internal "
    with duckdb.connect(str(database), read_only=True) as opened:
        tables = {n for (n,) in opened.sql("select table_name from duckdb_tables()").fetchall()}
        for name, columns in opened.sql(f"{listed} group by 1").fetchall():
            kept = ", ".join(f'"{c}"' for c in sorted(set(columns) - CLOCK - SUMS))
            if name in tables and kept:
                rows = opened.sql(f'select {kept} from "{name}" order by all').fetchall()
                # As text: no two numbers are alike that are none.
                found[name] = [str(row) for row in rows]
    return found


def weights(results):
    """SHA-256 of each run's final weights, that of the file itself, by run."""
    found = {}
    for path in sorted(results.glob("runs/*/*/*/seed*/manifest.json")):
        manifest = atomic_files.read_json(path)
        model = path.parent / "checkpoints" / f"step{manifest['steps']}" / "model.safetensors"
        found[manifest["run"]] = atomic_files.sha256(model)
        assert found[manifest["run"]] == manifest["weights_sha256"], model
    return found


def compared(first, second):
    """What two results folders have in common, and where they differ."""
    runs = [weights(place) for place in (first, second)]
    tables = [contents(place / "pike.duckdb") for place in (first, second)]

    def differing(a, b):
        return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))

    return {
        "runs": len(runs[0].keys() | runs[1].keys()),
        "runs_that_differ": differing(*runs),
        "tables": len(tables[0].keys() | tables[1].keys()),
        "rows": sum(map(len, tables[0].values())),
        "tables_that_differ": differing(*tables),
    }


if __name__ == "__main__":
    found = compared(*map(Path, sys.argv[1:3]))
    print(json.dumps(found, indent=2))
    sys.exit(bool(found["runs_that_differ"] or found["tables_that_differ"]))
