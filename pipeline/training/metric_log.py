"""What a run writes down at every step, kept so that a killed run neither loses nor repeats a row.

Rows gather in memory and are written as one part at each checkpoint, before the checkpoint itself;
what a killed run wrote behind its last checkpoint is dropped when it goes on. At the end the parts
are joined to one Parquet file per table; they stay, so that a run can go on from any checkpoint.
Rows that no part holds yet can be read from `pipeline.training.live_log`.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Statistics
from pipeline import errors
from pipeline.runtime import atomic_files
from pipeline.runtime.timing import Clock
from pipeline.training.live_log import Stream, Value

TABLES = {
    "steps": pa.schema(
        [
            ("step", pa.int64()),
            ("tokens", pa.int64()),
            ("loss", pa.float64()),
            ("learning_rate", pa.float64()),
            ("gradient_norm", pa.float64()),
            ("seconds", pa.float64()),
            ("tokens_per_second", pa.float64()),
            ("model_flops_utilisation", pa.float64()),
            ("memory_bytes", pa.int64()),
        ]
    ),
    "domain_losses": pa.schema(
        [("step", pa.int64()), ("domain", pa.string()), ("loss", pa.float64())]
    ),
    "weights": pa.schema(
        [
            ("step", pa.int64()),
            ("domain", pa.string()),
            ("weight", pa.float64()),
            ("count", pa.int64()),
        ]
    ),
    "gradient_statistics": pa.schema(
        [
            ("step", pa.int64()),
            ("domain", pa.string()),
            ("squared_norm", pa.float64()),
            ("squared_norm_unbiased", pa.float64()),
            ("variance", pa.float64()),
            ("loss", pa.float64()),
            ("rows", pa.int64()),
            ("seconds", pa.float64()),
        ]
    ),
    "coefficients": pa.schema(
        [("step", pa.int64()), ("domain", pa.string()), ("coefficient", pa.float64())]
    ),
    "alarms": pa.schema(
        [
            ("step", pa.int64()),
            ("kind", pa.string()),
            ("domain", pa.string()),
            ("message", pa.string()),
        ]
    ),
    "timings": pa.schema([("phase", pa.string()), ("seconds", pa.float64())]),
}


class Listener(Protocol):
    """Somebody who wants rows as they come."""

    def add(self, table: str, row: Mapping[str, Value]) -> None:
        """Takes a row by its columns' names."""


@dataclasses.dataclass(frozen=True)
class LogPart:
    """Rows that wait to be written."""

    step: int
    """Updates done when they were taken."""
    rows: dict[str, list[tuple[Value, ...]]]
    """By table."""


