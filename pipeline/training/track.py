"""`pike track`: runs as their records have them, for a tracker of experiments."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, manifests
from pipeline.training import trackers, watch
from pipeline.training.metric_log import TABLES
from pipeline.training.trackers import Run, Step, Value

NAMED = ("kind", "domain", "task", "shots", "formulation", "metric")
"""Columns that say what a row's numbers are of, in the order of a name's parts."""
_EVALUATED = ("perplexities", "accuracies")
_MADE_FROM = (
    *("device", "processes", "wall_seconds", "parameters", "tokens", "epochs", "resumes"),
    *("inputs", "data_fingerprint", "weights_sha256", "versions"),
)


def track(given: Path, *, to: str, out: Path = Path("tracked")) -> str:
    """Sends runs to a tracker: settings, what they were made from, every step, evaluations.

    Of a run that is not finished it sends what there is. The tracker's files appear in `out`/`to`,
    whole or not at all, in place of those before. Returns how many runs there are, and where.

    Raises:
        InputError: there is no run, a record is damaged, or `out` is somebody else's.
    """
    folders, place = watch.folders(given), out / to
    with atomic_files.atomic_write(place, "track", [given]) as partial:
        partial.mkdir()
        tracker = trackers.TRACKERS[to](partial, place)
        for folder in folders:
            tracker.add(_run(given, folder))
    return f"{place}: {len(folders)} runs"


def _run(given: Path, folder: Path) -> Run:
    values = atomic_files.read_json(folder / "run.json")
    place = folder / atomic_files.MANIFEST
    made: dict[str, Any] = {}
    if place.exists():
        made = manifests.read(place, "pretrain", "train the run again")
    code = {name: made["code"][name] for name in ("fingerprint", "commit")} if made else {}
    origin = {name: made[name] for name in _MADE_FROM if name in made} | {"code": code}
    name = "/".join(folder.relative_to(given).parts or folder.absolute().parts[-4:])
    return Run(
        name=name,
        key=atomic_files.digest([name, values, made.get("files")])[:16],
        settings=dict(_flat(values)) | {f"made_from.{n}": v for n, v in _flat(origin)},
        steps=_steps(folder, finished=bool(made)),
    )


def _flat(values: dict[str, Any]) -> Iterator[tuple[str, Value]]:
    """Values of nested mappings by dotted name; lists as JSON."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{rest}", one) for rest, one in _flat(value))
        else:
            yield name, json.dumps(value) if isinstance(value, list) else value


def _steps(folder: Path, finished: bool) -> list[Step]:
    """What a run's records, and those of its evaluations, say of each step."""
    names = [name for name in TABLES if name != "timings"]
    try:
        if finished:
            tables = {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in names}
        else:
            tables = watch.so_far(folder, names)
        evaluated = folder / "evaluations"
        if (evaluated / atomic_files.MANIFEST).exists():
            for part, name in itertools.product(atomic_files.steps(evaluated).values(), _EVALUATED):
                tables.setdefault(name, []).extend(
                    pq.read_table(part / f"{name}.parquet").to_pylist()
                )
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{folder}: {error}: `pike verify {folder}` names what is damaged"
        ) from error
    result: dict[int, Step] = {}
    for table, rows in tables.items():
        for row in rows:
            _add(result.setdefault(row["step"], Step(row["step"], {}, {})), table, row)
    return [result[step] for step in sorted(result)]


def _add(step: Step, table: str, row: dict[str, Any]) -> None:
    """Adds a row's numbers, each under the name `table/column/domain`."""
    of = "/".join(str(row[name]) for name in NAMED if row.get(name) is not None)
    for column, value in row.items():
        name = f"{table}/{column}/{of}" if of else f"{table}/{column}"
        if column == "message":
            step.texts[name] = value
        elif column not in ("step", *NAMED) and value is not None:
            step.numbers[name] = value
