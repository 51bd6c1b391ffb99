"""`pike track`: runs as their records have them, for a tracker of experiments.

W&B, MLflow or TensorBoard get files that need no server. Each tracker imports its package when it
is made: not everybody has it (extras wandb, mlflow, tensorboard).
"""

import importlib
import itertools
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, manifests
from pipeline.runtime.programs import program_command
from pipeline.training import metric_log, watch
from pipeline.training.metric_log import TABLES, Value

NAMED = ("kind", "domain", "task", "shots", "formulation", "metric")
"""Columns that say what a row's numbers are of, in the order of a name's parts."""
_EVALUATED = ("perplexities", "accuracies")
_MADE_FROM = (
    *("device", "processes", "wall_seconds", "parameters", "tokens", "epochs", "resumes"),
    *("inputs", "data_fingerprint", "weights_sha256", "versions"),
)

PROJECT = "pike"
"""The project of W&B, the experiment of MLflow."""
_MOST_METRICS, _MOST_PARAMETERS = 1000, 100
"""Of one request to MLflow."""


class TrackedStep(NamedTuple):
    """All that is known of a step."""

    step: int
    """Updates before it."""
    numbers: dict[str, float]
    """By name: `steps/loss`, `weights/weight/en`; losses in nats."""
    texts: dict[str, str]
    """By name: messages of alarms."""


class TrackedRun(NamedTuple):
    name: str
    key: str
    """Tells it from runs of its name with other settings or results."""
    settings: Mapping[str, Value]
    """By dotted name: its settings, and what it was made from."""
    steps: list[TrackedStep]
    """In ascending order."""


class OfflineWandB:
    """Offline runs, which `wandb sync` uploads, under one id however often."""

    def __init__(self, folder: Path, final_folder: Path) -> None:
        self._wandb: Any = importlib.import_module("wandb")
        self._folder = folder
        self._quiet = self._wandb.Settings(
            console="off", silent=True, disable_git=True, disable_code=True, x_disable_stats=True
        )

    def add(self, run: TrackedRun) -> None:
        with self._wandb.init(
            project=PROJECT,
            name=run.name,
            id=run.key,
            dir=self._folder,
            config=dict(run.settings),
            mode="offline",
            settings=self._quiet,
        ) as made:
            for step, numbers, texts in run.steps:
                made.log({**numbers, **texts}, step=step)


class MLflow:
    """Runs in `mlflow.db`, or at the server of MLFLOW_TRACKING_URI, which keeps those it has."""

    def __init__(self, folder: Path, final_folder: Path) -> None:
        for package in ("sqlalchemy", "alembic"):
            importlib.import_module(package)
        self._mlflow: Any = importlib.import_module("mlflow")
        # It tells each migration of a new file.
        logging.getLogger("alembic").setLevel(logging.WARNING)
        server = os.environ.get("MLFLOW_TRACKING_URI")
        self._client = self._mlflow.MlflowClient(server or f"sqlite:///{folder}/mlflow.db")
        artifacts = None if server else (final_folder / "artifacts").absolute().as_uri()
        known = self._client.get_experiment_by_name(PROJECT)
        self._experiment: str = (
            known.experiment_id if known else self._client.create_experiment(PROJECT, artifacts)
        )

    def add(self, run: TrackedRun) -> None:
        """Logs the run, unless it is there; what was cut short is logged anew."""
        client, entities = self._client, self._mlflow.entities
        for found in client.search_runs([self._experiment], f"tags.pike_key = '{run.key}'"):
            if found.info.status == "FINISHED":
                return
            client.delete_run(found.info.run_id)
        texts = {
            f"{n} at step {step}": text for step, _, own in run.steps for n, text in own.items()
        }
        tags = {"pike_key": run.key, **texts}
        made = client.create_run(self._experiment, run_name=run.name, tags=tags).info.run_id
        now = int(time.time() * 1000)
        settings = [entities.Param(name, str(value)) for name, value in run.settings.items()]
        numbers = [
            entities.Metric(name, value, now, step)
            for step, own, _ in run.steps
            for name, value in own.items()
        ]
        for first in range(0, len(settings), _MOST_PARAMETERS):
            client.log_batch(made, params=settings[first : first + _MOST_PARAMETERS])
        for first in range(0, len(numbers), _MOST_METRICS):
            client.log_batch(made, metrics=numbers[first : first + _MOST_METRICS])
        client.set_terminated(made)


