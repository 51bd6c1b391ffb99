"""What starts the processes of a run, and refuses to start fewer than were asked for."""

import os
import signal

import pytest

from pike_mixing.errors import InputError
from pipeline.runtime import launch


@pytest.fixture
def started(monkeypatch):
    """The command and environment that this process would become; nothing is started."""
    found = []

    def become(program, words, environment):
        found.append((words, environment))
        raise SystemExit

    monkeypatch.setattr(os, "execvpe", become)
    for name in ("SLURM_JOB_ID", launch.RENDEZVOUS, "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    before = signal.getsignal(signal.SIGUSR1)
    yield found
    signal.signal(signal.SIGUSR1, before)


def become(processes, nodes):
    with pytest.raises(SystemExit):
        launch.exec_torchrun(processes, ["pretrain", "run.json"], "USR1", 1, nodes)


def test_one_node_needs_no_meeting(started):
    become(4, 1)
    ((words, _),) = started
    assert words[3:6] == ["--nproc-per-node", "4", "--standalone"]
    assert words[-4:] == ["-m", "pipeline", "pretrain", "run.json"]


def test_two_nodes_of_a_job_start_a_torchrun_each_and_meet(started, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(launch, "_slurm_hosts", lambda job: ["a", "b"])
    become(4, 2)
    ((words, environment),) = started
    assert launch.RENDEZVOUS not in os.environ
    assert words[:4] == ["srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"]
    assert words[-4:] == ["-m", "pipeline", "pretrain", "run.json"]
    # What srun calls on each node is the same command.
    monkeypatch.setenv(launch.RENDEZVOUS, environment[launch.RENDEZVOUS])
    become(4, 2)
    words, environment = started[1]
    meeting = words[words.index("--rdzv-endpoint") + 1]
    assert meeting == environment[launch.RENDEZVOUS]
    assert words[3:7] == ["--nproc-per-node", "2", "--nnodes", "2"]
    assert launch.is_under_torchrun_or_own_srun()


@pytest.mark.parametrize(
    ("processes", "nodes", "job", "message"),
    [
        (4, 3, "7", "3 nodes cannot share 4 processes evenly"),
        (2, 2, None, "without Slurm there is 1"),
        (3, 3, "7", "Slurm job 7 has 2"),
    ],
)
def test_what_cannot_be_met_is_refused(started, monkeypatch, processes, nodes, job, message):
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setattr(launch, "_slurm_hosts", lambda job: ["a", "b"])
    with pytest.raises(InputError, match=message):
        launch.exec_torchrun(processes, [], "USR1", 1, nodes)
    assert started == []
