"""A training on two nodes of a real Slurm, and the loss of one of them: nothing is lost."""

import os
import signal
from pathlib import Path

import pytest
from onenode import (
    FOLDER,
    back_in_the_queue,
    begun,
    edit_profile,
    ends_well,
    looks_in_vain,
    started,
    submitted,
    wait_begins,
)

from pipeline.runtime import atomic_files


@pytest.fixture(scope="module")
def slurm():
    with started(nodes=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def by_two(packed, tmp_path_factory):
    """What two processes of this machine leave when nothing interrupts them."""
    project = packed.copy(tmp_path_factory.mktemp("two") / "project")
    project.make("--set-resources", "pretrain:processes=2", "--", project.manifest("mix"))
    return project.outcomes()


def set_node(slurm, node, state):
    slurm.ask("scontrol", "update", f"nodename={node}", f"state={state}", "reason=drill")


def lose(project, slurm, node):
    """Kills a node's slurmd and its trainings of a project; Slurm notices that it is gone."""
    slurm.kill(f"slurmd-{node}")
    for process in project.trainings():
        if f"SLURMD_NODENAME={node}\0" in Path(f"/proc/{process}/environ").read_text():
            os.kill(process, signal.SIGKILL)
    set_node(slurm, node, "down")


def nothing(project, slurm, job):
    pass


def cancelled(project, slurm, job):
    slurm.ask("scancel", "--signal=USR1", job)
    slurm.ask("scancel", job)


def requeued(project, slurm, job):
    slurm.ask("scontrol", "requeue", job)
    back_in_the_queue(project, slurm, job)


def node_lost(project, slurm, job):
    node = slurm.ask("sinfo", "-h", "-N", "-o", "%N").split()[-1]
    lose(project, slurm, node)
    slurm.restart("slurmd", "-N", node)
    set_node(slurm, node, "resume")
    back_in_the_queue(project, slurm, job)


def controller_restarted(project, slurm, job):
    slurm.kill("slurmctld")
    looks_in_vain(project, 2)
    slurm.restart("slurmctld")


@pytest.mark.parametrize(
    ("happens", "starts"),
    [(nothing, 1), (cancelled, 2), (requeued, 2), (node_lost, 2), (controller_restarted, 1)],
)
def test_a_run_on_two_nodes_leaves_what_two_processes_of_one_leave(
    slurm, untrained, by_two, happens, starts
):
    two = {"&accelerator h100": "&accelerator cpu", "# processes: 4": "processes: 2"}
    edit_profile(untrained, **two, **{"# nodes: 2": "nodes: 2", "USR1@120": "USR1@20"})
    process, job = begun(untrained, slurm)
    assert "NumNodes=2 " in slurm.ask("scontrol", "show", "job", job)
    happens(untrained, slurm, job)
    ends_well(process, untrained, by_two, starts)
    manifest = atomic_files.read_json(untrained.path(f"{FOLDER}/manifest.json"))
    assert manifest["processes"] == 2


def test_a_training_that_outlives_its_slurmd_is_waited_for(slurm, untrained, unbroken):
    """The job goes on elsewhere, and finds the run being written: it uses up no try."""
    edit_profile(untrained)
    process, job = begun(untrained, slurm)
    training, node = untrained.holder("mix"), slurm.ask("squeue", "-h", "-j", job, "-o", "%N")
    os.kill(training, signal.SIGSTOP)
    slurm.kill(f"slurmd-{node}")
    set_node(slurm, node, "down")
    back_in_the_queue(untrained, slurm, job)
    wait_begins(untrained, training)
    assert slurm.ask("squeue", "-h", "-j", job, "-o", "%N") not in ("", node)
    os.kill(training, signal.SIGCONT)
    ends_well(process, untrained, unbroken)
    # The other one found nothing left to train.
    assert atomic_files.read_json(untrained.path(f"{FOLDER}/starts.json")) == [0, 300]
    assert submitted(untrained) == 1
    slurm.restart("slurmd", "-N", node)
    set_node(slurm, node, "resume")
