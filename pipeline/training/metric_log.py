"""What a run writes down at every step, kept so that a killed run neither loses nor repeats a row.

    log.jsonl    one JSON object a line: the table's name and the row's columns

Rows are appended between steps, once a second at most, for those who watch the run. At each
checkpoint a line marks its step, and all up to it is on the disk before the checkpoint is. A run
that goes on from a checkpoint cuts the log behind that mark. At the end the log becomes one Parquet
file per table; it stays, so that a run can go on from any checkpoint.
"""

import contextlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pike_mixing.arrays import Array
from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.runtime import atomic_files

Value = int | float | str | None
Rows = dict[str, list[dict[str, Any]]]
"""By table, each with its columns' names."""


class Clock:
    """Seconds of phases, which may lie within one another: each second counts once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.settle: Callable[[], None] | None = None
        """Waits for what a device still has to do, so that it counts where it was asked for.

        Absent, it counts where the run waits for its results.
        """
        self._within = 0.0

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Counts the block's wall seconds to a phase, but for those of phases within it."""
        before, self._within = self._within, 0.0
        began = self._now()
        try:
            yield
        finally:
            passed = self._now() - began
            self.seconds[phase] += passed - self._within
            self._within = before + passed

    def _now(self) -> float:
        if self.settle is not None:
            self.settle()
        return time.perf_counter()


INT, REAL, TEXT = pa.int64(), pa.float64(), pa.string()
TABLES = {
    "steps": pa.schema(
        [
            *(("step", INT), ("tokens", INT), ("loss", REAL), ("learning_rate", REAL)),
            *(("gradient_norm", REAL), ("seconds", REAL), ("tokens_per_second", REAL)),
            *(("model_flops_utilisation", REAL), ("memory_bytes", INT)),
        ]
    ),
    "domain_losses": pa.schema([("step", INT), ("domain", TEXT), ("loss", REAL)]),
    "weights": pa.schema([("step", INT), ("domain", TEXT), ("weight", REAL), ("count", INT)]),
    "gradient_statistics": pa.schema(
        [
            *(("step", INT), ("domain", TEXT), ("squared_norm", REAL)),
            *(("squared_norm_unbiased", REAL), ("variance", REAL), ("loss", REAL)),
            *(("rows", INT), ("seconds", REAL)),
        ]
    ),
    "coefficients": pa.schema([("step", INT), ("domain", TEXT), ("coefficient", REAL)]),
    "alarms": pa.schema([("step", INT), ("kind", TEXT), ("domain", TEXT), ("message", TEXT)]),
    "timings": pa.schema([("phase", TEXT), ("seconds", REAL)]),
}

LOG = "log.jsonl"
CHECKPOINT = "checkpoint"
"""In the place of a table's name: the line that marks a checkpoint's step."""
SECONDS = 1.0
"""Between two writes."""
_CHUNK = 2**16
"""Rows that are made a part of a table at once."""


