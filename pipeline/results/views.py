"""The SQL files: base tables, what views share, and one file per view, named as its file."""

import functools
import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

SQL = Path(__file__).parent / "sql"
SCHEMA = ("schema", "verdict_rules")
"""Files that are no view."""

EMPTY = "Empty: no selected run has what it shows."
"""What a table or figure without a cell says."""

DERIVED = {
    "accuracy_tests": ("accuracies", "choices"),
    "boards": ("scenario_differences",),
    "claim_tests": ("deciding_cells",),
    "loss_tests": ("documents",),
    "pairs": ("printed_pairs", "measured_pairs"),
    "speedups": ("accuracies", "choices", "documents"),
}
"""Tables that are made when the database is built, and what they stand on."""

READ_TO_FILL = {
    "accuracy_tests": ("claimed_pairs", "headline_accuracies", "mean_tasks"),
    "boards": ("scenario_differences",),
    **dict.fromkeys(
        ("claim_tests", "pairs"), ("deciding_cells", "measured_pairs", "printed_pairs")
    ),
    "loss_tests": ("claimed_pairs",),
    "speedups": ("mean_tasks",),
}
"""The views that are read when a derived table is made."""
READ_BY_ALL = ("curve_runs", "doubtful_runs")
"""The views that a table or figure reads beside its own."""


def schema_sql() -> str:
    """SQL that creates the base tables and the macros."""
    return "\n".join((SQL / f"{name}.sql").read_text(encoding="utf-8") for name in SCHEMA)


def create_views(connection: "duckdb.DuckDBPyConnection", *wanted: str) -> set[str]:
    """Creates the views, or those wanted and what they stand on, over the base tables.

    While a view is created, empty tables stand for the views that it reads from: views within
    views are expanded at every use, and creating all of them took three times as long.

    Returns:
        The derived tables that the views read.
    """
    names = order_views(*wanted)
    read = {name: tables_read(view_sql_by_name()[name]) for name in names}
    within = set().union(*read.values())
    for name in names:
        if name in within:
            connection.execute(f"create table {name} as {view_sql_by_name()[name]} with no data")
    for name in reversed(names):
        drop = f"drop table {name}; " if name in within else ""
        connection.execute(f"{drop}create view {name} as {view_sql_by_name()[name]}")
    return within & DERIVED.keys()


@functools.cache
def view_sql_by_name() -> dict[str, str]:
    """SQL of every view by name; folders only put files together."""
    paths = sorted(SQL.rglob("*.sql"))
    result = {path.stem: path.read_text(encoding="utf-8") for path in paths}
    assert len(result) == len(paths), "two views have one name"
    return {name: text for name, text in result.items() if name not in SCHEMA}


def order_views(*wanted: str) -> list[str]:
    """Names of all views, or of those wanted and what they stand on, each after what it reads."""
    known = view_sql_by_name()
    uses: dict[str, list[str]] = {}
    waiting = list(wanted or known)
    while waiting:
        name = waiting.pop()
        if name not in uses:
            read = tables_read(known[name])
            uses[name] = sorted(read & known.keys())
            waiting += uses[name]
            # Not before this view: it is there when the table is filled.
            waiting += (view for table in read for view in READ_TO_FILL.get(table, ()))
    # In one order, whatever was wanted first.
    return list(TopologicalSorter(dict(sorted(uses.items()))).static_order())


def view_of(output: str) -> str:
    """The view of a table or figure: `table_perplexity`, or `table1` for `table_table1`."""
    return output if output in view_sql_by_name() else output.partition("_")[2]


def caption(view: str) -> str:
    """The first paragraph of the comment that opens the view's file: what the view shows."""
    paragraph = re.match(r"(?:--[^\S\n]*\S[^\n]*\n)+", view_sql_by_name()[view])
    assert paragraph is not None, f"{view}.sql does not open with a comment"
    return " ".join(line.lstrip("- ") for line in paragraph[0].splitlines())


def tables_read(sql: str) -> set[str]:
    """Names of the tables, views and common table expressions that a query reads from."""
    code = re.sub(r"--[^\n]*", "", sql)
    return set(re.findall(r"\b(?:from|join)\s+(\w+)", code))


def base_tables(view: str) -> set[str]:
    """The base tables that a view stands on, through any number of views and derived tables."""
    known, created = view_sql_by_name(), set(re.findall(r"create table (\w+)", schema_sql()))
    result, waiting = set(), [view]
    while waiting:
        name = waiting.pop()
        if name not in result:
            result.add(name)
            waiting.extend(tables_read(known[name]) if name in known else DERIVED.get(name, ()))
    return result & created
