"""With real processes, and GPUs that are names: nothing here asks CUDA for anything."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pipeline import gpus

ROOT = Path(__file__).resolve().parents[1]

TAKER = """
import os, pathlib, sys
from pipeline import gpus
gpus.WAIT_SECONDS = 0.02
print(gpus.take(pathlib.Path(sys.argv[1])), os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start(tmp_path):
    """Starts a process that takes a GPU of four and holds it."""
    started = []

    def begin(names="0,1,2,3"):
        process = subprocess.Popen(
            [sys.executable, "-c", TAKER, tmp_path / "locks"],
            cwd=ROOT,
            env={**os.environ, gpus.VISIBLE: names},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_processes_that_start_together_take_different_gpus(start):
    processes = [start() for _ in range(4)]
    answers = [process.stdout.readline().split() for process in processes]
    assert Counter(taken for taken, _ in answers) == Counter("0123")
    # Each shows itself the one that it took, and no other.
    assert all(taken == shown for taken, shown in answers)


def test_one_more_waits_for_a_gpu_and_takes_that_of_a_killed_process(start):
    first, second = start("a,b"), start("a,b")
    taken = {process: process.stdout.readline().split()[0] for process in (first, second)}
    third = start("a,b")
    with pytest.raises(subprocess.TimeoutExpired):
        third.wait(timeout=0.5)
    second.kill()
    assert third.stdout.readline().split()[0] == taken[second]


def test_a_single_gpu_is_shared_and_none_is_no_matter(tmp_path, monkeypatch):
    for names in ("GPU-0a1b", ""):
        monkeypatch.setenv(gpus.VISIBLE, names)
        assert gpus.take(tmp_path / "locks") is None
        assert os.environ[gpus.VISIBLE] == names
    assert not (tmp_path / "locks").exists()


def test_the_driver_is_asked_where_the_environment_says_nothing(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho GPU-1\necho GPU-2\n")
    program.chmod(0o755)
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.visible() == ["GPU-1", "GPU-2"]
    program.write_text("#!/bin/sh\nexit 9\n")
    assert gpus.visible() == []
