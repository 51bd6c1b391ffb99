"""Rows of a view that a table or figure asks for."""

import contextlib
import itertools
import json
import logging
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from pike_mixing.errors import InputError, names_text, refuse
from pike_mixing.setting_messages import unknown_name_message
from pipeline.planning import output_root
from pipeline.results import result_manifests, sql_views
from pipeline.runtime import checksums, made_from

if TYPE_CHECKING:
    import pandas as pd


log = logging.getLogger("pike")

Row = dict[str, Any]

READING: dict[str, Any] = {"enable_external_access": "false", "lock_configuration": "true"}
"""What a database is opened with: SQL can reach no other file, and cannot change that."""
RUN_COLUMNS = {"scenarios": "scenario", "models": "model", "methods": "method", "seeds": "seed"}
"""What a selection of runs names, and the column that holds it."""

EXPERIMENT = "select name, config, (select count(run) from runs) as runs from experiment"
DATABASE = "pike.duckdb"
"""The database of all runs of a results folder; those of some runs are `databases/NAME.duckdb`."""
FOLDERS = (Path("results"), Path("restored"))
"""Results folders that are asked where none is named: those of a run, and of `pike restore`."""


QUERIES = "pipeline/results/sql"
"""The part of a database's code that holds the queries of tables and figures."""
MOST_OUTPUTS = 8
"""Tables and figures that a command names; of more, all are made again."""


def newest_or_default_results_folder() -> Path:
    """The one of `FOLDERS` whose databases were written last; the first where none has any."""
    return max(
        FOLDERS, key=lambda folder: max(map(_modified_time, _database_files(folder)), default=0)
    )


def given_or_default_database(database: Path | None) -> Path:
    """The database that is asked: the one that was named, or else that of the newest folder.

    That is the folder's database of all runs. Where only some of its tables and figures were made,
    it is the newest of theirs.
    """
    if database is not None:
        return database
    return _whole_or_newest_database_path(newest_or_default_results_folder())


def _whole_or_newest_database_path(folder: Path) -> Path:
    whole, some = folder / DATABASE, _database_files(folder)
    return whole if whole in some else max(some, key=_modified_time, default=whole)


def is_of_some_runs(database: Path) -> bool:
    """Whether a database is one of those that a table or figure reads, not that of all runs."""
    return database.parent.name == "databases"


def whole_database_path_or_command(partial_database: Path) -> str:
    """For a database of some runs: that of all, and the command that builds it if it is missing."""
    whole = partial_database.parents[1] / DATABASE
    if whole.is_file():
        return str(whole)
    return f"{whole}, once `{output_root.command_to_make(whole)}` has built it"


def _database_files(folder: Path) -> list[Path]:
    return [
        path for path in (folder / DATABASE, *folder.glob("databases/*.duckdb")) if path.is_file()
    ]


def _modified_time(existing_file: Path) -> float:
    return existing_file.stat().st_mtime


def log_database_and_staleness(connection: duckdb.DuckDBPyConnection, database: Path) -> None:
    """Says in a line which database answers, and of which experiment it is.

    Two experiments may have one name: the folder that the configuration names, and the number of
    runs, tell them apart.
    """
    facts = ""
    try:
        every = query_rows(connection, EXPERIMENT)
    except duckdb.Error:  # SQL may be asked of somebody else's database, too.
        every = []
    for one in every:
        config = json.loads(one["config"])
        folder = f" (made in {config['results']})" if config.get("results") else ""
        runs = f"{one['runs']:,} runs"
        if is_of_some_runs(database):
            whole = whole_database_path_or_command(database)
            runs = f"{one['runs']:,} of its runs; for all, ask {whole}"
        elif serving := _count_runs_serving_others(connection, config):
            runs = f"{one['runs'] - serving:,} runs, and {serving:,} that chose settings for them"
        facts = f", experiment {one['name']}{folder}: {runs}"
    log.info("Answer from %s%s", database, facts)
    _warn_if_outdated(database, _changed_inputs(database))


def _count_runs_serving_others(
    connection: duckdb.DuckDBPyConnection, config: Mapping[str, Any]
) -> int:
    """How many runs the configuration does not ask for: those of grids, proxies and swarms."""
    if "runs" not in config:
        return 0
    every = query_rows(connection, "select scenario, model, method, seed from runs")
    return sum(
        not any(
            all(run[column] in entry[key] for key, column in RUN_COLUMNS.items())
            for entry in config["runs"]
        )
        for run in every
    )


def duckdb_wal_path(database: Path) -> Path:
    """Where DuckDB keeps changes of a database that are not in its file yet."""
    return database.with_name(f"{database.name}.wal")


