"""Faults that a workflow on one machine meets, on purpose: nothing is lost and nothing changed.

Those of the training alone, as a full disk and damaged checkpoints: tests/training.
"""

import os
import re
import signal

from pipeline.runtime import atomic_files

FOLDER = "results/runs/words/tiny/mix/seed0"


def begun(project, updates, *options):
    """A workflow that trains mix and has reached so many updates."""
    process = project.start("--cores", 1, *options, project.manifest("mix"))
    project.reach("mix", updates, process)
    return process


def test_ctrl_c_saves_and_the_same_command_goes_on(untrained, unbroken):
    process = begun(untrained, 50)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=600) == 1
    log = untrained.path("started.log").read_text(encoding="utf-8")
    assert log.count("What is finished stays: the same command goes on\n") == 1
    stands = untrained.checkpoint("mix")
    untrained.make("--cores", 1, untrained.manifest("mix"))
    assert untrained.outcomes() == {"mix": unbroken["mix"]}
    assert atomic_files.read_json(untrained.path(f"{FOLDER}/starts.json")) == [0, stands]


def test_a_workflow_that_gets_sigterm_lets_its_training_end(untrained, unbroken):
    evaluation = f"{FOLDER}/evaluations/manifest.json"
    process = begun(untrained, 20, evaluation)
    process.terminate()
    assert process.wait(timeout=600) == 1
    assert untrained.outcomes() == {"mix": unbroken["mix"]}
    assert not untrained.path(evaluation).exists()
    untrained.make(evaluation)
    assert untrained.outcomes() == {"mix": unbroken["mix"]}


def test_a_workflow_tries_again_by_itself_with_more_memory_and_time(untrained, unbroken):
    process = begun(untrained, 30, "--retries", 2)
    first = untrained.holder("mix")
    os.kill(first, signal.SIGTERM)
    untrained.reach("mix", 60, process)
    assert untrained.holder("mix") != first
    os.kill(untrained.holder("mix"), signal.SIGKILL)
    assert process.wait(timeout=600) == 0
    log = untrained.path("started.log").read_text(encoding="utf-8")
    asked = [int(text) for text in re.findall(r"resources: .*?mem_mb=(\d+)", log)]
    assert asked == [asked[0], 2 * asked[0], 3 * asked[0]]
    assert untrained.outcomes() == {"mix": unbroken["mix"]}
    assert len(atomic_files.read_json(untrained.path(f"{FOLDER}/starts.json"))) == 3
