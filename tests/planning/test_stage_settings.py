"""One run's settings from the sections of a configuration."""

import pytest

from pipeline.planning import stage_settings
from pipeline.planning.dependencies import RunName

RUN = RunName("symbols", "nano", "mix", 0)
SETTINGS = {"rows": 8, "microbatch": 4, "checkpoints": "all", "split": "validation"}


def probed(**limits):
    scenarios = {"symbols": {"probe": "mine"}, "installed": {}}
    return {"scenarios": scenarios, "probe": {"mine": {**SETTINGS, **limits}}}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, SETTINGS),
        ({"methods": ["mix", "pike"], "models": ["nano"]}, SETTINGS),
        ({"methods": ["pike"]}, None),
        ({"methods": ["mix"], "models": ["large"]}, None),
    ],
)
def test_a_probe_may_be_for_some_methods_and_models(limits, expected):
    assert stage_settings.probe(probed(**limits), RUN) == expected


@pytest.mark.parametrize(
    ("curves", "checkpoints"),
    [
        ({}, "all"),
        ({"curves": {}}, "all"),
        ({"curves": {"methods": ["mix", "pike"], "models": ["nano"]}}, "all"),
        ({"curves": {"methods": ["pike"]}}, "last"),
        ({"curves": {"methods": ["mix"], "models": ["large"]}}, "last"),
        ({"curves": {"methods": ["mix"], "seeds": [RUN.seed, RUN.seed + 1]}}, "all"),
        ({"curves": {"methods": ["mix"], "seeds": [RUN.seed + 1]}}, "last"),
    ],
)
def test_every_checkpoint_may_be_evaluated_for_some_methods_and_models(curves, checkpoints):
    values = {"rows": 8, "checkpoints": "all", **curves}
    config = {"scenarios": {"symbols": {"evaluation": "mine"}}, "evaluation": {"mine": values}}
    found = stage_settings.evaluation(config, RUN, requested=True, searched=False)
    assert found == {"rows": 8, "checkpoints": checkpoints}


def test_a_scenario_without_a_probe_has_none():
    assert stage_settings.probe(probed(), RUN._replace(scenario="installed")) is None
