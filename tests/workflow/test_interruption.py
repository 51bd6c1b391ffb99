"""Killed anywhere, a workflow goes on where it was and ends with the same bits."""

import base64
import importlib.util
import os
import random
import shutil
import signal
import sys

import pytest
from conftest import RUNS

from pipeline.runtime import atomic_files, fork_server

MIX = f"{RUNS}/mix"


def resumes(project, method):
    return atomic_files.read_json(project.path(project.manifest(method)))["resumes"]


def kill(project, method, updates, *targets):
    """SIGKILL for the workflow with its training, at a checkpoint of so many updates or more."""
    process = project.start("--cores", 1, *targets)
    project.reach(method, updates, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    project.wait(lambda: not project.trainings(), "the end of the training")


@pytest.fixture
def trained(_unbroken, tmp_path):
    """A copy of the experiment with longer runs, of which mix has trained and pike has not."""
    project = _unbroken.copy(tmp_path / "trained")
    shutil.rmtree(project.path(f"{RUNS}/pike"))
    yield project
    project.kill()


def test_a_workflow_killed_anywhere_ends_with_the_same_weights(trained, unbroken):
    moment = random.Random().randint(1, 120)
    mix, pike = trained.manifest("mix"), trained.manifest("pike")
    kill(trained, "pike", moment, mix, pike)
    assert "--unlock" in trained.refused("--cores", 1, mix, pike)
    trained.make("--unlock")

    # What was whole before the kill is not done again.
    before = trained.contents("results/corpora"), trained.contents(MIX)
    assert trained.plan("--rerun-incomplete", mix, pike) == {"pretrain words/tiny/pike/seed0"}
    trained.make(mix, pike)
    assert (trained.contents("results/corpora"), trained.contents(MIX)) == before
    assert trained.outcomes() == unbroken, f"killed at {moment}"
    assert (resumes(trained, "mix"), resumes(trained, "pike")) == (0, 1)


def test_a_run_that_ended_after_its_workflow_is_finished(trained):
    """Snakemake has marked the manifest as begun, and never as done."""
    mix = trained.manifest("mix")
    marks = trained.path(".snakemake/incomplete")
    marks.mkdir(exist_ok=True)
    (marks / base64.b64encode(mix.encode()).decode()).touch()
    plan = trained.plan("--profile", "workflow/profiles/default")
    assert "pretrain words/tiny/mix/seed0" not in plan
    assert {"pretrain words/tiny/pike/seed0", "evaluate words/tiny/mix/seed0", "all"} <= plan


@pytest.mark.skipif(not fork_server.can_serve_forks(), reason="each job is a process of its own")
def test_forks_leave_the_bits_of_processes_and_die_with_their_clients(untrained, unbroken):
    evaluations = (f"{RUNS}/{m}/seed0/evaluations/manifest.json" for m in ("mix", "pike"))
    targets = untrained.manifest("mix"), untrained.manifest("pike"), *evaluations
    process = untrained.start("--cores", 1, *targets)
    clients = []
    while process.poll() is None and not (clients := untrained.forked_trainings()):
        pass
    assert clients, "no fork has trained"
    (client,) = clients
    os.kill(client, signal.SIGKILL)
    assert process.wait() == 1
    untrained.wait(lambda: not untrained.forks_at_work(), "the server's end")
    assert len(untrained.weights()) == 1
    untrained.make(*targets)
    assert untrained.outcomes() == unbroken


@pytest.mark.device
@pytest.mark.skipif(
    importlib.util.find_spec("torch_xla") is None or os.environ.get("PJRT_DEVICE", "CPU") != "CPU",
    reason="make setup-tpu, make test-tpu; a TPU's number of chips is what it is",
)
def test_a_training_killed_on_four_chips_ends_with_the_same_bits(untrained, tmp_path, monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    monkeypatch.setenv("CPU_NUM_DEVICES", "4")
    short = {"steps": 30, "checkpoint_every": 15, "resume_every": 5}
    untrained.configure(lambda config: config["training"]["short"].update(short))
    untrained.path(".venv-tpu").symlink_to(sys.prefix)
    undisturbed = untrained.copy(tmp_path / "undisturbed")
    untrained.profile = undisturbed.profile = "tpu"
    pike = untrained.manifest("pike")
    kill(untrained, "pike", 5, pike)
    untrained.make("--unlock")
    for project in (untrained, undisturbed):
        project.make("--cores", 4, pike)
    assert untrained.outcomes() == undisturbed.outcomes()
    assert (resumes(untrained, "pike"), resumes(undisturbed, "pike")) == (1, 0)
    assert atomic_files.read_json(untrained.path(pike))["device"] == "xla: CPU x 4"


def test_neither_a_second_workflow_nor_one_beside_an_orphan_writes_a_run(untrained, unbroken):
    mix, pike = untrained.manifest("mix"), untrained.manifest("pike")
    process = untrained.start("--cores", 1, mix)
    untrained.reach("mix", 20, process)
    (orphan,) = untrained.trainings()
    os.kill(orphan, signal.SIGSTOP)
    assert "Directory cannot be locked" in untrained.refused("--cores", 1, mix)
    process.kill()
    process.wait()
    untrained.make("--unlock")
    # The orphan sleeps in the middle of mix: that run is refused, pike is trained all the same.
    told = untrained.refused("--cores", 1, mix, pike)
    assert f"is being written by process {orphan} on" in told
    assert "until then its new job waits (`wait` of the profile) or is refused" in told
    assert set(untrained.weights()) == {"pike"}
    os.kill(orphan, signal.SIGCONT)
    untrained.wait(lambda: not untrained.trainings(), "the orphan's end")
    untrained.make(mix, pike)
    assert untrained.outcomes() == unbroken


def test_a_training_that_fails_keeps_its_checkpoints_and_stops_no_other(finished):
    # The rate rises from 0 without bound: the loss is no number some steps after the start.
    rising = {"warmup_steps": 12, "peak_learning_rate": 1.0e38, "initial_learning_rate": 0.0}

    def wild(config):
        config["training"]["wild"] = config["training"]["short"] | rising | {"resume_every": 1}
        config["scenarios"]["wild"] = config["scenarios"]["words"] | {"training": "wild"}
        config["runs"].append(config["runs"][0] | {"scenarios": ["wild"], "methods": ["mix"]})

    finished.configure(wild)
    folder = finished.path("results/runs/wild/tiny/mix/seed0")
    targets = "results/runs/wild/tiny/mix/seed0/manifest.json", "results/tables/accuracy.md"
    told = finished.make("--cores", 1, *targets, code=1)
    assert "is not a finite number at step" in told
    assert "lower training.peak_learning_rate" in told
    assert max(atomic_files.step_entries(folder / "checkpoints")) >= 1
    assert not (folder / "manifest.json").exists()
