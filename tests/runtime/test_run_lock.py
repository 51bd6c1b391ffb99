"""With real processes: a holder is a Python process that says "held" and waits for its input."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pike_mixing.errors import InputError
from pipeline.runtime import run_lock

ROOT = Path(__file__).resolve().parents[2]

HOLDER = """
import pathlib, sys
from pipeline.runtime import run_lock
from pike_mixing.errors import InputError
run_lock.HEARTBEAT_SECONDS = 0.05
try:
    with run_lock.acquire(pathlib.Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()
except InputError as error:
    print(error, flush=True)
"""


def start(folder):
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answer(process):
    return process.stdout.readline().strip()


def stop(process):
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.wait(timeout=20)
    process.stdout.close()


@pytest.fixture
def holder(tmp_path):
    process = start(tmp_path / "run")
    assert answer(process) == "held"
    yield process
    process.kill()
    stop(process)


def until(true):
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def holder_of(folder):
    (path,) = (folder / "lease").glob("*.json")
    return path, json.loads(path.read_text())


def write_holder(folder, **holder):
    path = folder / "lease" / "0123.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(holder))
    return path


def test_a_lease_is_held_during_the_block_and_leaves_nothing(tmp_path):
    with run_lock.acquire(tmp_path / "run") as held:
        path, holder = holder_of(tmp_path / "run")
        assert held.path == path
        assert held.folder == tmp_path / "run"
        assert holder["pid"] == os.getpid()
    assert list((tmp_path / "run").iterdir()) == []


def test_a_lease_is_given_back_after_an_error(tmp_path):
    with pytest.raises(KeyboardInterrupt), run_lock.acquire(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_second_holder_is_refused_and_told_who_holds(tmp_path, holder):
    with pytest.raises(InputError) as caught, run_lock.acquire(tmp_path / "run"):
        pass
    assert f"is being written by process {holder.pid} on " in str(caught.value)
    assert "wait for it or stop it first" in str(caught.value)
    # The first still holds, and the refused one left nothing.
    assert holder_of(tmp_path / "run")[1]["pid"] == holder.pid
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["lease"]


def test_a_living_holder_is_waited_for_until_it_ends(tmp_path, holder, monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr(run_lock, "WATCH_SECONDS", 0.01)
    threading.Timer(0.2, holder.stdin.close).start()
    run_lock.await_free(tmp_path / "run", minutes=1)
    with run_lock.acquire(tmp_path / "run"):
        pass
    (told,) = caplog.messages
    assert f"is being written by process {holder.pid} on" in told
    assert told.endswith("waiting here for 1 minutes at most")


def test_a_killed_holder_is_waited_for_no_longer_than_until_the_next_look(
    tmp_path, holder, monkeypatch
):
    monkeypatch.setattr(run_lock, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(run_lock, "LOOK_SECONDS", 0.05)
    threading.Timer(0.1, holder.kill).start()
    run_lock.await_free(tmp_path / "run", minutes=1)
    with run_lock.acquire(tmp_path / "run"):
        pass


def test_the_same_process_cannot_hold_it_twice(tmp_path):
    refused = pytest.raises(InputError, match=f"process {os.getpid()} on")
    with run_lock.acquire(tmp_path), refused, run_lock.acquire(tmp_path):
        pass


@pytest.mark.parametrize("reaped", [True, False])
def test_the_lease_of_a_killed_holder_is_taken_over_at_once(tmp_path, holder, reaped):
    holder.send_signal(signal.SIGKILL)
    if reaped:
        holder.wait()
    else:
        # A zombie: dead, but its parent has not asked yet.
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    began = time.monotonic()
    with run_lock.acquire(tmp_path / "run"):
        assert time.monotonic() - began < 1
        assert holder_of(tmp_path / "run")[1]["pid"] == os.getpid()


def test_a_process_with_the_dead_holders_number_is_not_the_holder(tmp_path):
    write_holder(tmp_path, **run_lock._machine(), pid=os.getpid(), process="1")
    with run_lock.acquire(tmp_path) as held:
        assert held.path.exists()


@contextlib.contextmanager
def beating(path):
    """Another machine's heartbeat on a lease."""
    stop = threading.Event()

    def beat():
        number = 0
        while not stop.wait(0.02):
            number += 1
            os.utime(path, (time.time() + number, time.time() + number))

    thread = threading.Thread(target=beat)
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.fixture
def impatient(monkeypatch):
    """Watches a tenth of a second, in which a holder beats five times."""
    monkeypatch.setattr(run_lock, "WATCH_SECONDS", 0.1)


def test_a_holder_on_another_machine_is_refused_at_its_next_heartbeat(tmp_path, impatient):
    path = write_holder(tmp_path, host="elsewhere", pid=1, process="1")
    refused = pytest.raises(InputError, match="by process 1 on elsewhere")
    with beating(path), refused, run_lock.acquire(tmp_path):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [0, 3600])
