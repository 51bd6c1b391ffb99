"""Faults that a training can meet, each done to one on purpose; `benchmarks.drill` runs all."""

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.__main__ import main
from pipeline.runtime import atomic_files, run_lock
from pipeline.training.metric_log import TABLES

CLOCK = {"seconds", "tokens_per_second", "model_flops_utilisation", "memory_bytes"}
"""Columns that tell of the machine."""


@dataclasses.dataclass
class Training:
    """One run in a folder of its own, of which one process at a time is watched."""

    folder: Path
    corpora: Path
    process: int = 0
    stale: float = run_lock.STALE_SECONDS
    processes: int = 1
    """How many train it together."""
    codes: list[int] = dataclasses.field(default_factory=list)

    def start(self) -> int:
        """Begins the run, or goes on with it, in a new process."""
        self.process = os.fork()
        if self.process:
            return self.process
        with (self.folder / "log").open("a") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        run_lock.STALE_SECONDS, run_lock.WATCH_SECONDS = self.stale, 0.2
        words = ["pretrain", str(self.folder / "run.json"), "--corpora", str(self.corpora)]
        code = 1
        try:
            shared = ["--processes", str(self.processes), "--threads", str(self.processes)]
            code = main([*words, "--device", "cpu", *shared])
        finally:
            os._exit(code)

    def wait(self, process: int | None = None) -> int:
        """The process's exit code; minus the signal's number where one ended it."""
        code = os.waitstatus_to_exitcode(os.waitpid(process or self.process, 0)[1])
        self.codes.append(code)
        return code

    def reach(self, there: Callable[[], bool]) -> bool:
        """Waits until something is true; False when the process ends before."""
        while not there():
            found = os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                return False
            time.sleep(0.0005)
        return True

    def at(self, step: int) -> bool:
        """Starts and waits for a checkpoint of so many updates."""
        self.start()
        return self.reach(
            lambda: max(atomic_files.steps(self.folder / "checkpoints"), default=0) >= step
        )

    def send(self, number: int) -> int:
        """Sends a signal to the process and waits for its end."""
        os.kill(self.process, number)
        return self.wait()

    def finish(self) -> None:
        """Starts the run again until it is done."""
        for _ in range(3):
            self.start()
            if self.wait() == 0:
                return
        raise RuntimeError((self.folder / "log").read_text())

    def newest(self) -> Path:
        """The newest checkpoint."""
        return list(atomic_files.steps(self.folder / "checkpoints").values())[-1]


def outcome(folder: Path) -> dict[str, object]:
    """What a finished run has left: bits of its kept checkpoints, rows of its records."""
    manifest = atomic_files.read_json(folder / atomic_files.MANIFEST)
    found: dict[str, object] = {"weights": manifest["weights_sha256"]}
    for step in manifest["checkpoints"]:
        model = folder / "checkpoints" / f"step{step}" / "model.safetensors"
        found[f"step{step}"] = atomic_files.sha256(model)
    for name in TABLES:
        if name != "timings":
            rows = pq.read_table(folder / f"{name}.parquet")
            kept = [column for column in rows.column_names if column not in CLOCK]
            found[name] = str(rows.select(kept).to_pylist())
    return found


Drill = Callable[[Training], str]
"""Does one thing to a run, and says what happened."""


def ended(number: int, step: int) -> Drill:
    """A signal at a checkpoint."""

    def drill(run: Training) -> str:
        run.at(step)
        code = run.send(number)
        stands = max(atomic_files.steps(run.folder / "checkpoints"))
        return f"at step {step} or later; exit code {code}, saved up to step {stands}"

    return drill


def noticed(step: int) -> Drill:
    """A signal to save, and the end soon after."""

    def drill(run: Training) -> str:
        run.at(step)
        os.kill(run.process, signal.SIGUSR1)
        time.sleep(0.03)
        code = run.send(signal.SIGKILL)
        return f"at step {step} or later, then SIGKILL; exit code {code}"

    return drill


def while_writing(what: str, number: int) -> Drill:
    """SIGKILL in the midst of a write."""

    def drill(run: Training) -> str:
        run.at(3 * number)
        caught = run.reach(lambda: any((run.folder / what).glob(".*.part")))
        code = run.send(signal.SIGKILL)
        left = len(list((run.folder / what).glob(".*.part")))
        return f"{'caught' if caught else 'missed'}; exit code {code}, {left} half-written left"

    return drill


def often(number: int, steps: list[int]) -> Drill:
    """The same signal several times."""

    def drill(run: Training) -> str:
        for step in steps:
            run.at(step)
            run.send(number)
        return f"at steps {steps}; exit codes {run.codes}"

    return drill


