"""Which jobs of a workflow are forks. The server itself: tests/runtime/test_fork_server.py."""

import pytest

from pipeline.planning import stages, workflow_jobs
from pipeline.planning.workflow_profile import Profile

NOTHING = Profile({})
TRAININGS = ["pretrain"] * 3 + ["evaluate"]


@pytest.fixture
def started(monkeypatch):
    """What servers are started with, of which none is."""
    found = []
    monkeypatch.setattr(
        workflow_jobs.fork_server, "start_server", lambda *given: found.append(given)
    )
    return found


def test_four_jobs_that_import_the_same_have_a_server(started):
    words = workflow_jobs.start_servers_and_get_command(
        ["download", *TRAININGS, "table"], NOTHING, "before; "
    )
    ((name, modules, prefix),) = started
    assert words.endswith(f"fork_client.py {name}")
    assert (list(modules), prefix) == (["pretrain", "evaluate", "probe"], "before; ")
    assert all(stages.STAGES[c].startswith(f"{module}:") for c, module in modules.items())


def test_jobs_of_results_have_another_of_the_same_name(started):
    workflow_jobs.start_servers_and_get_command(
        ["database_of_selection", "table", "table", "report", *TRAININGS], NOTHING, ""
    )
    (first, second) = started
    assert first[0] == second[0]
    assert list(second[1]) == ["database", "table", "figure", "article", "report"]


@pytest.mark.parametrize(
    ("rules", "chosen"),
    [
        (TRAININGS[1:], {}),
        (["download"] * 9, {}),
        (TRAININGS, {"pretrain": {"device": "cuda"}}),
        (TRAININGS, {"evaluate": {"python": "another"}}),
    ],
)
def test_few_jobs_and_those_of_accelerators_and_other_interpreters_have_none(
    started, rules, chosen
):
    assert workflow_jobs.start_servers_and_get_command(rules, Profile(chosen), "") == ""
    assert started == []
