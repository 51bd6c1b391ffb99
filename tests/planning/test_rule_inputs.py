"""What the rules of the workflow read, by hand on the default experiment."""

import pytest

from pike_mixing.errors import InputError
from pipeline.planning import planner
from pipeline.planning.rule_inputs import RuleInputs


@pytest.fixture(scope="module")
def reads(config):
    values = config()
    values["sources"]["code"] = {"kind": "local", "files": ["b.txt", "a.txt"], "licence": "mine"}
    hygiene = {"decontaminate": {"files": ["results/tasks/piqa/*.jsonl", "own.jsonl"], "ngram": 13}}
    values["packing"]["hygiene"] = hygiene
    return RuleInputs(planner.plan(values, "config.yaml"))


def test_jobs_read_files_of_the_users_own_and_tasks_that_are_fetched(reads):
    assert reads.job_inputs("download", "code") == ({}, ["b.txt", "a.txt"])
    assert reads.job_inputs("download", "prose") == ({}, [])
    # Items of evaluations are the user's own or of a task that is fetched.
    made, given = reads.job_inputs("pack", "symbols/like-en")
    assert (made["tasks"], given) == (["results/tasks/piqa/manifest.json"], ["own.jsonl"])


def test_what_the_plan_has_not_is_refused_by_name(reads):
    for rule in ("download", "tokenizer", "pack", "pretrain", "mixture", "evaluate", "probe"):
        with pytest.raises(InputError, match="'prosa'"):
            reads.job_inputs(rule, "prosa")
