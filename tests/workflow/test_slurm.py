"""A real Slurm of one node, started for these tests: the same results as on this machine alone."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest

from pipeline import files

LONG = {"steps": 300, "checkpoint_every": 100, "resume_every": 10}
"""What `Project.lengthen` sets."""

pytestmark = pytest.mark.workflow

SCRIPT = Path(__file__).resolve().parents[1] / "slurm" / "onenode.sh"
CLOCK = {"seconds", "share", "wall_seconds", "tokens_per_second", "resumes"} | {
    "model_flops_utilisation",
    "memory_bytes",
}
"""Columns that no two runs share."""


class Slurm:
    """The one-node cluster."""

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
            timeout=30,
        ).stdout.strip()

    def submit(self, command, *options):
        """Number of a batch job that becomes the command."""
        script = f"#!/bin/sh\nexec {command}\n"
        done = subprocess.run(
            [f"{self.folder}/bin/sbatch", "--parsable", "--mem=2000", *options],
            input=script,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return done.stdout.strip()

    def state(self, job):
        """State of a job: RUNNING, COMPLETED, TIMEOUT, CANCELLED ..."""
        return self.ask("squeue", "--states=all", "-h", "-j", job, "-o", "%T")


@pytest.fixture(scope="module")
def slurm():
    """Slurm with its programs first in PATH; nobody's machine gets one unasked."""
    if not os.environ.get("PIKE_TEST_SLURM"):
        pytest.skip("a Slurm is started on demand alone: make test-slurm")
    missing = [n for n in ("slurmctld", "slurmd", "sbatch", "munged") if not shutil.which(n)]
    assert not missing, f"not found: {missing}: as root, tests/slurm/onenode.sh install"
    # Paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        started = subprocess.run(
            [SCRIPT, "start", folder], capture_output=True, text=True, check=False, timeout=90
        )
        try:
            assert not started.returncode, started.stderr
            yield Slurm(folder)
        finally:
            subprocess.run([SCRIPT, "stop", folder], check=True, timeout=60)


def hurry(project):
    """The profile as it is shipped, but that it looks more often and waits less."""
    path = project.path("workflow/profiles/slurm/config.yaml")
    text = path.read_text(encoding="utf-8")
    text = text.replace("status-checks: 20", "status-checks: 2").replace("wait: 60", "wait: 5")
    path.write_text(text, encoding="utf-8")


def command(*arguments):
    # Fewer starts: what prepares shares one job.
    shared = ["download=data", "tokenizer=data", "pack=data"]
    return [
        *("snakemake", "--profile", "workflow/profiles/slurm"),
        *("--groups", *shared, "--group-components", "data=20", "--", *arguments),
    ]


def contents(database, runs):
    """What a database holds of some runs, by table, without what the clock says."""
    found = {}
    with duckdb.connect(str(database), read_only=True) as opened:
        names = opened.sql(
            "select table_name, list(column_name) from duckdb_columns() "
            "where not internal group by 1"
        ).fetchall()
        tables = {n for (n,) in opened.sql("select table_name from duckdb_tables()").fetchall()}
        for name, columns in names:
            if name in tables and "run" in columns:
                kept = ", ".join(f'"{c}"' for c in sorted(set(columns) - CLOCK))
                query = f'select {kept} from "{name}" where list_contains(?, run) order by all'
                found[name] = opened.execute(query, [list(runs)]).fetchall()
    return found


def test_the_workflow_on_slurm_makes_the_same_database(fresh, whole, slurm):
    fresh.configure(
        lambda config: (
            config["runs"][0].update(methods=["mix", "pike"]),
            config.update(tables={"perplexity": {}}, figures={"losses": {}}),
        )
    )
    hurry(fresh)
    done = fresh.run(*command("results/pike.duckdb"), environment=slurm.environment, timeout=900)
    assert done.returncode == 0, done.stdout + fresh.logs()
    assert len(re.findall("has been submitted with SLURM jobid", done.stdout)) >= 5
    expected = whole.weights()
    assert fresh.weights() == {name: expected[name] for name in ("mix", "pike")}
    runs = [f"words/tiny/{name}/seed0" for name in ("mix", "pike")]
    found = contents(fresh.path("results/pike.duckdb"), runs)
    assert found == contents(whole.path("results/pike.duckdb"), runs)
    assert len(found["steps"]) == 2 * 12