class TensorBoard:
    """Event files, in a folder for each run."""

    def __init__(self, folder: Path, final_folder: Path) -> None:
        self._writer: Any = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self._folder = folder

    def add(self, run: TrackedRun) -> None:
        with self._writer(str(self._folder / run.name)) as writer:
            writer.add_text("settings", f"```json\n{json.dumps(run.settings, indent=2)}\n```")
            for step, numbers, texts in run.steps:
                for name, value in numbers.items():
                    writer.add_scalar(name, value, step)
                for name, text in texts.items():
                    writer.add_text(name, text, step)


TRACKERS: dict[str, type[OfflineWandB | MLflow | TensorBoard]] = {
    "wandb": OfflineWandB,
    "mlflow": MLflow,
    "tensorboard": TensorBoard,
}
"""By name. Each is given the folder to write to and where that folder will lie in the end; its
`add` takes one run after the other."""


def track_runs(given: Path, *, to: str, out: Path = Path("tracked")) -> str:
    """Sends runs to a tracker: settings, what they were made from, every step, evaluations.

    Of a run that is not finished it sends what there is. Sending again replaces the files.

    Args:
        given: A run's folder, or one that holds runs, such as `results`.
        to: One of `TRACKERS`.
        out: Folder in whose subfolder `to` the tracker's files appear, whole or not at all.

    Returns:
        How many runs there are, and where.

    Raises:
        InputError: there is no run, a record is damaged, or `out` is somebody else's.
    """
    folders, place = watch.run_folders_or_refuse(given), out / to
    with atomic_files.atomic_write(place, "track", [given]) as partial:
        partial.mkdir()
        tracker = TRACKERS[to](partial, place)
        for folder in folders:
            tracker.add(_read_tracked_run(given, folder))
    return f"{place}: {len(folders)} runs"


def _read_tracked_run(root: Path, folder: Path) -> TrackedRun:
    values = atomic_files.read_json(folder / "run.json")
    place = folder / atomic_files.MANIFEST
    made: dict[str, Any] = {}
    if place.exists():
        made = manifests.read_manifest(place, "pretrain", "train the run again")
    code = {name: made["code"][name] for name in ("fingerprint", "commit")} if made else {}
    origin = {name: made[name] for name in _MADE_FROM if name in made} | {"code": code}
    name = "/".join(folder.relative_to(root).parts or folder.absolute().parts[-4:])
    return TrackedRun(
        name=name,
        key=atomic_files.json_digest([name, values, made.get("files")])[:16],
        # MLflow takes names for paths, which must not lead upwards.
        settings=dict(_flatten(values))
        | {f"made_from.{n.replace('../', '')}": v for n, v in _flatten(origin)},
        steps=_read_tracked_steps(folder, is_finished=bool(made)),
    )


def _flatten(values: dict[str, Any]) -> Iterator[tuple[str, Value]]:
    """Values of nested mappings by dotted name; lists as JSON."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{rest}", one) for rest, one in _flatten(value))
        else:
            yield name, json.dumps(value) if isinstance(value, list) else value


def _read_tracked_steps(folder: Path, is_finished: bool) -> list[TrackedStep]:
    """What a run's records, and those of its evaluations, say of each step."""
    names = [name for name in TABLES if name != "timings"]
    try:
        if is_finished:
            tables = {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in names}
        else:
            tables = metric_log.read_log_file_rows(folder, names)
        evaluated = folder / "evaluations"
        if (evaluated / atomic_files.MANIFEST).exists():
            for part, name in itertools.product(
                atomic_files.step_entries(evaluated).values(), _EVALUATED
            ):
                tables.setdefault(name, []).extend(
                    pq.read_table(part / f"{name}.parquet").to_pylist()
                )
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{folder}: {error}: `{program_command('pike')} verify {folder}` names what is damaged"
        ) from error
    result: dict[int, TrackedStep] = {}
    for table, rows in tables.items():
        for row in rows:
            _add_row(result.setdefault(row["step"], TrackedStep(row["step"], {}, {})), table, row)
    return [result[step] for step in sorted(result)]


def _add_row(step: TrackedStep, table: str, row: dict[str, Any]) -> None:
    """Adds a row's numbers, each under the name `table/column/domain`."""
    of = "/".join(str(row[name]) for name in NAMED if row.get(name) is not None)
    for column, value in row.items():
        name = f"{table}/{column}/{of}" if of else f"{table}/{column}"
        if column == "message":
            step.texts[name] = value
        elif column not in ("step", *NAMED) and value is not None:
            step.numbers[name] = value
