"""Records of runs, checked against their manifests, into the base tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from pike_mixing.errors import InputError
from pipeline.results.experiment import RunRecord
from pipeline.runtime import atomic_files, manifests

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
    "theory_example_steps",
    "theory_descent",
    "theory_relaxed",
    "theory_iterations",
    "theory_tilt",
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


def check(path: Path, listed: Mapping[str, Any] | None, remake: str) -> None:
    """Compares a record with what its manifest lists, when it lists it.

    Raises:
        InputError: the file is missing, or its size or SHA-256 is another.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist: {remake}")
    if listed is None:
        return
    size = path.stat().st_size
    if size != listed["bytes"]:
        raise InputError(
            f"{path} has {size:,} bytes, its manifest says {listed['bytes']:,}: "
            f"the record is damaged; {remake}"
        )
    if atomic_files.sha256(path) != listed["sha256"]:
        raise InputError(
            f"{path} does not have the SHA-256 that its manifest lists: "
            f"the record is damaged; {remake}"
        )


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
        folder, remake = Path(record.folder), f"run `pike pretrain` for {run} again"
        listed = manifest(folder / atomic_files.MANIFEST, "pretrain", remake)["files"]
        for table in OF_TRAINING:
            path = folder / f"{table}.parquet"
            check(path, listed.get(path.name), remake)
            self._load(table, run, path, remake)

    def evaluations(self, run: str, record: RunRecord) -> None:
        """Loads the records of a run's evaluated checkpoints, in the order of steps.

        Raises:
            InputError: one is missing, truncated or altered.
        """
        folder = Path(record.folder) / "evaluations"
        remake = f"run `pike evaluate` for {run} again"
        listed = manifest(folder / atomic_files.MANIFEST, "evaluate", remake)["files"]
        for step in _steps(folder, {Path(name).parent.name for name in listed}, remake):
            for table in OF_EVALUATION:
                path = folder / f"step{step}" / f"{table}.parquet"
                check(path, listed.get(f"step{step}/{table}.parquet"), remake)
                self._load(table, run, path, remake)

    def probes(self, run: str, record: RunRecord) -> None:
        """Loads the gradient similarities of a run's probed checkpoints, in the order of steps.

        Raises:
            InputError: one is missing, truncated or altered.
        """
        folder = Path(record.folder) / "probes"
        remake = f"run `pike probe` for {run} again"
        listed = manifest(folder / atomic_files.MANIFEST, "probe", remake)["files"]
        for step in _steps(folder, {Path(name).stem for name in listed}, remake):
            path = folder / f"step{step}.parquet"
            check(path, listed.get(path.name), remake)
            self._load("similarities", run, path, remake)

    def theory(self, folder: Path) -> None:
        """Loads the checks of the theory.

        Raises:
            InputError: one is missing, truncated or altered.
        """
        remake = "run `pike theory` again"
        listed = manifest(folder / atomic_files.MANIFEST, "theory", remake)["files"]
        for table in OF_THEORY:
            path = folder / f"{table.removeprefix('theory_')}.parquet"
            check(path, listed.get(path.name), remake)
            self._load(table, None, path, remake)

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


def _steps(folder: Path, names: set[str], remake: str) -> list[int]:
    """The n of all `step{n}` among the names; step 1000 comes after step 200."""
    digits = [name.removeprefix("step") for name in names if name.startswith("step")]
    if not digits:
        raise InputError(f"{folder / atomic_files.MANIFEST} lists no record of any step: {remake}")
    return sorted(int(number) for number in digits)
