"""A real Slurm on this machine, of one node or two, and the workflow on it."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from repository import ROOT, run

from pipeline.runtime import atomic_files

SCRIPT = ROOT / "tests" / "slurm" / "onenode.sh"
FOLDER = "results/runs/words/tiny/mix/seed0"
PROFILE = ("snakemake", "--profile", "workflow/profiles/slurm")


class Slurm:
    """The cluster."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}

    def ask(self, *command):
        """The answer of a program of Slurm's."""
        program, *words = command
        words = [f"{self.folder}/bin/{program}", *map(str, words)]
        return run(*words, check=True, timeout=120).stdout.strip()

    def submit(self, command, *options):
        """Number of a batch job that becomes the command."""
        script = f"#!/bin/sh\nexec {command}\n"
        words = [f"{self.folder}/bin/sbatch", "--parsable", *options]
        return run(*words, input=script, check=True, timeout=120).stdout.strip()

    def state(self, job):
        """State of a job: RUNNING, COMPLETED, TIMEOUT, CANCELLED ..."""
        return self.ask("squeue", "--states=all", "-h", "-j", job, "-o", "%T")

    def running(self):
        """Numbers of the jobs that run."""
        return self.ask("squeue", "-h", "-t", "R", "-o", "%i").split()

    def kill(self, daemon, how=signal.SIGKILL):
        """Kills slurmctld or slurmd-NODE, as a crash does, or sends it another signal."""
        pid = Path(self.folder, "run", f"{daemon}.pid").read_text(encoding="utf-8")
        os.kill(int(pid), how)

    def restart(self, daemon, *options):
        """Starts slurmctld or slurmd again; both go into the background by themselves."""
        environment = {**os.environ, "SLURM_CONF": f"{self.folder}/slurm.conf"}
        subprocess.run([daemon, *options], env=environment, check=True, timeout=60)

    def start(self, project, *arguments):
        """The workflow in a process group of its own, to be killed."""
        return project.begin(command(*arguments), self.environment)


@contextlib.contextmanager
def started(*accounting, nodes=1):
    """Slurm with its programs first in PATH; nobody's machine gets one unasked."""
    if not os.environ.get("PIKE_TEST_SLURM"):
        pytest.skip("a Slurm is started on demand alone: make test-slurm")
    programs = ["slurmctld", "slurmd", "sbatch", "munged", *(["slurmdbd"] if accounting else [])]
    missing = [name for name in programs if not shutil.which(name)]
    install = " ".join(["tests/slurm/onenode.sh install", *accounting])
    assert not missing, f"not found: {missing}: as root, {install}"
    # Paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        done = subprocess.run(
            [SCRIPT, "start", folder, *accounting],
            env={**os.environ, "NODES": str(nodes)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )
        try:
            assert not done.returncode, done.stderr
            yield Slurm(folder)
        finally:
            subprocess.run([SCRIPT, "stop", folder], check=True, timeout=60)


def edit_profile(project, **changes):
    """The profile as it is shipped, but that it looks more often and waits less, and `changes`.

    Jobs book GPUs that are files, and train on the CPU.
    """
    path = project.path("workflow/profiles/slurm/config.yaml")
    text = path.read_text(encoding="utf-8")
    hurried = {"status-checks: 20": "status-checks: 2", "latency-wait: 60": "latency-wait: 5"}
    kinds = ("&accelerator h100", "*accelerator")
    on_cpu = {f"accelerator: {kind}": f"accelerator: {kind}\n    device: cpu" for kind in kinds}
    for old, new in {**hurried, **on_cpu, **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def command(*arguments):
    """The workflow on the cluster; what prepares shares one job, for fewer starts."""
    shared = ["download=data", "tokenizer=data", "pack=data"]
    return [*PROFILE, "--groups", *shared, "--group-components", "data=20", "--", *arguments]


def ends_well(process, project, expected, starts=None):
    """Waits for the workflow, whose run of mix must be as expected, and have begun so often."""
    assert process.wait(timeout=900) == 0, project.path("started.log").read_text() + project.logs()
    assert project.outcomes() == {"mix": expected["mix"]}
    assert starts in (None, len(atomic_files.read_json(project.path(f"{FOLDER}/starts.json"))))


def begun(project, slurm):
    """The workflow on Slurm, whose training of mix has reached 20 updates: it and its job."""
    process = slurm.start(project, project.manifest("mix"))
    project.reach("mix", 20, process)
    (job,) = slurm.running()
    return process, job


def back_in_the_queue(project, slurm, job):
    """Lets a job that was put back start at once: Slurm would wait for two minutes."""
    project.wait(lambda: slurm.state(job) == "PENDING", "the job back in the queue")
    slurm.ask("scontrol", "update", f"jobid={job}", "starttime=now")


def submitted(project):
    """How many jobs the workflow has submitted."""
    return project.path("started.log").read_text().count("has been submitted with SLURM jobid")


def wait_begins(project, training):
    """Waits until a job says that it waits for a training of another one."""
    log = project.path("results/logs/pretrain/words/tiny/mix/seed0.log")
    held = f"is being written by process {training} on"
    # Each job removes it first.
    project.wait(
        lambda: log.exists() and held in log.read_text(encoding="utf-8"), "the second job's wait"
    )


def looks_in_vain(project, times):
    """Waits until the workflow has asked Slurm for its jobs so often without an answer."""
    log = project.path("started.log")
    project.wait(
        lambda: log.read_text().count("Slurm says nothing of the jobs") >= times,
        f"{times} looks at a controller that does not answer",
    )
