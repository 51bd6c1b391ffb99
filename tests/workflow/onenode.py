"""A real Slurm on this machine, of one node or two, and the workflow on it."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "slurm" / "onenode.sh"
PROFILE = ("snakemake", "--profile", "workflow/profiles/slurm")


class Slurm:
    """The cluster."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}"}

    def ask(self, *command):
        """The answer of a program of Slurm's."""
        return subprocess.run(
            [f"{self.folder}/bin/{command[0]}", *map(str, command[1:])],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.strip()

    def submit(self, command, *options):
        """Number of a batch job that becomes the command."""
        script = f"#!/bin/sh\nexec {command}\n"
        done = subprocess.run(
            [f"{self.folder}/bin/sbatch", "--parsable", *options],
            input=script,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return done.stdout.strip()

    def state(self, job):
        """State of a job: RUNNING, COMPLETED, TIMEOUT, CANCELLED ..."""
        return self.ask("squeue", "--states=all", "-h", "-j", job, "-o", "%T")

    def running(self):
        """Numbers of the jobs that run."""
        return self.ask("squeue", "-h", "-t", "R", "-o", "%i").split()

    def kill(self, daemon):
        """Kills slurmctld or slurmd, as a crash does."""
        (pid,) = Path(self.folder, "run").glob(f"{daemon}*.pid")
        os.kill(int(pid.read_text(encoding="utf-8")), signal.SIGKILL)

    def restart(self, daemon, *options):
        """Starts slurmctld or slurmd again; both go into the background by themselves."""
        environment = {**os.environ, "SLURM_CONF": f"{self.folder}/slurm.conf"}
        subprocess.run([daemon, *options], env=environment, check=True, timeout=60)

    def start(self, project, *arguments):
        """The workflow in a process group of its own, to be killed."""
        with project.path("started.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command(*arguments)],
                cwd=project.root,
                env={**os.environ, **self.environment, "OMP_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        project.started.append(process.pid)
        return process


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
    """The profile as it is shipped, but that it looks more often and waits less, and `changes`."""
    path = project.path("workflow/profiles/slurm/config.yaml")
    text = path.read_text(encoding="utf-8")
    hurried = {"status-checks: 20": "status-checks: 2", "latency-wait: 60": "latency-wait: 5"}
    for old, new in {**hurried, **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def command(*arguments):
    """The workflow on the cluster; what prepares shares one job, for fewer starts."""
    shared = ["download=data", "tokenizer=data", "pack=data"]
    return [*PROFILE, "--groups", *shared, "--group-components", "data=20", "--", *arguments]