def test_a_silent_holder_on_another_machine_is_waited_for(tmp_path, impatient, monkeypatch, ahead):
    """Also one of the future, by a clock that was set back: no longer."""
    monkeypatch.setattr(run_lock, "STALE_SECONDS", 0.5)
    path = write_holder(tmp_path, host="elsewhere", pid=1, process="1")
    os.utime(path, (time.time() + ahead,) * 2)
    began = time.monotonic()
    with run_lock.acquire(tmp_path):
        assert holder_of(tmp_path)[1]["pid"] == os.getpid()
    assert 0.3 < time.monotonic() - began < 10


def test_a_holder_on_another_machine_that_ends_meanwhile_is_followed(tmp_path, impatient):
    path = write_holder(tmp_path, host="elsewhere", pid=1, process="1")
    threading.Timer(0.15, path.unlink).start()
    with run_lock.acquire(tmp_path):
        assert holder_of(tmp_path)[1]["pid"] == os.getpid()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_a_lease_that_cannot_be_read_counts_as_another_machines(tmp_path, content, impatient):
    path = write_holder(tmp_path)
    path.write_bytes(content)
    told = f"is being written by another process: .*{path}"
    with beating(path), pytest.raises(InputError, match=told), run_lock.acquire(tmp_path):
        pass
    os.utime(path, (0, 0))
    with run_lock.acquire(tmp_path):
        assert not path.exists()


def test_what_is_no_lease_is_named_and_left(tmp_path):
    path = write_holder(tmp_path, **run_lock._machine(), pid=2**22 + 1, process="1")
    foreign = path.with_name("a note.txt")
    foreign.touch()
    refused = pytest.raises(InputError, match=f"{foreign} was put there by no training: delete")
    with refused, run_lock.acquire(tmp_path):
        pass
    assert foreign.exists()
    path.write_text(
        json.dumps({**run_lock._machine(), "pid": 1, "process": run_lock._process_start(1)})
    )
    with pytest.raises(InputError, match="by process 1 on "), run_lock.acquire(tmp_path):
        pass


def test_a_holder_notices_that_it_was_taken_over(tmp_path):
    with run_lock.acquire(tmp_path) as held:
        held.confirm()
        # Another machine found no sign of life for too long: this one had been asleep.
        path, _ = holder_of(tmp_path)
        path.unlink()
        taken = path.with_name("other.json")
        taken.write_text("{}")
        with pytest.raises(InputError, match="was taken over by another process, since"):
            held.confirm()
        taken.write_text('{"pid": 7, "host": "elsewhere"}')
        with pytest.raises(InputError, match="was taken over by process 7 on elsewhere, since"):
            held.confirm()
    # The lease is the other's now and stays.
    assert taken.exists()


def moved(folder):
    folder.rename(folder.with_name("another"))


def replaced(folder):
    moved(folder)
    folder.touch()


def unleased(folder):
    shutil.rmtree(folder / "lease")


