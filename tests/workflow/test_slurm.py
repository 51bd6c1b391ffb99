"""The workflow on a real Slurm: the same results as on this machine alone."""

import re
from pathlib import Path

import places
import pytest
from onenode import command, edit_profile, started

from pipeline.runtime import atomic_files

WITH_ACCOUNTS = "slurm-status-command: sacct"


@pytest.fixture(scope="module")
def accounting():
    """Slurm with a database of what it has done."""
    with started("accounting") as cluster:
        yield cluster


TARGET = "results/pike.duckdb"


def small(project):
    """Two runs, and the database of them."""
    project.set({"runs/0/methods": ["mix", "pike"]})
    project.set({"tables": {"perplexity": {}}, "figures": {"losses": {}}})


@pytest.fixture(scope="module")
def alone(fresh_elsewhere):
    """The same on this machine alone: bits of its runs, rows of its database."""
    small(fresh_elsewhere)
    fresh_elsewhere.make(TARGET)
    return fresh_elsewhere.outcomes(), places.contents(fresh_elsewhere.path(TARGET))


def made_alike(project, cluster, alone):
    """Makes the database on a cluster; numbers of the jobs."""
    done = project.run(*command(TARGET), environment=cluster.environment, anew=True, timeout=1800)
    assert done.returncode == 0, done.stdout + project.logs()
    assert (project.outcomes(), places.contents(project.path(TARGET))) == alone
    return re.findall(r"has been submitted with SLURM jobid '?(\d+)", done.stdout)


def test_the_workflow_on_slurm_makes_the_same_database(slurm, fresh, alone):
    small(fresh)
    edit_profile(fresh)
    assert len(made_alike(fresh, slurm, alone)) >= 5


def test_with_accounting_too_whose_jobs_are_on_record(accounting, fresh, alone):
    small(fresh)
    edit_profile(fresh, **{"slurm-status-command: squeue": WITH_ACCOUNTS})
    jobs = made_alike(fresh, accounting, alone)
    found = accounting.ask("sacct", "-n", "-X", "-P", "-o", "jobid,state", "-j", ",".join(jobs))
    assert sorted(found.split()) == sorted(f"{job}|COMPLETED" for job in jobs)


def test_a_run_of_two_processes_has_two_gpus_of_its_own(untrained, slurm):
    edit_profile(untrained, **{"# processes: 4": "processes: 2"})
    process = slurm.start(untrained, untrained.manifest("mix"))
    untrained.reach("mix", 20, process)
    (job,) = slurm.running()
    shown = slurm.ask("scontrol", "show", "job", job)
    for asked in ("TresPerJob=gres:gpu:2", "NumCPUs=2 ", "NumNodes=1 "):
        assert asked in shown, shown
    # As docs/running.md has users look: for --gpus, %b of squeue's format is empty.
    seen = slurm.ask("squeue", "-h", "-O", "Partition:12,tres-per-job:20,Comment:90").split()
    assert seen == ["gpu", "gres:gpu:2", "rule_pretrain_wildcards_words_tiny_mix_seed0"]
    environments = [Path(f"/proc/{n}/environ").read_text() for n in untrained.trainings()]
    # torchrun and both processes: each of the two takes one of them.
    assert len(environments) >= 3
    assert all("CUDA_VISIBLE_DEVICES=0,1\0" in each for each in environments)
    assert process.wait(timeout=600) == 0, untrained.path("started.log").read_text()
    manifest = untrained.path(untrained.manifest("mix"))
    assert atomic_files.read_json(manifest)["processes"] == 2
    assert '\n  "device": "cpu: ' in manifest.read_text(encoding="utf-8")
