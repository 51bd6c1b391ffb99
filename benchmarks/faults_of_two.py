"""Faults that a training on several processes can meet, each done to one on purpose."""

import os
import signal
import time

from benchmarks.faults import Drill, Training, ended
from pipeline.runtime import atomic_files


def first(run: Training) -> int:
    """The first of the processes: it holds the lease."""
    (path,) = run.folder.glob("lease/*.json")
    return int(atomic_files.read_json(path)["pid"])


def one_killed(run: Training) -> str:
    """One of the processes that torchrun started is killed."""
    run.at(9)
    os.kill(first(run), signal.SIGKILL)
    return f"at step 9 or later; torchrun ended the other, exit code {run.wait()}"


def torchrun_killed(run: Training) -> str:
    """Nobody looks after the processes any more, and the run is started again beside them."""
    run.at(9)
    orphan = first(run)
    os.kill(orphan, signal.SIGSTOP)
    run.send(signal.SIGKILL)
    run.start()
    code = run.wait()
    os.kill(orphan, signal.SIGCONT)
    while any(run.folder.glob("lease/*")):
        time.sleep(0.01)
    return f"at step 9 or later; started again beside its processes, refused with code {code}"


def drills() -> list[tuple[str, Drill]]:
    """Drills of a run that two processes train together, as torchrun starts them."""
    return [
        ("two processes: SIGTERM to torchrun", ended(signal.SIGTERM, 9)),
        ("two processes: SIGINT to torchrun", ended(signal.SIGINT, 9)),
        ("two processes: SIGKILL to one", one_killed),
        ("two processes: SIGKILL to torchrun", torchrun_killed),
    ]
