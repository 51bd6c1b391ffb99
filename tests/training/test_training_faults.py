"""Faults done to real trainings on purpose: the same command ends with the same bits.

What is done to a folder while nothing trains: test_going_on.py and tests/model/test_checkpoint.py.
"""

import os
import random
import shutil
import signal
import time

import pytest
from faults import Training

from pipeline.runtime import atomic_files

pytestmark = pytest.mark.slow

TERM, KILL, STOP, CONT = signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
LONG = {"steps": 80, "checkpoint_every": 20, "resume_every": 4, "resume_keep": 3}
LARGE = {"layers": 2, "width": 128, "heads": 4, "head_width": 32}


@pytest.fixture
def begin(make_run, corpora, pike):
    """Makes a training that has not begun; those that hang are killed at the end."""
    made = []

    def make(name="run", **changes):
        run = make_run(name, training=LONG, **{**pike, **changes})
        made.append(Training(run, corpora))
        return made[-1]

    yield make
    for training in made:
        if training.process is not None:
            training.process.kill()
            training.process.join()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory, write_run, corpora, pike):
    """What a run leaves that nothing happens to, by number of processes."""

    def finished(processes):
        place = tmp_path_factory.mktemp("unbroken") / "run"
        return Training(write_run(place, training=LONG, **pike), corpora, processes).finish()

    kept = {}
    return lambda processes=1: (
        kept.get(processes) or kept.setdefault(processes, finished(processes))
    )


def stopped(run):
    """Preempted, cancelled: it saves and says that it may be started again."""
    for step in (3, 12, 21):
        run.at(step)
        assert run.end(TERM) == 75
        told = "the same command goes on from the last checkpoint"
        assert f"stopped by SIGTERM; {told}" in run.log()
        assert not list(run.folder.glob("lease*"))
    assert len(atomic_files.read_json(run.folder / "starts.json")) == 3


def saved(run):
    """Asked to save where nothing is due, it does and goes on; and it is killed soon after."""
    run.at(9)

    def between():
        # What is asked in a step where a checkpoint is due leaves none besides it: asked again.
        os.kill(run.process.pid, signal.SIGUSR1)
        time.sleep(0.05)
        return any(step % 4 for step in atomic_files.steps(run.folder / "parts"))

    assert run.reach(between)
    assert run.end(KILL) == -KILL


def while_writing(run):
    run.at(9)
    assert run.reach(lambda: run.writing("parts"))
    assert run.end(KILL) == -KILL


def asleep(run):
    run.at(9)
    os.kill(run.process.pid, STOP)
    time.sleep(0.5)
    os.kill(run.process.pid, CONT)
    assert run.wait() == 0


def doubled(run):
    """The second of two leaves at once, the first goes on."""
    run.at(9)
    first = run.process
    os.kill(first.pid, STOP)
    run.start()
    assert run.wait() == 2
    assert f"is being written by process {first.pid} on " in run.log()
    assert "Traceback" not in run.log()
    run.process = first
    os.kill(first.pid, CONT)
    assert run.wait() == 0


def moved(run):
    """With a whole results folder, or by hand."""
    run.at(9)
    away = run.folder.with_name("away")
    run.folder.rename(away)
    assert run.wait() == 2
    assert f"{run.folder} was moved or deleted, or the lease in it" in run.log()
    assert "Traceback" not in run.log()
    # What was being written.
    shutil.rmtree(run.folder, ignore_errors=True)
    away.rename(run.folder)


FAULTS = {
    "SIGTERM three times": stopped,
    "SIGUSR1, then SIGKILL": saved,
    "SIGKILL while records are written": while_writing,
    "SIGSTOP, then SIGCONT": asleep,
    "two processes on one run": doubled,
    "the folder moved": moved,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_ends_with_the_bits_of_one_that_nothing_happened_to(begin, unbroken, fault):
    run = begin()
    FAULTS[fault](run)
    assert run.finish() == unbroken()


@pytest.mark.parametrize("rule", ["pike", "random"])
def test_a_run_killed_again_and_again_ends_with_the_same_bits(begin, rule):
    """At random moments from the first look at the folder on, every third time while it writes."""
    chosen = {} if rule == "pike" else {"rule": rule, "method": {}}
    plain, run = (begin(name, model=LARGE, **chosen) for name in ("plain", "run"))
    draw, codes, writing = random.Random(rule), [], 0
    while len(codes) < 12 and 0 not in codes:
        before = run.writing("checkpoints")
        run.start()
        if len(codes) % 3:
            time.sleep(draw.uniform(0.02, 0.5))
        else:
            run.reach(lambda before=before: run.writing("checkpoints") - before)
        codes.append(run.end(KILL) if run.process.is_alive() else run.wait())
        writing += bool(run.writing("checkpoints") - before)
    assert codes.count(-KILL) >= 3
    assert writing
    assert run.finish() == plain.finish()
    assert not list(run.folder.rglob("*.part"))
    assert {path.name for path in run.folder.iterdir()} == {
        path.name for path in plain.folder.iterdir()
    }


def first_of(run):
    """The first of several processes: it holds the lease."""
    return int(atomic_files.read_json(run.folder / "lease.json")["pid"])


def one_killed(run):
    """torchrun ends the other."""
    run.at(9)
    os.kill(first_of(run), KILL)
    assert run.wait() == 1


def torchrun_killed(run):
    """Its processes are left alone, and the run is started again beside them."""
    run.at(9)
    orphan = first_of(run)
    os.kill(orphan, STOP)
    run.end(KILL)
    run.start()
    assert run.wait() == 2
    assert run.log().count(f"is being written by process {orphan} on ") == 1
    assert "Traceback" not in run.log()
    os.kill(orphan, CONT)
    while (run.folder / "lease.json").exists():
        time.sleep(0.01)


def torchrun_stopped(run):
    run.at(9)
    assert run.end(TERM) == 75
    assert run.log().count("stopped by SIGTERM; the same command goes on") == 1
    assert "Traceback" not in run.log()


@pytest.mark.parametrize("fault", [one_killed, torchrun_killed, torchrun_stopped])
def test_a_run_of_two_processes_ends_with_the_same_bits_too(begin, unbroken, fault):
    run = begin()
    run.processes = 2
    fault(run)
    assert run.finish() == unbroken(2)
