"""Where `pike track` sends runs: W&B, MLflow or TensorBoard, as files that need no server.

Each imports its package when it is made: not everybody has it (extras wandb, mlflow, tensorboard).
"""

import importlib
import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

Value = int | float | str | bool | None

PROJECT = "pike"
"""The project of W&B, the experiment of MLflow."""
_MOST_METRICS, _MOST_PARAMETERS = 1000, 100
"""Of one request to MLflow."""


class Step(NamedTuple):
    """All that is known of a step."""

    step: int
    """Updates before it."""
    numbers: dict[str, float]
    """By name: `steps/loss`, `weights/weight/en`; losses in nats."""
    texts: dict[str, str]
    """By name: messages of alarms."""


class Run(NamedTuple):
    """One run."""

    name: str
    key: str
    """Tells it from runs of its name with other settings or results."""
    settings: Mapping[str, Value]
    """By dotted name: its settings, and what it was made from."""
    steps: list[Step]
    """In ascending order."""


class WandB:
    """Offline runs, which `wandb sync` uploads, under one id however often."""

    def __init__(self, folder: Path, place: Path) -> None:
        self._wandb: Any = importlib.import_module("wandb")
        self._folder = folder
        self._quiet = self._wandb.Settings(
            console="off", silent=True, disable_git=True, disable_code=True, x_disable_stats=True
        )

    def add(self, run: Run) -> None:
        """Writes an offline run."""
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

    def __init__(self, folder: Path, place: Path) -> None:
        for package in ("sqlalchemy", "alembic"):
            importlib.import_module(package)
        self._mlflow: Any = importlib.import_module("mlflow")
        # It tells each migration of a new file.
        logging.getLogger("alembic").setLevel(logging.WARNING)
        server = os.environ.get("MLFLOW_TRACKING_URI")
        self._client = self._mlflow.MlflowClient(server or f"sqlite:///{folder}/mlflow.db")
        artifacts = None if server else (place / "artifacts").absolute().as_uri()
        known = self._client.get_experiment_by_name(PROJECT)
        self._experiment: str = (
            known.experiment_id if known else self._client.create_experiment(PROJECT, artifacts)
        )

    def add(self, run: Run) -> None:
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

    def __init__(self, folder: Path, place: Path) -> None:
        self._writer: Any = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self._folder = folder

    def add(self, run: Run) -> None:
        """Writes an event file."""
        with self._writer(str(self._folder / run.name)) as writer:
            writer.add_text("settings", f"```json\n{json.dumps(run.settings, indent=2)}\n```")
            for step, numbers, texts in run.steps:
                for name, value in numbers.items():
                    writer.add_scalar(name, value, step)
                for name, text in texts.items():
                    writer.add_text(name, text, step)


TRACKERS: dict[str, type[WandB | MLflow | TensorBoard]] = {
    "wandb": WandB,
    "mlflow": MLflow,
    "tensorboard": TensorBoard,
}
"""By name; each is given the folder to write to, and where that folder will lie in the end. It
takes one run after the other."""
