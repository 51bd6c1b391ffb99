"""Harder troubles, with real processes and real disks."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from trained import manifest, outcome, train

from pipeline.__main__ import main

LONG = {"steps": 30, "checkpoint_every": 10, "resume_every": 2, "warmup_steps": 5}


def started(run):
    return (run.parent / "starts.json").exists()


def train_in_background(command, run):
    """Starts the command and waits until the run has begun."""
    process = subprocess.Popen(**command, stderr=subprocess.DEVNULL)
    while not started(run):
        assert process.poll() is None
        time.sleep(0.02)
    return process


@pytest.mark.slow
def test_changed_settings_of_a_killed_run_start_anew(make_run, corpora, pipeline_command):
    run = make_run("run", training={**LONG, "steps": 100_000})
    command = pipeline_command("pretrain", run, "--corpora", corpora, "--device", "cpu")
    process = train_in_background(command, run)
    time.sleep(0.1)
    process.kill()
    process.wait()
    changed = {**LONG, "peak_learning_rate": 0.02}
    result = train(make_run("run", training=changed), corpora)
    assert result == train(make_run("fresh", training=changed), corpora)
    assert manifest(run)["resumes"] == 0


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_freed_space_lets_it_go_on(
    corpora, small_disk, capsys, piked
):
    """Four KiB more are free at each start, so that the disk is full at every kind of write."""
    disk = small_disk(1024)
    expected = outcome(piked)
    run = disk / "run" / "run.json"
    run.parent.mkdir()
    shutil.copy(piked / "run.json", run)
    filler = disk / "filler"
    with filler.open("wb") as file:
        while free(disk):
            file.write(b"0" * min(4096, free(disk)))
            file.flush()
    messages, code = [], 2
    while code == 2:
        with filler.open("r+b") as file:
            file.truncate(filler.stat().st_size - 4096)
        code = main(["pretrain", str(run), "--corpora", str(corpora), "--device", "cpu"])
        messages.append(capsys.readouterr().err)
    assert code == 0
    assert len(messages) > 20
    for message in messages[:-1]:
        assert "No space left on device" in message
        assert "free some space" in message
        assert "Traceback" not in message
    kinds = ("checkpoint", "/parts/", "cannot be written")
    assert all(any(kind in message for message in messages) for kind in kinds)
    assert outcome(run.parent) == expected
    assert not list(Path(disk).rglob("*.part"))


def free(folder):
    return shutil.disk_usage(folder).free