def mistaken(_):
    raise InputError("a corpus is gone, too")


@pytest.mark.parametrize("notice", [run_lock.Lease.confirm, lambda h: h.path.stat(), mistaken])
@pytest.mark.parametrize("lose", [moved, replaced, unleased, shutil.rmtree])
def test_a_holder_whose_folder_is_gone_says_so_whatever_it_notices_first(tmp_path, lose, notice):
    run = tmp_path / "run"
    told = pytest.raises(InputError, match=f"{run} was moved or deleted, or the lease in it")
    with told, run_lock.acquire(run) as held:
        lose(run)
        notice(held)


def test_what_fails_otherwise_under_a_lease_passes_unchanged(tmp_path):
    with pytest.raises(InputError, match="another mistake"), run_lock.acquire(tmp_path):
        raise InputError("another mistake")
    with pytest.raises(FileNotFoundError), run_lock.acquire(tmp_path):
        (tmp_path / "missing").read_text()


def test_a_disk_that_goes_and_comes_back_does_not_end_the_heartbeat(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(run_lock, "HEARTBEAT_SECONDS", 0.01)
    run, away = tmp_path / "run", tmp_path / "away"
    with run_lock.acquire(run) as held:
        for number in (1, 2):
            run.rename(away)
            run.symlink_to(run)
            until(lambda number=number: len(caplog.messages) == number)
            assert "Too many levels of symbolic links" in caplog.messages[-1]
            with pytest.raises(InputError, match=r"cannot be written any more .*Too many"):
                held.confirm()
            time.sleep(0.1)
            run.unlink()
            away.rename(run)
            os.utime(held.path, (0, 0))
            until(lambda: held.path.stat().st_mtime)
            held.confirm()
        assert len(caplog.messages) == 2, "one line each time"


def test_a_heartbeat_keeps_the_lease_fresh(tmp_path, monkeypatch):
    monkeypatch.setattr(run_lock, "HEARTBEAT_SECONDS", 0.01)
    with run_lock.acquire(tmp_path) as held:
        os.utime(held.path, (0, 0))
        until(lambda: time.time() - held.path.stat().st_mtime < 10)


RACER = """
import pathlib, sys, time
from pipeline.runtime import run_lock
from pike_mixing.errors import InputError
folder, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
for number in range(rounds):
    sys.stdin.readline()
    try:
        with run_lock.acquire(folder / str(number)):
            print("won", flush=True)
            sys.stdin.readline()
    except InputError:
        print("lost", flush=True)
        sys.stdin.readline()
"""
ROUNDS = 60


def go(racers):
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()


@pytest.mark.slow
def test_of_several_that_take_over_at_once_exactly_one_wins(tmp_path):
    for number in range(ROUNDS):
        write_holder(tmp_path / str(number), **run_lock._machine(), pid=2**22 + 1, process="1")
    command = [sys.executable, "-c", RACER, tmp_path, str(ROUNDS)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with contextlib.ExitStack() as stack:
        racers = [stack.enter_context(subprocess.Popen(command, cwd=ROOT, **pipes)) for _ in "1234"]
        assert [answer(racer) for racer in racers] == ["ready"] * 4
        for number in range(ROUNDS):
            go(racers)
            results = sorted(answer(racer) for racer in racers)
            assert results == ["lost", "lost", "lost", "won"], f"round {number}"
            go(racers)


@pytest.mark.parametrize("changed", ["boot", "pid_namespace"])
def test_a_number_of_a_process_elsewhere_means_nothing_here(tmp_path, impatient, changed):
    """Two containers may share a host name, and neither sees the other's processes."""
    holder = {**run_lock._machine(), "pid": 2**22 + 1, "process": "1", changed: "another"}
    path = write_holder(tmp_path, **holder)
    with (
        beating(path),
        pytest.raises(InputError, match="is being written"),
        run_lock.acquire(tmp_path),
    ):
        pass
