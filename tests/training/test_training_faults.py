"""Faults done to real trainings on purpose: the same command ends with the same bits.

What is done to a folder while nothing trains: test_going_on.py and tests/model/test_checkpoint.py.
"""

import os
import random
import shutil
import signal
import time

import pytest
from faults import Training, outcome, train_together

from pipeline.runtime import atomic_files

pytestmark = pytest.mark.slow

TERM, KILL, STOP, CONT = signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT
LONG = {"steps": 160, "checkpoint_every": 40, "resume_every": 4, "resume_keep": 3}
LARGE = {"layers": 2, "width": 128, "heads": 4, "head_width": 32}
"""So large that a checkpoint takes a while to write."""


@pytest.fixture
def begin(make_run, corpora, pike):
    """Makes a training that has not begun; those that hang are killed at the end."""
    made = []

    def make(name="run", processes=1, **changes):
        run = make_run(name, training=LONG, **{**pike, **changes})
        made.append(Training(run, corpora, processes))
        return made[-1]

    yield make
    for training in made:
        if training.process is not None:
            training.process.kill()
            training.process.join()


def stopped(run):
    """Preempted, cancelled: it saves and says that it may be started again."""
    for _ in range(2):
        run.at(run.newest() + 4)
        assert run.end(TERM) == 75
        told = "the same command goes on from the last checkpoint"
        assert f"stopped by SIGTERM; {told}" in run.log()
        assert not list(run.folder.glob("lease*"))
    assert len(atomic_files.read_json(run.folder / "starts.json")) == 2


def saved(run):
    """Asked to save where nothing is due, it does and goes on; and it is killed soon after."""
    run.at(run.newest() + 4)

    def between():
        # What is asked in a step where a checkpoint is due leaves none besides it: asked again.
        os.kill(run.process.pid, signal.SIGUSR1)
        time.sleep(0.05)
        return any(step % 4 for step in atomic_files.step_entries(run.folder / "checkpoints"))

    assert run.reach(between)
    assert run.end(KILL) == -KILL


def while_writing(run):
    run.at(run.newest() + 4)
    assert run.reach(lambda: run.writing("checkpoints"))
    assert run.end(KILL) == -KILL


def doubled(run):
    """The second of two leaves at once, the first goes on."""
    run.at(run.newest() + 4)
    first = run.process
    os.kill(first.pid, STOP)
    run.start()
    assert run.wait() == 2
    assert f"is being written by process {first.pid} on " in run.log()
    assert "Traceback" not in run.log()
    run.process = first
    os.kill(first.pid, CONT)


def moved(run):
    """With a whole results folder, or by hand."""
    away = run.folder.with_name("away")
    run.folder.rename(away)
    assert run.wait() == 2
    assert f"{run.folder} was moved or deleted, or the lease in it" in run.log()
    assert "Traceback" not in run.log()
    # What was being written.
    shutil.rmtree(run.folder, ignore_errors=True)
    away.rename(run.folder)


def test_a_run_ends_with_the_bits_of_one_that_nothing_happened_to(begin):
    """SIGTERM, SIGUSR1, SIGKILL while a checkpoint is written, two processes, the folder moved."""
    run, plain = begin(), begin("plain")
    for fault in (stopped, saved, while_writing, doubled, moved):
        fault(run)
    assert run.finish() == plain.finish()


def test_a_run_killed_again_and_again_ends_with_the_same_bits(begin):
    """At random moments from the first look at the folder on, every second time as it writes."""
    plain, run = (begin(name, model=LARGE) for name in ("plain", "run"))
    draw, codes, writing = random.Random(1), [], 0
    while len(codes) < 4 and 0 not in codes:
        before = run.writing("checkpoints")
        run.start()
        if len(codes) % 2:
            time.sleep(draw.uniform(0.02, 0.5))
        else:
            run.reach(lambda before=before: run.writing("checkpoints") - before)
        codes.append(run.end(KILL) if run.process.is_alive() else run.wait())
        writing += bool(run.writing("checkpoints") - before)
    assert codes.count(-KILL) >= 2
    assert writing
    assert run.finish() == plain.finish()
    assert not list(run.folder.rglob("*.part"))
    assert {path.name for path in run.folder.iterdir()} == {
        path.name for path in plain.folder.iterdir()
    }


def first_of(run):
    """The first of several processes: it holds the lease."""
    return int(atomic_files.read_json(run.folder / "lease.json")["pid"])


def test_a_run_of_two_processes_ends_with_the_same_bits_too(begin, corpora):
    plain, run = begin("plain"), begin(processes=2)
    assert train_together(plain.run, corpora) == [0, 0], plain.log()
    # torchrun ends the other.
    run.at(4)
    os.kill(first_of(run), KILL)
    assert run.wait() == 1
    # Of a killed process the other says what it met.
    begun = len(run.log())
    run.at(run.newest() + 4)
    assert run.end(TERM) == 75
    assert run.log().count("stopped by SIGTERM; the same command goes on") == 1
    # Where torchrun itself is killed, its processes are left alone beside the next start.
    run.at(run.newest() + 4)
    orphan = first_of(run)
    os.kill(orphan, STOP)
    run.end(KILL)
    run.start()
    refused = run.wait()
    os.kill(orphan, CONT)
    assert refused == 2
    assert run.log().count(f"is being written by process {orphan} on ") == 1
    assert "Traceback" not in run.log()[begun:]
    while (run.folder / "lease.json").exists():
        time.sleep(0.01)
    assert run.finish() == outcome(plain.folder)
    found = atomic_files.read_json(run.folder / atomic_files.MANIFEST)
    assert (found["processes"], found["resumes"]) == (2, 2)