def asleep(run: Training) -> str:
    """A machine that sleeps and wakes."""
    run.at(9)
    os.kill(run.process, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(run.process, signal.SIGCONT)
    return f"half a second at step 9; exit code {run.wait()}"


def doubled(run: Training) -> str:
    """A second process on the run of a living one."""
    run.at(9)
    first = run.process
    os.kill(first, signal.SIGSTOP)
    run.start()
    second = run.wait()
    os.kill(first, signal.SIGCONT)
    return f"the second ended with code {second}, the first with {run.wait(first)}"


def inherited(run: Training) -> str:
    """A second process as soon as the first was killed."""
    run.at(9)
    os.kill(run.process, signal.SIGKILL)
    first = run.process
    run.start()
    code = run.wait()
    run.wait(first)
    return f"the second took over at once, exit code {code}"


def elsewhere(age: float) -> Drill:
    """The lease of a process that died with another machine."""

    def drill(run: Training) -> str:
        run.at(9)
        run.send(signal.SIGKILL)
        shutil.rmtree(run.folder / "lease")
        other = run.folder / "lease" / "0.json"
        atomic_files.write_json(other, {"host": "elsewhere", "pid": 1, "process": "1"})
        os.utime(other, (time.time() - age, time.time() - age))
        run.stale, began = 2.0, time.monotonic()
        run.start()
        code = run.wait()
        waited = time.monotonic() - began > 1
        return f"{'waited, then ' if waited else ''}took over, exit code {code}"

    return drill


def harmed(harm: Callable[[Path], None]) -> Drill:
    """Something is done to the newest checkpoint of a killed run."""

    def drill(run: Training) -> str:
        run.at(12)
        run.send(signal.SIGKILL)
        newest = run.newest()
        harm(newest)
        return f"{newest.name}; went on from an earlier one"

    return drill


def truncate(folder: Path) -> None:
    """Half of the weights are lost."""
    path = folder / "model.safetensors"
    os.truncate(path, path.stat().st_size // 2)


def flip(folder: Path) -> None:
    """One bit of the optimizer's state is wrong."""
    path = next(iter(sorted(folder.glob("training*"))))
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def forget(folder: Path) -> None:
    """The manifest is lost."""
    (folder / atomic_files.MANIFEST).unlink()


def full(run: Training) -> str:
    """The disk is full in the midst of the run, and space is freed."""
    kib = 150
    own = run.folder
    run.folder = own / "disk"
    run.folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(run.folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        run.folder = own
        raise PermissionError("only root can mount a small disk")
    shutil.copy(own / "run.json", run.folder)
    run.start()
    code = run.wait()
    stands = max(atomic_files.steps(run.folder / "checkpoints"), default=0)
    subprocess.run(["mount", "-o", "remount,size=64m", str(run.folder)], check=True)
    run.start()
    last = run.wait()
    shutil.copytree(run.folder, own / "kept")
    subprocess.run(["umount", str(run.folder)], check=True)
    run.folder = own / "kept"
    return f"{kib} KiB; exit code {code} with step {stands} saved; after more space {last}"


def drills(draw: random.Random) -> list[tuple[str, Drill]]:
    """Every drill with the kind of fault that it stands for."""
    steps = [draw.randrange(3, 27, 3) for _ in range(30)]
    term, kill = signal.SIGTERM, signal.SIGKILL
    found = [("preemption: SIGTERM", ended(term, step)) for step in steps[:6]]
    found += [("time limit: SIGUSR1, then SIGKILL", noticed(step)) for step in steps[6:10]]
    found += [("Ctrl-C: SIGINT", ended(signal.SIGINT, step)) for step in steps[10:12]]
    found += [("node or memory lost: SIGKILL", ended(kill, step)) for step in steps[12:18]]
    found += [
        ("SIGKILL while a checkpoint is written", while_writing("checkpoints", n))
        for n in (1, 3, 5)
    ]
    found += [("SIGKILL while records are written", while_writing("parts", n)) for n in (2, 4)]
    found += [("preempted three times", often(term, [3, 12, 21]))]
    found += [("lost three times", often(kill, [3, 12, 21]))]
    found += [("machine asleep: SIGSTOP", asleep)]
    found += [("two jobs on one run", doubled)] * 2
    found += [("killed and started again at once", inherited)] * 2
    found += [("machine lost long ago", elsewhere(age=500))]
    found += [("machine lost a moment ago", elsewhere(age=0))]
    found += [("checkpoint cut in half", harmed(truncate)), ("bit flipped", harmed(flip))]
    found += [("manifest of a checkpoint lost", harmed(forget))]
    found += [("checkpoint deleted", harmed(shutil.rmtree))]
    return [*found, ("disk full", full)]
