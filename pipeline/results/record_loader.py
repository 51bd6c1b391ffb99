"""Records of runs, checked against their manifests, into the base tables."""

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from pike_mixing.errors import InputError
from pipeline.results.experiment import RunRecord
from pipeline.runtime import atomic_files, checksums, manifests

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
_Files = dict[str, tuple[str | None, str]]
"""By place: the run, and what to do when the file is not whole."""
OF_EVALUATION = ("perplexities", "documents", "accuracies", "choices")


def manifest(path: Path, stage: str, remake: str) -> dict[str, Any]:
    """Reads one manifest.

    Args:
        path: The manifest's place.
        stage: The stage that wrote it.
        remake: What makes it, for the message.

    Raises:
        InputError: it is missing or is no manifest; the message says what to run.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist: {remake}")
    return manifests.read(path, stage, remake)


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Iterable[list[Any]]) -> None:
    """Appends rows to a table, all in one statement.

    Args:
        connection: An open database.
        table: Name of the table.
        rows: Values in the order of the table's columns.
    """
    if listed := list(rows):
        # Rows as parameters take a millisecond each.
        columns = [pa.array(column) for column in zip(*listed, strict=True)]
        values = pa.table(columns, [f"column{i}" for i in range(len(columns))])
        connection.from_arrow(values).insert_into(table)


class Loader:
    """Records of runs and of the theory on their way to the base tables of an open database.

    Files are checked against their manifests when they are added; `load` reads all of a table's
    files at once.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, contents: Mapping[Path, Mapping[str, Any]]
    ) -> None:
        """Nothing is added yet.

        Args:
            connection: A database with the base tables.
            contents: What the manifests of the records say, by place.
        """
        self._connection, self._contents = connection, contents
        self._files: dict[str, _Files] = {}

    def training(self, run: str, record: RunRecord) -> None:
        """Adds the records of a run's training.

        Raises:
            InputError: one is missing or altered.
        """
        self._folder(Path(record.folder), "pretrain", run, {f"{t}.parquet": t for t in OF_TRAINING})

    def evaluations(self, run: str, record: RunRecord) -> None:
        """Adds the records of a run's evaluated checkpoints, in the order of steps.

        Raises:
            InputError: one is missing or altered.
        """
        names = {f"{table}.parquet": table for table in OF_EVALUATION}
        self._folder(Path(record.folder) / "evaluations", "evaluate", run, names, "step{}/")

    def probes(self, run: str, record: RunRecord) -> None:
        """Adds the gradient similarities of a run's probed checkpoints, in the order of steps.

        Raises:
            InputError: one is missing or altered.
        """
        names = {".parquet": "similarities"}
        self._folder(Path(record.folder) / "probes", "probe", run, names, "step{}")

    def theory(self, folder: Path) -> None:
        """Adds the checks of the theory.

        Raises:
            InputError: one is missing or altered.
        """
        names = {f"{table.removeprefix('theory_')}.parquet": table for table in OF_THEORY}
        self._folder(folder, "theory", None, names)

    def load(self) -> None:
        """Appends all that was added, in its order.

        Raises:
            InputError: a file is no whole record of its table.
        """
        for table, files in self._files.items():
            # Generated columns and the run's name are not in the Parquet files.
            columns = self._connection.execute(
                "select column_name from information_schema.columns where table_name = ? and "
                "generation_expression is null and column_name <> 'run' order by ordinal_position",
                [table],
            ).fetchall()
            names = [name for (name,) in columns]
            try:
                self._append(table, names, files)
            except duckdb.Error:
                self._refuse_broken(table, names, files)
                raise

    def _folder(
        self, folder: Path, stage: str, run: str | None, names: Mapping[str, str], by_step: str = ""
    ) -> None:
        """Adds the records of one manifest.

        Args:
            folder: Where the manifest lies.
            stage: The stage that wrote it.
            run: The run that the records are of.
            names: Table by the end of the record's path.
            by_step: What stands before it, with {} for the step, where there are several steps.
        """
        remake = f"run `pike {stage}`{f' for {run}' if run else ''} again"
        made = self._contents[folder / atomic_files.MANIFEST]
        listed = {file.path: file for file in checksums.sealed(folder, made, remake)}
        steps = _steps(folder, made["files"], remake) if by_step else [0]
        for step, (end, table) in itertools.product(steps, names.items()):
            path = folder / (by_step.format(step) + end)
            if path not in listed:
                raise InputError(f"{folder / atomic_files.MANIFEST} lists no {path.name}: {remake}")
            if problem := checksums.altered(listed[path]):
                raise InputError(problem)
            self._files.setdefault(table, {})[str(path)] = (run, remake)

    def _append(self, table: str, columns: list[str], files: _Files) -> None:
        """Appends the records of one table; with a run its name comes first in each row."""
        connection, places = self._connection, [*files]
        schema = "select name from parquet_schema(?) group by name having count(*) < ?"
        fewer = {name for (name,) in connection.execute(schema, [places, len(files)]).fetchall()}
        if lacking := sorted(fewer.intersection(columns)):
            # They would be null.
            raise duckdb.BinderException(f"some files have no column {', '.join(lacking)}")
        connection.execute("create temp table files (file text, run text, file_number integer)")
        insert(connection, "files", ([p, run, i] for i, (p, (run, _)) in enumerate(files.items())))
        selected = ", ".join(columns if table in OF_THEORY else ["run", *columns])
        # By name: else the first file's types hold for all.
        connection.execute(
            f"insert into {table} ({selected}) select {selected} from read_parquet("
            "$1, filename = 'file', file_row_number = true, union_by_name = true) "
            "join files using (file) order by file_number, file_row_number",
            [places],
        )
        connection.execute("drop table files")

    def _refuse_broken(self, table: str, columns: list[str], files: _Files) -> None:
        """Stops at the first file that cannot be read alone."""
        for place, (_, remake) in files.items():
            try:
                duckdb.connect().execute(
                    f"select {', '.join(columns)} from read_parquet(?)", [place]
                ).fetchall()
            except duckdb.Error as error:
                first = str(error).splitlines()[0]
                raise InputError(
                    f"{place} is not a whole record of {table} ({first}): {remake}"
                ) from None


def _steps(folder: Path, listed: Iterable[str], remake: str) -> list[int]:
    """The n of all `step{n}` that paths begin with; step 1000 comes after step 200."""
    steps = {int(digits[1]) for name in listed if (digits := re.match(r"step(\d+)", name))}
    if not steps:
        raise InputError(f"{folder / atomic_files.MANIFEST} lists no record of any step: {remake}")
    return sorted(steps)
