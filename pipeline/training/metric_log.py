"""What a run writes down at every step, kept so that a killed run neither loses nor repeats a row.

Rows gather in memory and are written as one part at each checkpoint, before the checkpoint itself;
what a killed run wrote behind its last checkpoint is dropped when it goes on. At the end the parts
are joined to one Parquet file per table; they stay, so that a run can go on from any checkpoint.
Rows that no part holds yet can be read from `pipeline.training.live_log`.
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pike_mixing.arrays import Array
from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.runtime import atomic_files
from pipeline.training.live_log import Stream, Value


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

Rows = dict[str, list[dict[str, Value]]]
"""By table, each with its columns' names."""


class Records:
    """The tables of one run."""

    def __init__(self, folder: Path, domains: Sequence[str]) -> None:
        self._folder, self._domains = folder, domains
        self._rows: Rows = {name: [] for name in TABLES}
        self.clock = Clock()
        self.timed = self.clock.timed
        """Counts the block's wall seconds to a phase, but for those of phases within it."""
        self.stream = Stream(folder)
        self.listeners: list[Callable[[str, Mapping[str, Value]], None]] = [self.stream.add]
        """Who is given the table and the columns of each row as it comes."""

    def add(self, table: str, **values: Value) -> None:
        """Adds a row by its columns' names, all of them; NaN is stored as null."""
        names = TABLES[table].names
        assert values.keys() == set(names), f"{table}: {sorted(values)}"
        row = {n: None if isinstance(v := values[n], float) and isnan(v) else v for n in names}
        self._rows[table].append(row)
        for listener in self.listeners:
            listener(table, row)

    def add_domains(self, table: str, step: int, **columns_K: Array) -> None:
        """Adds a row for each domain, from columns over the domains."""
        lists = {name: values_K.tolist() for name, values_K in columns_K.items()}
        for k, domain in enumerate(self._domains):
            self.add(table, step=step, domain=domain, **{n: v[k] for n, v in lists.items()})

    def drop_after(self, step: int) -> None:
        """Forgets the parts that a killed run wrote behind the checkpoint of `step`."""
        for number, part in self._parts().items():
            if number > step:
                atomic_files.remove(part)
        self.stream.clear()
        self.stream.begin(step)

    def drain(self, step: int) -> Rows:
        """Hands over the rows since the part before, to be written as `parts/step{step}`."""
        self._rows["timings"] += self._timings()
        self.stream.begin(step)
        rows, self._rows = self._rows, {name: [] for name in TABLES}
        self.clock.seconds.clear()
        return rows

    def write(self, step: int, rows: Rows) -> None:
        """Writes a part; it appears whole or not at all.

        Raises:
            InputError: the disk is full or the folder cannot be written.
        """
        place = self._folder / "parts" / f"step{step}"
        with errors.explain_disk_errors(place), atomic_files.atomic_write(place) as partial:
            partial.mkdir()
            for name, schema in TABLES.items():
                _write(pa.Table.from_pylist(rows[name], schema), partial / f"{name}.parquet")
        self.stream.drop_before(step)

    def finish(self, step: int) -> list[Path]:
        """Joins the parts of so many updates into one file per table; returns the files' paths.

        What was timed since the last part counts, too: above all, that part's own checkpoint.

        Raises:
            InputError: the parts do not hold each step once.
        """
        self.refuse_gaps(step)
        written = []
        for name in TABLES:
            parts = [self._read(part, name) for part in self._parts().values()]
            if name == "timings":
                parts.append(pa.Table.from_pylist(self._timings(), TABLES[name]))
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
        """Raises InputError where a part up to `step` was lost: nothing later would notice."""
        parts = {number: part for number, part in self._parts().items() if number <= step}
        columns = [self._read(part, "steps")["step"] for part in parts.values()]
        result = [number for column in columns for number in column.to_pylist()]
        if step not in parts or result != list(range(step)):
            raise InputError(
                f"{self._folder / 'parts'} does not hold all records up to step {step}: delete "
                f"{self._folder / 'checkpoints'} to train the run anew"
            )

    def _read(self, part: Path, name: str) -> pa.Table:
        path = part / f"{name}.parquet"
        try:
            result = pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            errors.refuse_shortage(error)
            result, problem = None, str(error).splitlines()[0]
        else:
            problem = f"its columns are {', '.join(result.schema.names)}"
        if result is None or result.schema.remove_metadata() != TABLES[name]:
            raise InputError(
                f"{path} is not a whole table of {name} ({problem}): delete "
                f"{self._folder / 'checkpoints'} to train the run anew"
            )
        return result

    def _timings(self) -> list[dict[str, Value]]:
        return [{"phase": phase, "seconds": s} for phase, s in self.clock.seconds.items()]

    def _parts(self) -> dict[int, Path]:
        return atomic_files.steps(self._folder / "parts")


def _shares(timings: pa.Table) -> pa.Table:
    summed = timings.group_by("phase").aggregate([("seconds", "sum")]).sort_by("phase")
    seconds = summed["seconds_sum"]
    share = pc.divide(seconds, pc.sum(seconds))
    return pa.table({"phase": summed["phase"], "seconds": seconds, "share": share})


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")
