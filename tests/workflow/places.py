"""What one experiment must make in two places: all rows but what the clock says."""

import duckdb

CLOCK = {"seconds", "share", "wall_seconds", "tokens_per_second", "resumes"} | {
    "model_flops_utilisation",
    "memory_bytes",
}
"""Columns that no two runs share."""
SUMS = {"sha256", "facts", "recorded_sha256", "current_sha256"}
"""Columns of files and manifests that hold such."""


def contents(database):
    """All rows of every table of a database, by table, without what the clock says."""
    kept = f"columns(lambda name: name not in {[*CLOCK, *SUMS]})"
    found = {}
    with duckdb.connect(str(database), read_only=True) as opened:
        for (name,) in opened.sql("select table_name from duckdb_tables()").fetchall():
            rows = opened.sql(f'select {kept} from "{name}" order by all').fetchall()
            # As text: no two numbers are alike that are none.
            found[name] = [str(row) for row in rows]
    return found