def test_a_training_that_is_cancelled_is_submitted_again_and_goes_on(untrained, unbroken, slurm):
    hurry(untrained)
    target = untrained.manifest("mix")
    with untrained.path("started.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command(target)],
            cwd=untrained.root,
            env={**os.environ, **slurm.environment, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    untrained.started.append(process.pid)
    untrained.reach("mix", 20, process)
    (job,) = slurm.ask("squeue", "-h", "-t", "R", "-o", "%i").split()
    slurm.ask("scancel", job)
    assert process.wait(timeout=180) == 0, untrained.path("started.log").read_text()
    assert untrained.weights() == {"mix": unbroken["mix"]}
    assert files.read_json(untrained.path(target))["resumes"] == 1


@pytest.fixture
def run(whole, untrained, slurm):
    """A run of mix, to be submitted without the workflow: its folder."""
    folder = untrained.path("results/runs/words/tiny/mix/seed0")
    values = files.read_json(whole.path("results/runs/words/tiny/mix/seed0/run.json"))
    values["training"].update(LONG)
    files.write_json(folder / "run.json", values)
    return folder


def submit(project, run, slurm, *options):
    """Number of the job that trains the run, once it has reached a checkpoint."""
    command = (
        f"{sys.executable} -m pipeline pretrain {run}/run.json --corpora "
        f"{project.root}/results/corpora/letters --device cpu --threads 1"
    )
    options = (f"--chdir={project.root}", f"--output={project.root}/slurm.log", *options)
    job = slurm.submit(command, "--requeue", "--open-mode=append", *options)
    project.wait(lambda: project.checkpoint("mix") >= 20, "a checkpoint of mix at 20")
    return job


def holder(run):
    """Number of the process that trains the run."""
    (path,) = run.glob("lease/*.json")
    return files.read_json(path)["pid"]


def started_again(project, slurm, job):
    """Lets a job that is back in the queue start at once: Slurm would wait for two minutes."""
    project.wait(lambda: slurm.state(job) == "PENDING", "the job back in the queue")
    slurm.ask("scontrol", "update", f"jobid={job}", "starttime=now")
    project.wait(lambda: slurm.state(job) == "COMPLETED", "the job's end")


def test_a_preempted_training_goes_on_when_it_is_started_again(untrained, unbroken, run, slurm):
    job = submit(untrained, run, slurm)
    slurm.ask("scontrol", "requeue", job)
    started_again(untrained, slurm, job)
    assert untrained.weights() == {"mix": unbroken["mix"]}


def test_a_training_whose_node_is_lost_goes_on_elsewhere(untrained, unbroken, run, slurm):
    job = submit(untrained, run, slurm)
    node = slurm.ask("sinfo", "-h", "-o", "%n")
    training = holder(run)
    status = Path(f"/proc/{training}/status").read_text(encoding="utf-8")
    slurm.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=drill")
    # Slurm tells a lost node nothing. Its processes go with it: the training and what watches it.
    for process in (int(re.search(r"^PPid:\s+(\d+)", status, re.MULTILINE)[1]), training):
        os.kill(process, signal.SIGKILL)
    untrained.wait(lambda: slurm.state(job) == "PENDING", "the job back in the queue")
    slurm.ask("scontrol", "update", f"nodename={node}", "state=resume")
    started_again(untrained, slurm, job)
    assert untrained.weights() == {"mix": unbroken["mix"]}


def test_a_node_that_is_drained_lets_its_training_end(untrained, unbroken, run, slurm):
    job = submit(untrained, run, slurm)
    node = slurm.ask("sinfo", "-h", "-o", "%n")
    slurm.ask("scontrol", "update", f"nodename={node}", "state=drain", "reason=drill")
    untrained.wait(lambda: slurm.state(job) == "COMPLETED", "the job's end")
    slurm.ask("scontrol", "update", f"nodename={node}", "state=resume")
    assert untrained.weights() == {"mix": unbroken["mix"]}


def test_a_time_limit_costs_no_step(untrained, unbroken, run, slurm):
    job = submit(untrained, run, slurm, "--time=1", "--signal=USR1@30")
    # It sleeps until Slurm wakes it to end it.
    os.kill(holder(run), signal.SIGSTOP)
    before = untrained.checkpoint("mix")
    untrained.wait(lambda: slurm.state(job) == "TIMEOUT", "the time limit", seconds=200)
    assert "stopped by SIGTERM" in untrained.path("slurm.log").read_text(encoding="utf-8")
    assert untrained.checkpoint("mix") > before
    job = submit(untrained, run, slurm)
    untrained.wait(lambda: slurm.state(job) == "COMPLETED", "the job's end")
    assert untrained.weights() == {"mix": unbroken["mix"]}
