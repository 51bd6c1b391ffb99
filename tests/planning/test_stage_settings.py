"""One run's settings from the sections of a configuration."""

import pytest

from pipeline.planning import stage_settings
from pipeline.planning.dependencies import RunName

RUN = RunName("symbols", "nano", "mix", 0)
SETTINGS = {"rows": 8, "checkpoints": "all", "split": "validation"}


def config(**limits):
    """Runs of a scenario are probed, and evaluated at every checkpoint, within limits."""
    return {
        "scenarios": {"symbols": {"probe": "mine", "evaluation": "mine"}, "installed": {}},
        "probe": {"mine": {**SETTINGS, **limits}},
        "evaluation": {"mine": {**SETTINGS, **({"curves": limits} if limits else {})}},
    }


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, True),
        ({"methods": ["mix", "pike"], "models": ["nano"]}, True),
        ({"methods": ["pike"]}, False),
        ({"methods": ["mix"], "models": ["large"]}, False),
        ({"methods": ["mix"], "seeds": [RUN.seed, RUN.seed + 1]}, True),
        ({"methods": ["mix"], "seeds": [RUN.seed + 1]}, False),
    ],
)
def test_a_probe_and_all_checkpoints_may_be_for_some_runs(limits, kept):
    assert stage_settings.probe_settings(config(**limits), RUN) == (SETTINGS if kept else None)
    found = stage_settings.evaluation_settings(
        config(**limits), RUN, requested=True, searched=False
    )
    assert found == {**SETTINGS, "checkpoints": "all" if kept else "last"}


def test_a_scenario_without_a_probe_has_none():
    assert stage_settings.probe_settings(config(), RUN._replace(scenario="installed")) is None
