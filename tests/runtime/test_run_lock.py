"""With real processes: a holder is a Python process that says "held" and waits for its input."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from repository import ROOT

from pike_mixing.errors import InputError
from pipeline.runtime import locks

HOLDER = """
import os, pathlib, subprocess, sys
from pipeline.runtime import locks
with locks.acquire_lease(pathlib.Path(sys.argv[1])):
    if "fork" in sys.argv:
        if not (number := os.fork()):
            sys.stdin.read()
            os._exit(0)
    if "start" in sys.argv:
        subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"])
    print("held", flush=True)
    sys.stdin.read()
"""


def start(code, *arguments):
    words = [sys.executable, "-c", code, *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(words, cwd=ROOT, text=True, **pipes)


def answer(process):
    return process.stdout.readline().strip()


@contextlib.contextmanager
def held(folder, *how):
    with start(HOLDER, folder, *how) as process, contextlib.ExitStack() as at_last:
        at_last.callback(process.kill)
        assert answer(process) == "held"
        yield process


def holder_of(folder):
    return json.loads((folder / "lease.json").read_text())


def test_a_lease_is_held_during_the_block_and_leaves_nothing(tmp_path):
    run = tmp_path / "run"
    assert not locks.is_lease_held(run)
    with locks.acquire_lease(run) as lease:
        assert locks.is_lease_held(run)
        assert lease.folder == run
        assert holder_of(run)["pid"] == os.getpid()
        lease.refuse_if_lost()
    assert list(run.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), locks.acquire_lease(run):
        raise KeyboardInterrupt
    assert list(run.iterdir()) == []


def test_a_second_holder_is_refused_and_told_who_holds(tmp_path):
    with held(tmp_path) as holder:
        since = holder_of(tmp_path)["since"]
        with pytest.raises(InputError) as caught, locks.acquire_lease(tmp_path):
            pass
        named = f"process {holder.pid} on {os.uname().nodename} since {since}"
        assert f"is being written by {named}: wait for it or stop it" in str(caught.value)
        # The first still holds.
        assert holder_of(tmp_path)["pid"] == holder.pid


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ("34", "35", "Slurm job 34: wait for it or stop it first (`scancel 34`: it saves"),
        ("34", None, "Slurm job 34: wait for it or stop it first (`scancel 34`: it saves"),
        # Slurm has put the job back into the queue: to cancel it would end both.
        ("34", "34", "UTC: wait for it or stop it first; if its machine"),
        (None, "35", "UTC: wait for it or stop it first; if its machine"),
    ],
)
def test_a_holder_of_slurms_is_named_by_its_job(tmp_path, monkeypatch, theirs, ours, told):
    def be_job(number):
        monkeypatch.setenv(locks.SLURM_JOB, number or "")

    be_job(theirs)
    assert locks.holder_message_if_held(tmp_path) is None
    with locks.acquire_lease(tmp_path):
        be_job(ours)
        assert told in locks.holder_message_if_held(tmp_path)


@pytest.mark.parametrize("how", ["alone", "fork", "start"])
def test_the_lease_of_a_killed_holder_is_taken_over_at_once(tmp_path, how):
    """Before anybody reaps it, and though a process that it forked or started lives on."""
    with held(tmp_path, how) as holder:
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        began = time.monotonic()
        with locks.acquire_lease(tmp_path):
            assert time.monotonic() - began < 1
            assert holder_of(tmp_path)["pid"] == os.getpid()


def test_a_fork_that_ends_leaves_the_lease_to_its_parent(tmp_path):
    with locks.acquire_lease(tmp_path) as lease:
        if not (number := os.fork()):
            with contextlib.suppress(BaseException):
                lease.refuse_if_lost()
            os._exit(0)
        os.waitpid(number, 0)
        assert locks.is_lease_held(tmp_path)
        lease.refuse_if_lost()


def test_a_living_holder_is_waited_for_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "LOOK_SECONDS", 0.01)
    with held(tmp_path) as holder:
        threading.Timer(0.2, holder.kill).start()
        locks.wait_while_lease_held(tmp_path, at_most_minutes=1)
        with locks.acquire_lease(tmp_path):
            pass
    # And no longer than asked.
    with locks.acquire_lease(tmp_path):
        locks.wait_while_lease_held(tmp_path, at_most_minutes=0.001)
        assert locks.is_lease_held(tmp_path)


def test_who_asks_whether_a_lease_is_held_refuses_it_to_nobody(tmp_path):
    (tmp_path / "lease.json").touch()
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            locks.is_lease_held(tmp_path)
            time.sleep(0.01)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(100):
            with locks.acquire_lease(tmp_path):
                pass
            (tmp_path / "lease.json").touch()
    finally:
        stop.set()
        asking.join()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, number):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    told = f"{tmp_path} lies on a file system without locks .*{os.strerror(number)}"
    with pytest.raises(InputError, match=told), locks.acquire_lease(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    # Of another, who holds it since before.
    (tmp_path / "lease.json").write_text("{}")
    with pytest.raises(InputError, match=told), locks.acquire_lease(tmp_path):
        pass
    assert (tmp_path / "lease.json").read_text() == "{}"


def moved(folder):
    folder.rename(folder.with_name("another"))


def replaced(folder):
    moved(folder)
    folder.touch()


def unleased(folder):
    (folder / "lease.json").unlink()


def taken(folder):
    """By another machine, to which the server of the file system gave the lock."""
    (folder / "lease.json").write_text('{"pid": 7, "host": "elsewhere", "since": "now"}')


def mistaken(_):
    raise InputError("a corpus is gone, too")


@pytest.mark.parametrize(
    "notice", [locks.Lease.refuse_if_lost, lambda held: (held.folder / "x").stat(), mistaken]
)
@pytest.mark.parametrize("lose", [moved, replaced, unleased, taken, shutil.rmtree])
def test_a_holder_whose_folder_is_gone_says_so_whatever_it_notices_first(tmp_path, lose, notice):
    run = tmp_path / "run"
    told = pytest.raises(InputError, match=f"{run} was moved or deleted, or the lease in it")
    with told, locks.acquire_lease(run) as lease:
        lose(run)
        notice(lease)
    # Another's lease stays.
    assert lose is not taken or holder_of(run)["host"] == "elsewhere"


@pytest.mark.slow
def test_of_several_that_take_over_at_once_exactly_one_wins(tmp_path):
    """Every second time over a dead holder's file. A lock is of an open file, not of a process."""
    step = threading.Barrier(4)

    def take(folder):
        step.wait()
        try:
            with locks.acquire_lease(folder):
                step.wait()
                return True
        except InputError:
            step.wait()
            return False

    with ThreadPoolExecutor(4) as threads:
        for number in range(10):
            if number % 2:
                (tmp_path / str(number)).mkdir()
                (tmp_path / str(number) / "lease.json").write_text("{}")
            won = threads.map(take, [tmp_path / str(number)] * 4)
            assert sorted(won) == [False, False, False, True], f"round {number}"