def connect(database: Path) -> duckdb.DuckDBPyConnection:
    """Opens a database for reading only; nothing outside it can be read or written.

    Every reader opens it here. A warning tells where it is not the one that its manifest describes.
    It is refused where a log of changes lies beside it, which DuckDB would add to what is read.
    """
    if not database.is_file():
        if (inside := _whole_or_newest_database_path(database)).is_file():
            raise InputError(f"{database} is a folder: give its database, {inside}")
        wrong = "is no file" if database.exists() else "does not exist"
        some = ", ".join(map(str, sorted(database.parent.glob("databases/*.duckdb"))))
        raise InputError(
            f"{database} {wrong}: `make run CONFIG=FILE` makes the database of an experiment, in "
            f"the folder that FILE names under `results`; `make restore` builds ours in a minute, "
            f"{FOLDERS[1] / DATABASE}"
            + (f"; here are databases of some runs (--database): {some}" if some else "")
        )
    output_root.refuse_path_unfit_for_duckdb(database)
    if os.path.lexists(changes := duckdb_wal_path(database)):
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
    if problem := result_manifests.known_alteration(database, "database"):
        log.warning("%s", problem)
    else:
        _warn_if_outdated(database, result_manifests.outdated_code_parts(database))
    return result


def _changed_inputs(database: Path) -> list[str]:
    """Files that a database was made from and that have changed since."""
    known, place = checksums.DigestCache(checksums.MEMORY), made_from.manifest_beside(database)
    every = made_from.differences_from_today_if_finished(place, "database", known)
    # Of the file itself it was told when it was opened.
    names = [one.what for one in every if not one.what.startswith("files.")]
    folder = database.parent
    return [os.path.normpath(folder / one.removeprefix("inputs.")) for one in names]


def _warn_if_outdated(database: Path, changed: Sequence[str]) -> None:
    """Says in a line, if anything that a database was built from has changed since, what to do."""
    if not changed:
        return
    folder = database.parents[1] if is_of_some_runs(database) else database.parent
    today = [
        one
        for one in _database_files(folder)
        if made_from.manifest_beside(one).is_file()
        and _modified_time(one) > _modified_time(database)
        and not result_manifests.outdated_code_parts(one)
    ]
    log.warning(
        "%s is older than %s, and its answers are the old ones: `%s` builds it again%s%s",
        *(database, names_text(changed, most=3), output_root.command_to_make(database)),
        _changed_tables_and_figures_hint(database) if [*changed] == [QUERIES] else "",
        f"; newer is --database {max(today, key=_modified_time)}" if today else "",
    )


def _changed_tables_and_figures_hint(database: Path) -> str:
    """What restores only the tables and figures whose queries changed since; "" where none can."""
    folder, since = database.parent, _modified_time(database)
    if is_of_some_runs(database) or not output_root.origin_archive_path(folder):
        return ""
    changed = list[Path]()
    # A query that cannot be read is refused where it is built; this database still has its answer.
    with contextlib.suppress(InputError):
        for path, view in sql_views.output_files_with_views(folder):
            read = map(sql_views.sql_file_of_view, sql_views.views_in_order(view))
            if any(_modified_time(Path(file)) > since for file in read):
                changed.append(path)
    if not 0 < len(changed) <= MOST_OUTPUTS:
        return ""
    words = [output_root.command_to_make(changed[0]), *(path.stem for path in changed[1:])]
    return f", `{' '.join(words)}` only what the changed queries show"


def other_version_error(database: Path, view: str = "") -> InputError:
    """What a user does who asked for more than a database of ours holds."""
    if is_of_some_runs(database) and view not in sql_views.READ_BY_ALL:
        return InputError(
            f"{database} holds what its tables and figures read, and this is not among it: "
            f"ask {whole_database_path_or_command(database)}"
        )
    again = output_root.command_to_make(database, force=True)
    return InputError(f"{database} was made by another version: make it anew with `{again}`")


def connect_database_of_any_version(database: Path) -> duckdb.DuckDBPyConnection:
    """Opens a database that `pike database` made, by whichever version."""
    connection = connect(database)
    if "experiment" not in {name for (name,) in connection.execute("show tables").fetchall()}:
        connection.close()
        raise InputError(f"{database} holds no experiment: give one that `pike database` made")
    return connection


