"""What a cluster does to jobs, done on purpose on a real Slurm of one node: nothing is lost."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from onenode import PROFILE, edit_profile, started

from pipeline.runtime import atomic_files

pytestmark = pytest.mark.workflow

FOLDER = "results/runs/words/tiny/mix/seed0"


@pytest.fixture(scope="module")
def slurm():
    with started() as cluster:
        yield cluster


@pytest.fixture
def workflow(untrained, slurm):
    """The workflow on Slurm, whose training of mix has reached 20 updates: it and its job."""
    edit_profile(untrained, **{"USR1@120": "USR1@20"})

    def start(*options):
        process = slurm.start(untrained, *options, untrained.manifest("mix"))
        untrained.reach("mix", 20, process)
        (job,) = slurm.running()
        return process, job

    return start


def ends_well(process, project, unbroken, starts=None):
    """Waits for the workflow, whose run must be as ever, and have begun so often."""
    assert process.wait(timeout=900) == 0, project.path("started.log").read_text() + project.logs()
    assert project.outcomes() == {"mix": unbroken["mix"]}
    assert starts in (None, len(atomic_files.read_json(project.path(f"{FOLDER}/starts.json"))))


def holder(project):
    """Number of the process that trains mix."""
    (path,) = project.path(FOLDER).glob("lease/*.json")
    return atomic_files.read_json(path)["pid"]


def back_in_the_queue(project, slurm, job):
    """Lets a job that was put back start at once: Slurm would wait for two minutes."""
    project.wait(lambda: slurm.state(job) == "PENDING", "the job back in the queue")
    slurm.ask("scontrol", "update", f"jobid={job}", "starttime=now")


def submitted(project):
    """How many jobs the workflow has submitted."""
    return project.path("started.log").read_text().count("has been submitted with SLURM jobid")


def test_a_cancelled_job_is_submitted_again_and_goes_on(untrained, unbroken, slurm, workflow):
    process, job = workflow()
    slurm.ask("scancel", job)
    ends_well(process, untrained, unbroken, starts=2)
    assert submitted(untrained) == 2


def test_a_preempted_job_goes_on(untrained, unbroken, slurm, workflow):
    process, job = workflow()
    urgent = slurm.submit(
        "sleep 1", "--partition=urgent", "--cpus-per-task=8", "--mem=1000", "--output=/dev/null"
    )
    untrained.wait(lambda: slurm.state(urgent) == "COMPLETED", "the urgent job's end")
    # It ends by itself, and is submitted again, or when its grace is over, and is put back.
    untrained.wait(lambda: slurm.state(job) != "COMPLETING", "the job's own end")
    if slurm.state(job) == "PENDING":
        back_in_the_queue(untrained, slurm, job)
    ends_well(process, untrained, unbroken, starts=2)


def test_a_requeued_job_goes_on(untrained, unbroken, slurm, workflow):
    process, job = workflow()
    slurm.ask("scontrol", "requeue", job)
    back_in_the_queue(untrained, slurm, job)
    ends_well(process, untrained, unbroken, starts=2)


def test_a_time_limit_costs_no_step(untrained, unbroken, slurm, workflow):
    profile = "workflow/profiles/slurm/config.yaml"
    untrained.edit(profile, "longest: 1440\n    # Two", "longest: 1\n    # Two")
    process, job = workflow()
    # It sleeps until Slurm wakes it to end it.
    os.kill(holder(untrained), signal.SIGSTOP)
    before = untrained.checkpoint("mix")
    untrained.wait(lambda: slurm.state(job) == "TIMEOUT", "the time limit", seconds=600)
    # On a busy machine it takes more than two.
    ends_well(process, untrained, unbroken)
    stands = atomic_files.read_json(untrained.path(f"{FOLDER}/starts.json"))[1]
    assert stands > before


def test_a_job_that_exceeds_its_memory_is_submitted_with_more(untrained, unbroken, slurm):
    edit_profile(untrained)
    # Python with torch takes more: a wrong estimate.
    path = "pipeline/planning/resources.py"
    untrained.edit(path, '"accelerator": 4 * 2**30', '"accelerator": 200 * 2**20')
    process = slurm.start(untrained, untrained.manifest("mix"))
    ends_well(process, untrained, unbroken)
    text = untrained.path("started.log").read_text()
    assert "because it took more memory than it asked for" in text
    asked = [int(number) for number in re.findall(r"mem_mb=(\d+)", text)]
    assert len(asked) > 1
    assert asked[1] == 2 * asked[0]


def test_a_killed_workflow_started_again_while_its_job_goes_on(
    untrained, unbroken, slurm, workflow
):
    process, job = workflow()
    training = holder(untrained)
    os.kill(training, signal.SIGSTOP)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    unlocked = untrained.run(*PROFILE, "--unlock", environment=slurm.environment)
    assert unlocked.returncode == 0, unlocked.stdout
    before = submitted(untrained)
    again = slurm.start(untrained, untrained.manifest("mix"))
    wait_begins(untrained, training)
    os.kill(training, signal.SIGCONT)
    untrained.wait(lambda: slurm.state(job) != "RUNNING", "the first job's end")
    assert again.wait(timeout=900) == 0, untrained.path("started.log").read_text()
    assert untrained.outcomes() == {"mix": unbroken["mix"]}
    assert submitted(untrained) - before == 1


def wait_begins(project, training):
    """Waits until a job says that it waits for a training of another one."""
    log = project.path("results/logs/pretrain/words/tiny/mix/seed0.log")
    held = f"is being written by process {training} on"
    # Each job removes it first.
    project.wait(
        lambda: log.exists() and held in log.read_text(encoding="utf-8"), "the second job's wait"
    )


def test_a_controller_that_is_gone_for_a_while_is_waited_for(untrained, unbroken, slurm, workflow):
    process, _ = workflow()
    os.kill(holder(untrained), signal.SIGSTOP)
    started = untrained.path("started.log")
    slurm.kill("slurmctld")
    untrained.wait(lambda: "Falling back to" in started.read_text(), "a look while it is gone")
    time.sleep(25)
    slurm.restart("slurmctld")
    os.kill(holder(untrained), signal.SIGCONT)
    ends_well(process, untrained, unbroken, starts=1)


def submit(project, slurm):
    """Number of a job that trains mix without the workflow, once it has reached a checkpoint."""
    command = (
        f"{sys.executable} -m pipeline pretrain {FOLDER}/run.json --corpora "
        "results/corpora/letters --device cpu --threads 1"
    )
    where = (f"--chdir={project.root}", f"--output={project.root}/slurm.log")
    job = slurm.submit(command, "--mem=2000", "--requeue", "--open-mode=append", *where)
    project.wait(lambda: project.checkpoint("mix") >= 20, "a checkpoint of mix at 20")
    return job


def test_a_training_whose_node_is_lost_goes_on_elsewhere(untrained, unbroken, slurm):
    job = submit(untrained, slurm)
    node = slurm.ask("sinfo", "-h", "-o", "%n").split()[0]
    training = holder(untrained)
    status = Path(f"/proc/{training}/status").read_text(encoding="utf-8")
    slurm.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=drill")
    # Slurm tells a lost node nothing. Its processes go with it: the training and what watches it.
    for process in (int(re.search(r"^PPid:\s+(\d+)", status, re.MULTILINE)[1]), training):
        os.kill(process, signal.SIGKILL)
    untrained.wait(lambda: slurm.state(job) == "PENDING", "the job back in the queue")
    slurm.ask("scontrol", "update", f"nodename={node}", "state=resume")
    back_in_the_queue(untrained, slurm, job)
    untrained.wait(lambda: slurm.state(job) == "COMPLETED", "the job's end")
    assert untrained.outcomes() == {"mix": unbroken["mix"]}


def test_a_node_that_is_drained_lets_its_training_end(untrained, unbroken, slurm):
    job = submit(untrained, slurm)
    node = slurm.ask("sinfo", "-h", "-o", "%n").split()[0]
    slurm.ask("scontrol", "update", f"nodename={node}", "state=drain", "reason=drill")
    untrained.wait(lambda: slurm.state(job) == "COMPLETED", "the job's end")
    slurm.ask("scontrol", "update", f"nodename={node}", "state=resume")
    assert untrained.outcomes() == {"mix": unbroken["mix"]}
