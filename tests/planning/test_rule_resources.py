"""What the jobs of a rule ask for, by hand on the default experiment."""

import math
from types import SimpleNamespace

import pytest
from recipes import of_run

from pike_mixing.errors import InputError
from pipeline.planning import planner
from pipeline.planning.requested_resources import RETRIES, STARTED, RuleResources
from pipeline.planning.workflow_profile import Profile

PIKE = "symbols/pico/pike-middle/seed100"


@pytest.fixture(scope="module")
def plan(config):
    values = config()
    values["sources"]["code"] = {"kind": "local", "files": ["b.txt", "a.txt"], "licence": "mine"}
    return planner.plan(values, "config.yaml")


def test_a_try_has_more_time_than_the_one_before_up_to_the_limit(plan):
    free, limited = (
        RuleResources(plan, Profile(chosen))
        for chosen in ({}, {"pretrain": {"longest": "12", "accelerator": "h100"}})
    )
    first, second = (free.resources("pretrain")["runtime"](of_run(PIKE), n) for n in (1, 2))
    assert second == 2 * first
    assert first > 10
    assert limited.resources("pretrain")["runtime"](of_run(PIKE), 2) == 12
    assert limited.resources("pretrain")["gpu"](of_run(PIKE)) == 1
    assert free.resources("pretrain")["gpu"] == 0
    assert "gpu" not in free.resources("pack")


def test_a_limit_allows_as_many_tries_as_the_longest_run_takes(plan, monkeypatch):
    monkeypatch.delenv(STARTED, raising=False)
    free = RuleResources(plan, Profile({}))
    assert [free.retries(rule) for rule in ("pretrain", "download", "pack")] == [None] * 3
    limited = RuleResources(plan, Profile({"pretrain": {"longest": "1"}}))
    seconds = max(limited._trainings.estimate("pretrain", run).seconds for run in plan.runs)
    assert limited.retries("pretrain") == math.ceil(2 * seconds / 60) + RETRIES
    # Within a job that the workflow has started nothing is tried again.
    monkeypatch.setenv(STARTED, "elsewhere:1")
    assert limited.retries("pretrain") is None


OF_CODE = SimpleNamespace(items=lambda: [("tokenizer", "installed"), ("source", "code")])
"""Wildcards of its packing."""


def test_packing_takes_a_share_of_the_time_with_each_thread(plan):
    """50 MB at 0.5 MB a second and thread; twice the time and ten minutes are asked for."""
    runtime = RuleResources(plan, Profile({})).resources("pack")["runtime"]
    minutes = [runtime(OF_CODE, 1, threads=threads) for threads in (1, 2, 4, 64)]
    # Of 100, 50 and 25 seconds: four threads are worth it for files that nobody has looked at.
    assert minutes == [10 + 4, 10 + 2, 10 + 1, 10 + 1]
    assert runtime(OF_CODE, 1) == 10 + 1


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ({"processes": "8"}, 8),
        ({}, 0),
        ({"processes": "8", "nodes": "2"}, 0),
        ({"processes": "8", "accelerator": "cpu"}, 0),
    ],
)
def test_a_training_on_many_gpus_of_one_node_is_told(plan, chosen, count):
    takes = RuleResources(plan, Profile({"pretrain": {"accelerator": "h100", **chosen}}))
    said = takes.node_may_lack_gpus_warning("pretrain", PIKE)
    start = f"pretrain: a training takes {count} GPUs of one node, and never starts where no node "
    assert (said or "").startswith(start if count else "")
    assert bool(said) == (count > 0)
    assert takes.node_may_lack_gpus_warning("pack", "installed/code") is None


def test_nodes_share_the_processes_of_a_training(plan):
    asked = {"processes": "4", "nodes": "2", "accelerator": "h100"}
    shared = RuleResources(plan, Profile({"pretrain": asked}))
    assert shared.process_and_sharding_options(of_run(PIKE), None) == [
        "--processes",
        "4",
        "--nodes",
        "2",
    ]
    taken = shared.resources("pretrain")
    assert [taken[name] for name in ("mpi", "nodes", "tasks", "gpu")] == ["srun", 2, 2, 0]
    assert (taken["cpus_per_task"](of_run(PIKE)), taken["gres"](of_run(PIKE))) == (2, "gpu:2")
    assert "mpi" not in shared.resources("evaluate")
    with pytest.raises(InputError, match="they cannot share the 4 processes of a run"):
        RuleResources(plan, Profile({"pretrain": {"processes": "4", "nodes": "3"}}))
    # `nodes` alone is no answer to how many processes there are.
    with pytest.raises(InputError, match="they cannot share the 1 processes"):
        RuleResources(plan, Profile({"pretrain": {"nodes": "2"}}))
    with pytest.raises(InputError, match="device xla trains on one node, and nodes: 2 was asked"):
        RuleResources(plan, Profile({"pretrain": {**asked, "device": "xla"}}))
