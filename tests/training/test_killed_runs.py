"""Harder troubles, with real processes and real disks."""

import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from trained import (
    manifest,
    outcome,
    train,
)

from benchmarks.interruption import LAUNCHER
from pipeline.__main__ import main

LONG = {"steps": 30, "checkpoint_every": 10, "resume_every": 2, "warmup_steps": 5}


def tell(process):
    process.stdin.write("\n")
    process.stdin.flush()


def said(process):
    return process.stdout.readline().strip()


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["pike", "random"])
def test_a_run_killed_at_random_moments_ends_with_the_same_bits(
    make_run, corpora, pike, pipeline_command, run_pipeline, rule
):
    chosen = pike if rule == "pike" else {"rule": rule}
    unbroken = make_run("unbroken", training=LONG, **chosen)
    expected = train(unbroken, corpora)
    run = make_run("broken", training=LONG, **chosen)
    arguments = ["pretrain", run, "--corpora", corpora, "--device", "cpu", "--threads", "1"]
    command = pipeline_command(*arguments)
    command["args"] = [command["args"][0], "-c", LAUNCHER, *command["args"][3:]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    moments, codes = random.Random(rule), []
    with subprocess.Popen(**command, **pipes, text=True) as launcher:
        assert said(launcher) == "ready"
        while len(codes) < 12 and 0 not in codes:
            tell(launcher)
            time.sleep(moments.uniform(0.02, 0.5))
            tell(launcher)
            codes.append(int(said(launcher)))
    assert codes.count(-signal.SIGKILL) >= 3
    assert run_pipeline(*arguments).returncode == 0
    assert outcome(run.parent) == expected
    assert manifest(run)["weights_sha256"] == manifest(unbroken)["weights_sha256"]
    assert manifest(run)["checkpoints"] == [0, 10, 20, 30]
    # A process killed while it asks for the lease leaves its claim, which claims nothing.
    left = {path.name for path in run.parent.iterdir() if not path.name.startswith(".lease.")}
    assert left == {path.name for path in unbroken.parent.iterdir()}


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
def test_of_two_processes_on_one_run_the_second_leaves_with_code_2(
    make_run, corpora, pipeline_command, run_pipeline
):
    run = make_run(training={**LONG, "steps": 100_000})
    arguments = ["pretrain", run, "--corpora", corpora, "--device", "cpu"]
    first = train_in_background(pipeline_command(*arguments), run)
    try:
        second = run_pipeline(*arguments)
        assert second.returncode == 2
        assert f"is being written by process {first.pid} on " in second.stderr
        assert "Traceback" not in second.stderr
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()


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
    kinds = ("checkpoint", "records", "cannot be written")
    assert all(any(kind in message for message in messages) for kind in kinds)
    assert outcome(run.parent) == expected
    assert not list(Path(disk).rglob("*.part"))


def free(folder):
    return shutil.disk_usage(folder).free