class Records:
    """The tables of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[str, list[tuple[Value, ...]]] = {name: [] for name in TABLES}
        self.clock = Clock()
        self.stream = Stream(folder)
        self.listeners: list[Listener] = [self.stream]

    def add(self, table: str, *values: Value) -> None:
        """Adds a row, its values in the order of the table's columns; NaN is stored as null."""
        nan = (isinstance(v, float) and math.isnan(v) for v in values)
        row = tuple(None if bad else v for v, bad in zip(values, nan, strict=True))
        self._rows[table].append(row)
        named = dict(zip(TABLES[table].names, row, strict=True))
        for listener in self.listeners:
            listener.add(table, named)

    def add_mixture(
        self, step: int, domains: Sequence[str], loss_K: Floats, weights_K: Floats, count_K: Ints
    ) -> None:
        """Adds each domain's loss, sampling weight and rows in one batch."""
        columns = (loss_K.tolist(), weights_K.tolist(), count_K.tolist())
        for domain, loss, weight, count in zip(domains, *columns, strict=True):
            self.add("domain_losses", step, domain, loss)
            self.add("weights", step, domain, weight, count)

    def add_statistics(
        self, step: int, domains: Sequence[str], measured: Statistics, seconds: float
    ) -> None:
        """Adds each domain's gradient statistics and the seconds that all of them took.

        Statistics of the training batch come out of the step's own passes: their seconds are NaN.
        """
        numbers = (
            measured.squared_norm_K.tolist(),
            measured.squared_norm_unbiased_K.tolist(),
            measured.variance_K.tolist(),
            measured.loss_K.tolist(),
            measured.rows_K.astype(np.int64).tolist(),
        )
        for domain, *values in zip(domains, *numbers, strict=True):
            self.add("gradient_statistics", step, domain, *values, seconds)

    def add_coefficients(self, step: int, domains: Sequence[str], coefficient_K: Floats) -> None:
        """Adds each domain's coefficient: how much its loss or gradient counted in the update."""
        for domain, coefficient in zip(domains, coefficient_K.tolist(), strict=True):
            self.add("coefficients", step, domain, coefficient)

    def add_alarms(self, alarms: Iterable[tuple[int, str, str | None, str]]) -> None:
        """Adds alarms: step, kind, domain or None for all of them, and what it means."""
        for alarm in alarms:
            self.add("alarms", *alarm)

    def timed(self, phase: str) -> AbstractContextManager[None]:
        """Counts the block's wall seconds to a phase, but for those of phases within it."""
        return self.clock.timed(phase)

    def drop_after(self, step: int) -> None:
        """Forgets the parts that a killed run wrote behind the checkpoint of `step`."""
        for number, part in self._parts().items():
            if number > step:
                atomic_files.remove(part)
        self.stream.clear()
        self.stream.begin(step)

    def drain(self, step: int) -> LogPart:
        """Hands over the rows since the part before, to be written as `parts/step{step}`."""
        self._rows["timings"] += self.clock.seconds.items()
        self.stream.begin(step)
        rows, self._rows = self._rows, {name: [] for name in TABLES}
        self.clock.seconds.clear()
        return LogPart(step, rows)

    def write(self, part: LogPart) -> None:
        """Writes a part; it appears whole or not at all.

        Raises:
            InputError: the disk is full or the folder cannot be written.
        """
        place = self._folder / "parts" / f"step{part.step}"
        with errors.explain_disk_errors(place), atomic_files.atomic_write(place) as partial:
            partial.mkdir()
            for name, schema in TABLES.items():
                _write(_table(part.rows[name], schema), partial / f"{name}.parquet")
        self.stream.drop_before(part.step)

    def finish(self, step: int) -> list[Path]:
        """Joins the parts into one file per table in the run's folder and returns their paths.

        What was timed since the last part counts, too: above all, that part's own checkpoint.

        Args:
            step: Updates of the whole run.

        Raises:
            InputError: the parts do not hold each step once.
        """
        self.refuse_gaps(step)
        written = []
        for name in TABLES:
            parts = [self._read(part, name) for part in self._parts().values()]
            if name == "timings":
                parts.append(_table(list(self.clock.seconds.items()), TABLES[name]))
            table = pa.concat_tables(parts)
            path = self._folder / f"{name}.parquet"
            with atomic_files.atomic_write(path) as partial:
                _write(_shares(table) if name == "timings" else table, partial)
            written.append(path)
        self.stream.clear()
        return written

    def seconds(self) -> float:
        """Wall seconds of all phases, those before interruptions included; after `finish`."""
        return float(pc.sum(pq.read_table(self._folder / "timings.parquet")["seconds"]).as_py())

    def clear(self) -> None:
        """Deletes the parts, to begin anew."""
        atomic_files.remove(self._folder / "parts")
        self.stream.clear()

    def refuse_gaps(self, step: int) -> None:
        """Refuses a part up to `step` that was lost: nobody would miss its rows afterwards.

        Raises:
            InputError: of what was written before the checkpoint of `step` some is not there.
        """
        parts = {number: part for number, part in self._parts().items() if number <= step}
        columns = [self._read(part, "steps")["step"] for part in parts.values()]
        found = [number for column in columns for number in column.to_pylist()]
        if step not in parts or found != list(range(step)):
            raise InputError(
                f"{self._folder / 'parts'} does not hold all records up to step {step}: delete "
                f"{self._folder / 'checkpoints'} to train the run anew"
            )

    def _read(self, part: Path, name: str) -> pa.Table:
        """A table of a part."""
        path = part / f"{name}.parquet"
        try:
            found = pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            found, problem = None, str(error).splitlines()[0]
        else:
            problem = f"its columns are {', '.join(found.schema.names)}"
        if found is None or found.schema.remove_metadata() != TABLES[name]:
            raise InputError(
                f"{path} is not a whole table of {name} ({problem}): delete "
                f"{self._folder / 'checkpoints'} to train the run anew"
            )
        return found

    def _parts(self) -> dict[int, Path]:
        return atomic_files.steps(self._folder / "parts")


def _table(rows: Sequence[tuple[Value, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _shares(timings: pa.Table) -> pa.Table:
    summed = timings.group_by("phase").aggregate([("seconds", "sum")]).sort_by("phase")
    seconds = summed["seconds_sum"]
    share = pc.divide(seconds, pc.sum(seconds))
    return pa.table({"phase": summed["phase"], "seconds": seconds, "share": share})


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")
