"""Rows of a view that a table or figure asks for."""

import contextlib
import logging
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from pike_mixing.errors import InputError, refuse
from pike_mixing.settings import unknown
from pipeline.planning import output_root
from pipeline.results import result_manifests

if TYPE_CHECKING:
    import pandas as pd


log = logging.getLogger("pike")

Row = dict[str, Any]

READING: dict[str, Any] = {"enable_external_access": "false", "lock_configuration": "true"}
"""What a database is opened with: SQL can reach no other file, and cannot change that."""
RUN_COLUMNS = {"scenarios": "scenario", "models": "model", "methods": "method", "seeds": "seed"}
"""What a selection of runs names, and the column that holds it."""

DEFAULT = Path("results/pike.duckdb")
RESTORED = Path("restored/pike.duckdb")


def find_database(database: Path) -> Path:
    """The database; where the default one is asked for and missing, that of `make restore`."""
    if database == DEFAULT and not database.exists() and RESTORED.is_file():
        log.warning("%s does not exist: this is of %s", DEFAULT, RESTORED)
        return RESTORED
    return database


def write_ahead_log(database: Path) -> Path:
    """Where DuckDB keeps changes of a database that are not in its file yet."""
    return database.with_name(f"{database.name}.wal")


def connect(database: Path) -> duckdb.DuckDBPyConnection:
    """Opens a database for reading only; nothing outside it can be read or written.

    Every reader opens it here. A warning tells where it is not the one that its manifest describes.

    Raises:
        InputError: there is no database, it is not one, or a log of changes lies beside it, which
            DuckDB would add to what is read.
    """
    if not database.is_file():
        wrong = "is no file" if database.exists() else "does not exist"
        some = ", ".join(map(str, sorted(database.parent.glob("databases/*.duckdb"))))
        raise InputError(
            f"{database} {wrong}: `make run` makes the database of a whole experiment, in the "
            f"folder that its configuration names under `results`; `make restore` builds ours in a "
            f"minute, {RESTORED}"
            + (f"; here are databases of some runs (--database): {some}" if some else "")
        )
    output_root.refuse_path(database)
    if os.path.lexists(changes := write_ahead_log(database)):
        raise InputError(
            f"{changes} holds changes by a program that writes to {database}, or that was stopped "
            "while it did, and no result is made with them: end that program, or delete them with "
            f"`rm {shlex.quote(str(changes))}`"
        )
    try:
        result = duckdb.connect(str(database), read_only=True, config=READING)
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        remedy = "check the path"
        if isinstance(error, duckdb.IOException) and "lock" in first:
            remedy = "wait until that process has closed it"
        elif "version number" in first:
            remedy = f"it is of another version of DuckDB than {duckdb.__version__}: make it anew"
        raise InputError(f"{database} cannot be opened ({first}): {remedy}") from None
    if problem := result_manifests.altered_problem(database, "database"):
        log.warning("%s", problem)
    return result


def connect_ours(database: Path) -> duckdb.DuckDBPyConnection:
    """Opens a database that `pike database` made.

    Raises:
        InputError: as `connect`, or it is somebody else's.
    """
    connection = connect(database)
    if "experiment" not in {name for (name,) in connection.execute("show tables").fetchall()}:
        connection.close()
        raise InputError(f"{database} holds no experiment: give one that `pike database` made")
    return connection


@contextlib.contextmanager
def open_ours(database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that `pike database` made, for questions of this version's own.

    Raises:
        InputError: as `connect_ours`, or another version made it.
    """
    with connect_ours(database) as connection:
        try:
            yield connection
        except (duckdb.CatalogException, duckdb.BinderException):
            if database.parent.name == "databases":
                whole = database.parents[1] / "pike.duckdb"
                raise InputError(
                    f"{database} holds what its tables and figures read, and this is not among it: "
                    f"ask {whole}"
                ) from None
            again = output_root.command_for(database, force=True)
            raise InputError(
                f"{database} was made by another version: make it anew with `{again}`"
            ) from None


def query(connection: duckdb.DuckDBPyConnection, sql: str, *values: object) -> list[Row]:
    """The answer's rows as mappings; `values` are the question's parameters."""
    answer = connection.execute(sql, values)
    columns = [column[0] for column in answer.description or []]
    return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]


def rows(
    connection: duckdb.DuckDBPyConnection, view: str, selection: Mapping[str, Any], where: str
) -> list[Row]:
    """The view's rows, in its order, that belong to what is selected.

    A row without a value in a selected column (chance in a table of methods) is kept.

    Args:
        connection: An open database.
        view: Name of the view.
        selection: Values to keep: of `RUN_COLUMNS`' keys, or of any column of the view.
        where: Where the selection was set, for messages.

    Raises:
        InputError: unknown view, column or value; or the view is over more than is selected.
    """
    views = "select view_name from duckdb_views() where not internal"
    known = [name for (name,) in connection.execute(views).fetchall()]
    if view not in known:
        raise InputError(unknown(view, known, f"{where}.query"))
    columns = [name for name, *_ in connection.execute(f"describe {view}").fetchall()]
    result = query(connection, f"select * from {view}")
    problems: list[str] = []
    for key, wanted in selection.items():
        column, place = RUN_COLUMNS.get(key, key), f"{where}.selection.{key}"
        if not isinstance(wanted, list):
            problems.append(f"{place}: {wanted!r} is not a list of values")
        elif column in RUN_COLUMNS.values():
            values = f"select distinct {column} from runs"
            present = [value for (value,) in connection.execute(values).fetchall()]
            problems += [
                unknown(str(v), map(str, present), place) for v in wanted if v not in present
            ]
            if column not in columns and set(present) - set(wanted):
                problems.append(
                    f"{place}: {view} is over all runs of the database: give it a database that "
                    f"holds only the selected {key}"
                )
        elif column not in columns:
            problems.append(unknown(key, [*RUN_COLUMNS, *columns], f"{where}.selection"))
        result = [row for row in result if row.get(column) is None or row[column] in wanted]
    refuse(problems)
    return result


def frame(name: str, database: str | Path = "results/pike.duckdb") -> "pd.DataFrame":
    """One table or view of a database, in the order that it gives its rows.

    Columns, their types and units stand in `sql/schema.sql`, and of a view at the head of its file.

    Args:
        name: `runs`, `claims`, `table_perplexity`, `table1`, `figure_losses`: `pike query
            "show tables"` lists all. The views of tables have a row for each cell.
        database: The experiment's database.

    Raises:
        InputError: there is no database, it is none of ours, or it has no such table or view.
    """
    with connect_ours(Path(database)) as connection:
        known = [name for (name,) in connection.execute("show tables").fetchall()]
        if name not in known:
            raise InputError(unknown(name, known, str(database)))
        return connection.execute(f'select * from "{name}"').df()


def grid(cells: "pd.DataFrame") -> "pd.DataFrame":
    """A table's cells, from `frame`, as readers see them.

    Values, or their words, by section, row and column.
    """
    units = cells.get("unit", [None] * len(cells))
    title = [
        f"{label} ({unit})" if isinstance(unit, str) else label
        for label, unit in zip(cells["column_label"], units, strict=True)
    ]
    value = cells.get("value")
    if "text" in cells:
        words = cells["text"].astype(object)
        value = words if value is None else words.where(words.notna(), value)
    shown = cells.assign(title=title, value=value)
    wide = shown.pivot(index=["section", "row_label"], columns="title", values="value")
    rows = cells[["section", "row_label"]].drop_duplicates()
    columns = shown.sort_values("column_position", kind="stable")["title"].unique()
    return wide.loc[list(rows.itertuples(index=False, name=None)), columns]
