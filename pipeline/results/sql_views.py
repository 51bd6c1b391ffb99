"""The SQL files: base tables, what views share, and one file per view, named as its file."""

import contextlib
import functools
import logging
import os
import re
import textwrap
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

from pike_mixing.errors import InputError

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger("pike")

SQL = Path(__file__).parent / "sql"
SCHEMA = ("schema", "verdict_rules")
"""Files that are no view."""

OUTPUTS = {"table": ".md", "figure": ".svg"}
"""Kinds of what is made of views, each with the suffix of the file that stands for one."""

EMPTY = "Empty: no selected run has what it shows."
"""What a table or figure without a cell says."""

FILLED_FROM = {
    "accuracy_tests": (
        "accuracies", "choices", "claimed_pairs", "headline_accuracies", "mean_tasks",
    ),
    "boards": ("scenario_differences",),
    "claim_tests": ("deciding_cells",),
    "loss_tests": ("claimed_pairs", "documents"),
    # One step fills claim_tests, too.
    "pairs": ("deciding_cells", "measured_pairs", "printed_pairs"),
    "speedups": ("accuracies", "choices", "documents", "mean_tasks"),
}  # fmt: skip
"""Tables that are made when the database is built, and the tables and views read for it."""
READ_BY_ALL = ("curve_runs", "doubtful_runs")
"""The views that a table or figure reads beside its own."""


def create_schema(connection: "duckdb.DuckDBPyConnection") -> None:
    """Creates the base tables and the macros."""
    for name in SCHEMA:
        with explain_failure(name):
            connection.execute(_read_text(SQL / f"{name}.sql"))


@contextlib.contextmanager
def explain_failure(*names: str) -> Iterator[None]:
    """Names the SQL files, by views or `SCHEMA`, whose queries DuckDB cannot run.

    Whoever wants another table edits them: a mistake there is the user's.
    """
    # The workflow reads captions here, and never asks a database.
    import duckdb

    try:
        yield
    # Others are of the disk or the memory.
    except (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError) as error:
        files = " ".join(map(sql_file_of_view, names))
        text = textwrap.indent(str(error).strip(), "  ")
        raise InputError(
            f"{files}: DuckDB cannot run the query:\n{text}\nCorrect it; `git diff {files}` shows "
            "what was changed"
        ) from None


def create_views(connection: "duckdb.DuckDBPyConnection", *wanted: str) -> None:
    """Creates the views, or those wanted and what they stand on, over the base tables.

    While a view is created, empty tables stand for the views that it reads from: views within
    views are expanded at every use, and creating all of them took three times as long.
    """
    names, within = views_in_order(*wanted), relations_read_by_views(*wanted)
    for name in names:
        if name in within:
            with explain_failure(name):
                query = view_sql_by_name()[name]
                connection.execute(f"create table {name} as {query} with no data")
    for name in reversed(names):
        drop = f"drop table {name}; " if name in within else ""
        with explain_failure(name):
            connection.execute(f"{drop}create view {name} as {view_sql_by_name()[name]}")


def relations_read_by_views(*wanted: str) -> set[str]:
    """Names of all tables and views that the views read, or those wanted through other views."""
    return set().union(
        *(relations_read_by_query(view_sql_by_name()[name]) for name in views_in_order(*wanted))
    )


@functools.cache
def view_sql_by_name() -> dict[str, str]:
    """SQL of every view by name; folders only put files together."""
    result: dict[str, Path] = {}
    for path in sorted(SQL.rglob("*.sql")):
        if other := result.get(path.stem):
            places = " and ".join(map(os.path.relpath, (other, path)))
            raise InputError(f"{places} would be one view, {path.stem}: rename one of them")
        result[path.stem] = path
    return {name: _read_text(path) for name, path in result.items() if name not in SCHEMA}


def warn_of_empty_output(name: str, view: str) -> None:
    """Says in a line that a table or figure is empty, and which file decides that."""
    log.warning(
        "%s is empty: %s gives no row of a selected run; if there are such runs, check its `where`",
        *(name, sql_file_of_view(view)),
    )


def sql_file_of_view(name: str) -> str:
    """The file of a view, or of the `SCHEMA`."""
    return os.path.relpath(next(SQL.rglob(f"{name}.sql")))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{os.path.relpath(path)} is not UTF-8 ({error}): save it as that"
        ) from None


def views_in_order(*wanted: str) -> list[str]:
    """Names of all views, or of those wanted and what they stand on, each after what it reads."""
    known = view_sql_by_name()
    uses: dict[str, list[str]] = {}
    waiting = list(wanted or known)
    while waiting:
        name = waiting.pop()
        if name not in uses:
            read = relations_read_by_query(known[name])
            uses[name] = sorted(read & known.keys())
            waiting += uses[name]
            # Not before this view: it is there when the table is filled.
            waiting += (view for table in read for view in views_read_to_fill(table))
    # In one order, whatever was wanted first.
    try:
        return list(TopologicalSorter(dict(sorted(uses.items()))).static_order())
    except CycleError as error:
        circle = ", ".join(f"{name}.sql" for name in error.args[1])
        raise InputError(f"views of pipeline/results/sql read each other: {circle}") from None


def views_read_to_fill(table: str) -> list[str]:
    """The views that are read when a table is made, where it is made of others."""
    return [name for name in FILLED_FROM.get(table, ()) if name in view_sql_by_name()]


def table_and_figure_views_of(bare_name: str) -> list[str]:
    """The views of the table and the figure of a name that is no view itself."""
    known = view_sql_by_name()
    return [view for kind in ("table", "figure") if (view := f"{kind}_{bare_name}") in known]


def view_of(output: str) -> str:
    """The view of a table or figure: `table_perplexity`, or `table1` for `table_table1`."""
    return output if output in view_sql_by_name() else output.partition("_")[2]


def output_files_with_views(results: Path) -> list[tuple[Path, str]]:
    """Tables and figures of a results folder with their views: table2 stands before table10."""

    def natural_sort_key(path: Path) -> tuple[str, int]:
        word = path.stem.rstrip("0123456789")
        return word, int(path.stem.removeprefix(word) or 0)

    return [
        (path, view)
        for kind, suffix in OUTPUTS.items()
        for path in sorted((results / f"{kind}s").glob(f"*{suffix}"), key=natural_sort_key)
        if (view := view_of(f"{kind}_{path.stem}")) in view_sql_by_name()
    ]


def caption(view: str) -> str:
    """The first paragraph of the comment that opens the view's file: what the view shows."""
    paragraph = re.match(r"(?:--[^\S\n]*\S[^\n]*\n)+", view_sql_by_name()[view])
    if paragraph is None:
        raise InputError(
            f"{sql_file_of_view(view)} does not open with a comment: its first lines, each behind "
            "`--`, are the caption"
        )
    return " ".join(line.lstrip("- ") for line in paragraph[0].splitlines())


def relations_read_by_query(sql: str) -> set[str]:
    """Names of the tables, views and common table expressions that a query reads from."""
    code = re.sub(r"--[^\n]*", "", sql)
    return set(re.findall(r"\b(?:from|join)\s+(\w+)", code))


def base_tables(view: str) -> set[str]:
    """The base tables that a view stands on, through any number of views and derived tables."""
    known = view_sql_by_name()
    created = set(re.findall(r"create table (\w+)", _read_text(SQL / "schema.sql")))
    result, waiting = set(), [view]
    while waiting:
        name = waiting.pop()
        if name not in result:
            result.add(name)
            waiting.extend(
                relations_read_by_query(known[name]) if name in known else FILLED_FROM.get(name, ())
            )
    return result & created
