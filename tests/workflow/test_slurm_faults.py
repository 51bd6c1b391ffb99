"""What a cluster does to jobs, done on purpose on a real Slurm of one node: nothing is lost."""

import contextlib
import os
import re
import signal
import time

import pytest
from onenode import (
    FOLDER,
    PROFILE,
    back_in_the_queue,
    begun,
    edit_profile,
    ends_well,
    looks_in_vain,
    submitted,
    wait_begins,
)

from pipeline.runtime import atomic_files


@pytest.fixture
def workflow(untrained, slurm):
    """The workflow on Slurm, whose training of mix has reached 20 updates: it and its job."""
    edit_profile(untrained, **{"USR1@120": "USR1@20"})
    return lambda: begun(untrained, slurm)


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


def test_a_time_limit_costs_no_step(untrained, unbroken, slurm, workflow):
    profile = "workflow/profiles/slurm/config.yaml"
    untrained.edit(profile, "longest: &longest 1440", "longest: &longest 1")
    # Slurm may send a signal a minute too early, and wakes whom it sends it to.
    untrained.edit(profile, "    slurm_extra: ", "    # slurm_extra: ")
    process, job = workflow()
    # It sleeps until Slurm wakes it to end it.
    os.kill(untrained.holder("mix"), signal.SIGSTOP)
    before = untrained.checkpoint("mix")
    untrained.wait(lambda: slurm.state(job) == "TIMEOUT", "the time limit", seconds=600)
    # On a busy machine it takes more than two.
    ends_well(process, untrained, unbroken)
    stands = atomic_files.read_json(untrained.path(f"{FOLDER}/starts.json"))[1]
    assert stands > before


def test_a_job_that_exceeds_its_memory_is_submitted_with_more(untrained, unbroken, slurm):
    edit_profile(untrained)
    # Python with torch takes more: a wrong estimate.
    path = "pipeline/planning/run_estimates.py"
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
    training = untrained.holder("mix")
    os.kill(training, signal.SIGSTOP)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    unlocked = untrained.run(*PROFILE, "--unlock", environment=slurm.environment, anew=True)
    assert unlocked.returncode == 0, unlocked.stdout
    before = submitted(untrained)
    again = slurm.start(untrained, untrained.manifest("mix"))
    wait_begins(untrained, training)
    os.kill(training, signal.SIGCONT)
    untrained.wait(lambda: slurm.state(job) != "RUNNING", "the first job's end")
    assert again.wait(timeout=900) == 0, untrained.path("started.log").read_text()
    assert untrained.outcomes() == {"mix": unbroken["mix"]}
    assert submitted(untrained) - before == 1


@pytest.mark.parametrize("gone", ["killed", "killed at once", "stopped"])
def test_a_controller_that_does_not_answer_is_waited_for(
    untrained, unbroken, slurm, workflow, gone
):
    process, _ = workflow()
    training = untrained.holder("mix")
    os.kill(training, signal.SIGSTOP)
    # It writes down what it knows every 5 s. A job that it does not know to run when it comes back
    # it ends, and starts anew or has forgotten.
    time.sleep(6 if gone == "killed" else 0)
    slurm.kill("slurmctld", signal.SIGSTOP if gone == "stopped" else signal.SIGKILL)
    looks_in_vain(untrained, 3)
    if gone == "stopped":
        slurm.kill("slurmctld", signal.SIGCONT)
    else:
        slurm.restart("slurmctld")
    with contextlib.suppress(ProcessLookupError):
        os.kill(training, signal.SIGCONT)
    # What it wrote down may be older: then it ends the job.
    ends_well(process, untrained, unbroken, starts=1 if gone == "stopped" else None)


@pytest.mark.parametrize("ended", [False, True])
def test_a_job_that_a_controller_has_forgotten_is_submitted_again(
    untrained, unbroken, slurm, workflow, ended
):
    """It came back without its state; the same follows when MinJobAge passes between two looks."""
    process, job = workflow()
    os.killpg(process.pid, signal.SIGSTOP)
    if ended:
        untrained.wait(lambda: slurm.state(job) == "COMPLETED", "the job's end")
    slurm.kill("slurmctld")
    slurm.restart("slurmctld", "-c")
    os.killpg(process.pid, signal.SIGCONT)
    ends_well(process, untrained, unbroken)
    text = untrained.path("started.log").read_text()
    assert f"Slurm has forgotten job {job}" in text
    assert submitted(untrained) == 2