class RunRecords:
    """The tables of one run."""

    def __init__(
        self,
        folder: Path,
        domains: Sequence[str],
        *,
        writes: bool = True,
    ) -> None:
        self.path = folder / LOG
        self._folder, self._domains, self._writes = folder, domains, writes
        self._lines: list[str] = []
        self._written = time.monotonic()
        self.clock = Clock()
        self.timed = self.clock.timed
        """Counts the block's wall seconds to a phase, but for those of phases within it."""

    def add_row(self, table: str, **values: Value) -> None:
        """Adds a row by its columns' names, all of them; NaN is stored as null."""
        names = TABLES[table].names
        assert values.keys() == set(names), f"{table}: {sorted(values)}"
        row = {n: None if isinstance(v := values[n], float) and isnan(v) else v for n in names}
        self._add_line(table, row)

    def add_row_per_domain(self, table: str, step: int, **columns_K: Array) -> None:
        """Adds a row for each domain, from columns over the domains."""
        lists = {name: values_K.tolist() for name, values_K in columns_K.items()}
        for k, domain in enumerate(self._domains):
            self.add_row(table, step=step, domain=domain, **{n: v[k] for n, v in lists.items()})

    def write_if_due(self) -> None:
        """Writes what waits, where the last write is a second ago."""
        if time.monotonic() - self._written >= SECONDS:
            self._write_lines()

    def mark_before_checkpoint(self, step: int) -> None:
        """Writes what waits, and that the checkpoint of so many updates follows."""
        for row in self._timing_rows_since_checkpoint:
            self._add_line("timings", row)
        self.clock.seconds.clear()
        self._add_line(CHECKPOINT, {"step": step})
        self._write_lines()

    def fsync_written_lines(self) -> None:
        with errors.explain_disk_errors(self.path):
            atomic_files.fsync_file_or_folder_entries(self.path)

    def cut_after_checkpoint(self, step: int) -> None:
        """Drops what a killed run wrote behind the checkpoint of so many updates."""
        mark = _json_line(CHECKPOINT, {"step": step}).encode()
        with self.path.open("r+b") as file:
            end = 0
            for line in file:
                end += len(line)
                if line == mark:
                    break
            file.truncate(end)

    def write_tables(self, step: int) -> list[Path]:
        """Makes one file per table of the rows of so many updates; returns the files' paths.

        What was timed since the last mark counts, too: above all, that checkpoint.
        """
        tables = self._read_tables(step)
        last = pa.Table.from_pylist(self._timing_rows_since_checkpoint, TABLES["timings"])
        tables["timings"] = _phase_shares(pa.concat_tables([tables["timings"], last]))
        written = []
        for name, table in tables.items():
            path = self._folder / f"{name}.parquet"
            with atomic_files.atomic_write(path) as partial:
                pq.write_table(table, partial, compression="zstd")
            written.append(path)
        return written

    def wall_seconds_in_tables(self) -> float:
        """Wall seconds of all phases, those before interruptions included; after `write_tables`."""
        return float(pc.sum(pq.read_table(self._folder / "timings.parquet")["seconds"]).as_py())

    def begin_log_anew(self) -> None:
        self._lines.clear()
        atomic_files.remove_path(self.path)

    def refuse_missing_steps(self, step: int) -> None:
        """Raises InputError where rows up to `step` were lost: nothing later would notice."""
        self._read_tables(step)

    def _read_tables(self, step: int) -> dict[str, pa.Table]:
        """The rows up to the mark of a checkpoint, by table."""
        rows: Rows = {name: [] for name in TABLES}
        parts = {name: [schema.empty_table()] for name, schema in TABLES.items()}
        remedy = f"delete {self._folder / 'checkpoints'} to train the run anew"
        place, marked = str(self.path), False

        def gather(name: str) -> None:
            parts[name].append(pa.Table.from_pylist(rows[name], TABLES[name]))
            rows[name] = []

        try:
            # A log that is gone holds nothing.
            with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    place = f"{self.path}:{number}"
                    row = json.loads(line)
                    name = row.pop("table")
                    if marked := name == CHECKPOINT and row["step"] == step:
                        break
                    if name != CHECKPOINT:
                        if row.keys() != set(TABLES[name].names):
                            raise ValueError(f"its columns are {', '.join(row)}")
                        rows[name].append(row)
                        if len(rows[name]) == _CHUNK:
                            gather(name)
            for name in TABLES:
                gather(name)
        except (ValueError, TypeError, KeyError, AttributeError, pa.ArrowException) as error:
            raise InputError(f"{place} is no row of a run's log ({error}): {remedy}") from None
        result = {name: pa.concat_tables(several) for name, several in parts.items()}
        if not marked or result["steps"]["step"].to_pylist() != list(range(step)):
            raise InputError(f"{self.path} does not hold all records up to step {step}: {remedy}")
        return result

    def _add_line(self, table: str, row: Mapping[str, Value]) -> None:
        if self._writes:
            self._lines.append(_json_line(table, row))

    def _write_lines(self) -> None:
        self._written = time.monotonic()
        if self._lines:
            with (
                errors.explain_disk_errors(self.path),
                self.path.open("a", encoding="utf-8") as file,
            ):
                file.write("".join(self._lines))
            self._lines.clear()

    @property
    def _timing_rows_since_checkpoint(self) -> list[dict[str, Value]]:
        return [{"phase": phase, "seconds": s} for phase, s in self.clock.seconds.items()]


def read_log_file_rows(
    folder: Path, tables: Collection[str], last_bytes: int | None = None
) -> Rows:
    """A run's rows up to now, by table; with `last_bytes` those of the log's end alone."""
    result: Rows = {name: [] for name in tables}
    # What goes while one looks is left out.
    with contextlib.suppress(FileNotFoundError), (folder / LOG).open("rb") as file:
        if last_bytes is not None:
            file.seek(max(file.seek(0, os.SEEK_END) - last_bytes, 0))
        for line in file:
            # Half a line of a killed run, or one that is being written, is no record.
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                if isinstance(row, dict) and row.get("table") in result:
                    result[row.pop("table")].append(row)
    return result


def is_empty_or_begins_as_run_log(path: Path) -> bool:
    """Whether a file begins as a run's log does, or as one that was cut off at once."""
    with path.open("rb") as file:
        return file.read(len(_BEGINNING)) in (_BEGINNING, b"")


_BEGINNING = b'{"table": '


def _json_line(table: str, row: Mapping[str, Value]) -> str:
    return json.dumps({"table": table, **row}) + "\n"


def _phase_shares(timings: pa.Table) -> pa.Table:
    summed = timings.group_by("phase").aggregate([("seconds", "sum")]).sort_by("phase")
    seconds = summed["seconds_sum"]
    share = pc.divide(seconds, pc.sum(seconds))
    return pa.table({"phase": summed["phase"], "seconds": seconds, "share": share})