@contextlib.contextmanager
def open_explaining_missing_views(database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Opens a database; where the block asks for a view that it lacks, the error says why."""
    with connect_database_of_any_version(database) as connection:
        try:
            yield connection
        except (duckdb.CatalogException, duckdb.BinderException):
            raise other_version_error(database) from None


def query_rows(connection: duckdb.DuckDBPyConnection, sql: str, *values: object) -> list[Row]:
    """The answer's rows as mappings; `values` are the question's parameters."""
    answer = connection.execute(sql, values)
    columns = [column[0] for column in answer.description or []]
    return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]


def select_rows_keeping_nulls(
    connection: duckdb.DuckDBPyConnection, view: str, selection: Mapping[str, Any], place: str
) -> list[Row]:
    """The view's rows, in its order, that belong to what is selected.

    A row without a value in a selected column (chance in a table of methods) is kept. The selection
    has values to keep, of `RUN_COLUMNS`' keys or of any column of the view; `place` is where it was
    set, for messages.
    """
    every = "select view_name from duckdb_views() where not internal"
    known = [name for (name,) in connection.execute(every).fetchall()]
    if view not in known:
        if view in sql_views.view_sql_by_name() and (database := _database_path_of(connection)):
            raise other_version_error(database, view)
        raise InputError(unknown_name_message(view, known, f"{place}.query"))
    columns = [name for name, *_ in connection.execute(f"describe {view}").fetchall()]
    with sql_views.explain_failure(view):
        result = query_rows(connection, f"select * from {view}")
    problems: list[str] = []
    for key, wanted in selection.items():
        column, at = RUN_COLUMNS.get(key, key), f"{place}.selection.{key}"
        if not isinstance(wanted, list):
            problems.append(f"{at}: {wanted!r} is not a list of values")
        elif column in RUN_COLUMNS.values():
            values = f"select distinct {column} from runs"
            present = [value for (value,) in connection.execute(values).fetchall()]
            problems += [
                unknown_name_message(str(v), map(str, present), at)
                for v in wanted
                if v not in present
            ]
            if column not in columns and set(present) - set(wanted):
                problems.append(
                    f"{at}: {view} is over all runs of the database: give it a database that "
                    f"holds only the selected {key}"
                )
        elif column not in columns:
            problems.append(
                unknown_name_message(key, [*RUN_COLUMNS, *columns], f"{place}.selection")
            )
        belongs = [has_no_unselected_value(row, {key: wanted}) for row in result]
        # A table's query may have been given rows that its selection does not name.
        out = itertools.compress(result, (not one for one in belongs))
        left = dict.fromkeys(row["row_label"] for row in out if "row_label" in row)
        if left and not problems:
            told = names_text(map(str, left), most=5)
            log.warning(
                "%s leaves out rows of %s: %s; to keep a row that the selection does not name, let "
                "%s give it no %s (`null as %s`)",
                *(at, view, told, sql_views.sql_file_of_view(view), column, column),
            )
        result = list(itertools.compress(result, belongs))
    refuse(problems)
    return result


def has_no_unselected_value(row: Row, selection: Mapping[str, Any]) -> bool:
    """Whether a view's row has only selected values, or none, in the columns of a selection."""
    columns = {RUN_COLUMNS.get(key, key): wanted for key, wanted in selection.items()}
    return all(row.get(name) is None or row[name] in wanted for name, wanted in columns.items())


def _database_path_of(connection: duckdb.DuckDBPyConnection) -> Path | None:
    """The file of an open database; None of one in memory."""
    (one,) = query_rows(
        connection, "select path from duckdb_databases() where database_name = current_database()"
    )
    return Path(os.path.relpath(one["path"])) if one["path"] else None


def frame(name: str, database: str | Path | None = None) -> "pd.DataFrame":
    """One table or view of a database, in the order that it gives its rows.

    Columns, their types and units stand in `sql/schema.sql`, and of a view at the head of its file.

    Args:
        name: `runs`, `claims`, `table_perplexity`, `table1`, `figure_losses`: `pike query
            "show tables"` lists all. The views of tables have a row for each cell.
        database: The experiment's database; absent: as `given_or_default_database` has it.

    Raises:
        InputError: there is no database, it is none of ours, or it has no such table or view.
    """
    database = given_or_default_database(None if database is None else Path(database))
    with connect_database_of_any_version(database) as connection:
        log_database_and_staleness(connection, database)
        known = [name for (name,) in connection.execute("show tables").fetchall()]
        if name not in known:
            if name in sql_views.view_sql_by_name():
                raise other_version_error(database, name)
            if views := sql_views.table_and_figure_views_of(name):
                raise InputError(f"{database} has no {name}: did you mean {' or '.join(views)}?")
            raise InputError(unknown_name_message(name, known, str(database)))
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
