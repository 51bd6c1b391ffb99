"""Trainings in processes of their own, faults done to them on purpose, and what they leave."""

import dataclasses
import multiprocessing
import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.__main__ import main
from pipeline.model import checkpoint
from pipeline.runtime import atomic_files
from pipeline.training.metric_log import TABLES

CONTEXT = multiprocessing.get_context("forkserver")
# Every process begins with these loaded, which alone would take seconds.
CONTEXT.set_forkserver_preload(["torch._dynamo", "pipeline.__main__", "pipeline.training.train"])

CLOCK = {"seconds", "tokens_per_second", "model_flops_utilisation", "memory_bytes"}
"""Columns that differ from run to run."""
NUMBERS = {
    "steps": ("loss", "gradient_norm"),
    "domain_losses": ("loss",),
    "weights": ("weight", "count"),
    "gradient_statistics": ("squared_norm", "variance", "loss", "rows"),
    "coefficients": ("coefficient",),
}
"""Columns in which runs agree but for the order of sums, by table."""


@dataclasses.dataclass
class Training:
    """One run, of which one process at a time is watched."""

    run: Path
    """Its `run.json`."""
    corpora: Path
    processes: int = 1
    """How many train it together."""
    process: Any = None

    @property
    def folder(self) -> Path:
        return self.run.parent

    def start(self) -> Any:
        """Begins the run, or goes on with it, in a new process."""
        words = ["pretrain", self.run, "--corpora", self.corpora, "--device", "cpu"]
        words += ["--processes", self.processes, "--threads", self.processes]
        given = [str(word) for word in words], self.folder.with_suffix(".log")
        self.process = CONTEXT.Process(target=_pike, args=given)
        self.process.start()
        return self.process

    def reach(self, there: Any, every: float = 0.0005) -> bool:
        """Waits until something is true, seconds between looks; False if the process has ended."""
        while not there():
            if not self.process.is_alive():
                return False
            time.sleep(every)
        return True

    def at(self, step: int) -> None:
        """Starts and waits for a checkpoint of so many updates."""
        self.start()
        assert self.reach(lambda: self.newest() >= step, every=0.005), self.log()

    def end(self, number: int) -> int:
        """Sends a signal to the process; its exit code, or minus the signal that ended it."""
        os.kill(self.process.pid, number)
        return self.wait()

    def wait(self) -> int:
        self.process.join(timeout=120)
        return self.process.exitcode

    def finish(self) -> dict[str, Any]:
        """Starts the run until it is done; what it has left."""
        if not (self.folder / atomic_files.MANIFEST).exists():
            self.start()
            assert self.wait() == 0, self.log()
        return outcome(self.folder)

    def newest(self) -> int:
        """Updates at the newest checkpoint."""
        return max(atomic_files.step_entries(self.folder / "checkpoints"), default=0)

    def writing(self, part: str) -> set[Path]:
        """What lies half written in a part of the run's folder."""
        return set((self.folder / part).glob(".*.part"))

    def log(self) -> str:
        return self.folder.with_suffix(".log").read_text(encoding="utf-8")


def train_together(run: Path, corpora: Path, *options: str, processes: int = 2) -> list[int]:
    """Trains a run on several processes, as torchrun starts them; their exit codes.

    What they say is in the log beside the run's folder.
    """
    words = ["pretrain", run, "--corpora", corpora, "--device", "cpu", *options]
    words += ["--processes", processes, "--threads", processes]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    where = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": processes}
    where["LOCAL_WORLD_SIZE"] = processes
    started = []
    for rank in range(processes):
        own = {key: str(one) for key, one in {**where, "RANK": rank, "LOCAL_RANK": rank}.items()}
        given = [str(word) for word in words], run.parent.with_suffix(".log"), own
        started.append(CONTEXT.Process(target=_pike, args=given))
        started[-1].start()
    for one in started:
        one.join(timeout=1200)
        one.kill()
    return [one.exitcode for one in started]


def _pike(arguments: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
    os.environ.update(environment or {})
    with log.open("a") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    sys.exit(main(arguments))


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run is a function of its settings and data in: everything but the clock."""
    found: dict[str, Any] = {
        "checkpoints": {
            step: atomic_files.sha256(path / checkpoint.MODEL)
            for step, path in atomic_files.step_entries(folder / "checkpoints").items()
        }
    }
    for table in TABLES:
        if table != "timings":
            rows = pq.read_table(folder / f"{table}.parquet")
            found[table] = rows.drop([name for name in CLOCK if name in rows.column_names])
    return found


def cut_off(folder: Path, place: Path, last: int) -> Path:
    """A copy of a run as it stood when it was killed before its checkpoint `last`; its run.json."""
    shutil.copytree(folder, place)
    shutil.rmtree(place / "checkpoints" / f"step{last}")
    (place / atomic_files.MANIFEST).unlink()
    return place / "run.json"
