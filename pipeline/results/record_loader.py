"""Records of runs, checked against their manifests, into the base tables."""

import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

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
    """Appends rows of values in the order of the table's columns."""
    listed = list(rows)
    if listed:
        marks = ", ".join("?" * len(listed[0]))
        connection.executemany(f"insert into {table} values ({marks})", listed)


class Loader:
    """Appends records to the base tables of one open database."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._columns: dict[str, list[str]] = {}
        # Generated columns and the run's name are not in the Parquet files.
        for table, column in connection.execute(
            "select table_name, column_name from information_schema.columns "
            "where generation_expression is null and column_name <> 'run' "
            "order by table_name, ordinal_position"
        ).fetchall():
            self._columns.setdefault(table, []).append(column)

    def training(self, run: str, record: RunRecord) -> None:
        """Loads the records of a run's training.

        Raises:
            InputError: one is missing, truncated or altered.
        """
        self._folder(Path(record.folder), "pretrain", run, {f"{t}.parquet": t for t in OF_TRAINING})

    def evaluations(self, run: str, record: RunRecord) -> None:
        """Loads the records of a run's evaluated checkpoints, in the order of steps.

        Raises:
            InputError: one is missing, truncated or altered.
        """
        names = {f"{table}.parquet": table for table in OF_EVALUATION}
        self._folder(Path(record.folder) / "evaluations", "evaluate", run, names, "step{}/")

    def probes(self, run: str, record: RunRecord) -> None:
        """Loads the gradient similarities of a run's probed checkpoints, in the order of steps.

        Raises:
            InputError: one is missing, truncated or altered.
        """
        names = {".parquet": "similarities"}
        self._folder(Path(record.folder) / "probes", "probe", run, names, "step{}")

    def theory(self, folder: Path) -> None:
        """Loads the checks of the theory.

        Raises:
            InputError: one is missing, truncated or altered.
        """
        names = {f"{table.removeprefix('theory_')}.parquet": table for table in OF_THEORY}
        self._folder(folder, "theory", None, names)

    def _folder(
        self, folder: Path, stage: str, run: str | None, names: Mapping[str, str], by_step: str = ""
    ) -> None:
        """Loads the records of one manifest.

        Args:
            folder: Where the manifest lies.
            stage: The stage that wrote it.
            run: The run that the records are of.
            names: Table by the end of the record's path.
            by_step: What stands before it, with {} for the step, where there are several steps.
        """
        remake = f"run `pike {stage}`{f' for {run}' if run else ''} again"
        made = manifest(folder / atomic_files.MANIFEST, stage, remake)
        listed = {file.path: file for file in checksums.sealed(folder, made, remake)}
        steps = _steps(folder, made["files"], remake) if by_step else [0]
        for step, (end, table) in itertools.product(steps, names.items()):
            path = folder / (by_step.format(step) + end)
            if path not in listed:
                raise InputError(f"{folder / atomic_files.MANIFEST} lists no {path.name}: {remake}")
            if problem := checksums.altered(listed[path]):
                raise InputError(problem)
            self._load(table, run, path, remake)

    def _load(self, table: str, run: str | None, path: Path, remake: str) -> None:
        """Appends a record; with a run its name comes first in each row."""
        columns = ", ".join(self._columns[table])
        own, value = ("", "") if run is None else ("run, ", "?, ")
        # A file's name cannot be a parameter of read_parquet: quotes in it are doubled.
        quoted = str(path).replace("'", "''")
        try:
            self._connection.execute(
                f"insert into {table} ({own}{columns}) select {value}{columns} "
                f"from read_parquet('{quoted}')",
                [] if run is None else [run],
            )
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise InputError(
                f"{path} is not a whole record of {table} ({first}): {remake}"
            ) from None


def _steps(folder: Path, listed: Iterable[str], remake: str) -> list[int]:
    """The n of all `step{n}` that paths begin with; step 1000 comes after step 200."""
    steps = {int(digits[1]) for name in listed if (digits := re.match(r"step(\d+)", name))}
    if not steps:
        raise InputError(f"{folder / atomic_files.MANIFEST} lists no record of any step: {remake}")
    return sorted(steps)
