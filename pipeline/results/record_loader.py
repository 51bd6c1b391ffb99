"""Records of runs, checked against their manifests, into the base tables."""

import glob
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError
from pipeline.planning.manifest_places import ListedManifest
from pipeline.runtime import checksums
from pipeline.runtime.programs import program_command
from pipeline.runtime.progress import Progress

OF_TRAINING = (
    "steps",
    "domain_losses",
    "weights",
    "gradient_statistics",
    "coefficients",
    "alarms",
    "timings",
)
OF_THEORY = (
    "theory_example",
    "theory_example_settings",
    "theory_descent",
    "theory_iterations",
)
OF_EVALUATION = ("perplexities", "documents", "accuracies", "choices")
RECORDS = {
    "pretrain": OF_TRAINING,
    "evaluate": OF_EVALUATION,
    "probe": ("similarities",),
    "theory": OF_THEORY,
}
"""The base tables that a stage's records fill."""
PLACES = {
    "pretrain": "{table}.parquet",
    "evaluate": "step{step}/{table}.parquet",
    "probe": "step{step}.parquet",
    "theory": "{table}.parquet",
}
"""Where a stage's records lie beside its manifest."""
_RunAndRemedyByFile = dict[str, tuple[str, str]]
"""By place: the run, and what to do when the file is not whole."""


def insert_rows(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Iterable[list[Any]]
) -> None:
    """Appends rows, with values in the order of the table's columns, in one statement."""
    if listed := list(rows):
        # Rows as parameters take a tenth of a millisecond each; Arrow would import pandas.
        columns = [list(column) for column in zip(*listed, strict=True)]
        values = ", ".join(f"unnest(${i})" for i in range(1, len(columns) + 1))
        connection.execute(f"insert into {table} select {values}", columns)


def insert_listed_records(
    contents: Mapping[Path, Mapping[str, Any]],
    connection: duckdb.DuckDBPyConnection,
    made: Sequence[ListedManifest],
) -> None:
    """Appends the records of the manifests `made` to the base tables, in the given order.

    `contents` is what the manifests say, by place. Files are checked against them before any is
    read; all of a table's are read at once.
    """
    files: dict[str, _RunAndRemedyByFile] = {}
    with Progress("database", total=len(made), unit="manifest") as progress:
        for name, stage, place in made:
            run = name.partition("/")[2]
            remedy = f"{stage_remedy(stage, name)} again"
            for table, path in _list_records(Path(place), contents[Path(place)], stage, remedy):
                files.setdefault(table, {})[str(path)] = (run, remedy)
            progress.add(1)
    for table, of_table in files.items():
        columns = columns_not_generated(connection, table)
        try:
            _insert_records_of_table(connection, table, columns, of_table)
        except duckdb.Error:
            _refuse_broken_files(table, columns, of_table)
            raise


def stage_remedy(stage: str, name: str) -> str:
    """What makes an artifact: run `pike pretrain` for RUN."""
    of = name.partition("/")[2]
    if stage == "fetch":
        return f"run `{program_command('pike')} fetch {of}`"
    return f"run `pike {stage}`" + (f" for {of}" if of else "")


def columns_not_generated(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """The columns of a base table that are not made from others."""
    result = connection.execute(
        "select column_name from information_schema.columns where table_name = ? "
        "and generation_expression is null order by ordinal_position",
        [table],
    )
    return [name for (name,) in result.fetchall()]


def _list_records(
    place: Path, content: Mapping[str, Any], stage: str, remedy: str
) -> Iterator[tuple[str, Path]]:
    """Table and path of a manifest's records, each as it was made; step by step in their order."""
    folder, pattern = place.parent, PLACES[stage]
    listed = {file.path: file for file in checksums.files_as_listed(folder, content, remedy)}
    steps = [0]
    if "{step}" in pattern:
        # As numbers: step 1000 comes after step 200.
        found = (re.match(r"step(\d+)", name) for name in content["files"])
        steps = sorted({int(digits[1]) for digits in found if digits})
        if not steps:
            raise InputError(f"{place} lists no record of any step: {remedy}")
    for step, table in itertools.product(steps, RECORDS[stage]):
        path = folder / pattern.format(step=step, table=table.removeprefix("theory_"))
        if path not in listed:
            raise InputError(f"{place} lists no {path.name}: {remedy}")
        if problem := checksums.content_problem(listed[path]):
            raise InputError(problem)
        yield table, path


def _insert_records_of_table(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    columns: list[str],
    files: _RunAndRemedyByFile,
) -> None:
    """Appends the records of one table; a run's name is not in its files."""
    # To DuckDB they are patterns.
    places = [glob.escape(place) for place in files]
    schema = "select name from parquet_schema(?) group by name having count(*) < ?"
    fewer = {name for (name,) in connection.execute(schema, [places, len(files)]).fetchall()}
    if lacking := sorted(fewer.intersection(columns)):
        # They would be null.
        raise duckdb.BinderException(f"some files have no column {', '.join(lacking)}")
    connection.execute("create temp table files (file text, run text, file_number integer)")
    insert_rows(connection, "files", ([p, run, i] for i, (p, (run, _)) in enumerate(files.items())))
    selected = ", ".join(columns)
    # By name: else the first file's types hold for all.
    connection.execute(
        f"insert into {table} ({selected}) select {selected} from read_parquet("
        "$1, filename = 'file', file_row_number = true, union_by_name = true) "
        "join files using (file) order by file_number, file_row_number",
        [places],
    )
    connection.execute("drop table files")


def _refuse_broken_files(table: str, columns: list[str], files: _RunAndRemedyByFile) -> None:
    """Stops at the first file that cannot be read alone."""
    selected = ", ".join(name for name in columns if name != "run")
    for place, (_, remedy) in files.items():
        try:
            duckdb.connect().execute(
                f"select {selected} from read_parquet(?)", [glob.escape(place)]
            ).fetchall()
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise InputError(
                f"{place} is not a whole record of {table} ({first}): {remedy}"
            ) from None
