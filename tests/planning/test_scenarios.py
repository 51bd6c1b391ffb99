"""What makes the eight scenarios of workflow/scenarios.yaml hard, from their settings."""

import itertools

import numpy as np
import pytest
from repository import ROOT

from pipeline.data.synthetic import SyntheticSource
from pipeline.planning import planner

LEADERBOARD = ROOT / "workflow" / "configs" / "leaderboard.yaml"


@pytest.fixture(scope="module")
def config():
    return planner.read_expanded_config(LEADERBOARD)


def chain(config, source):
    """Transition probabilities of a language of order 1."""
    language = SyntheticSource(
        **{k: v for k, v in config["sources"][source].items() if k != "kind"}
    )
    next_VxV = np.full((language.symbols,) * 2, language.noise / language.symbols)
    for symbol, successors in enumerate(language.successor_table()):
        next_VxV[symbol, successors] += (1 - language.noise) / language.successors
    return next_VxV


def test_each_two_domains_of_the_conflict_pull_against_each_other(config):
    """The gradient of a bigram model's logits is p - p_k, at the p that Mix aims at."""
    domains = config["scenarios"]["conflict"]["domains"]
    assert len({config["sources"][d]["alphabet"] for d in domains}) == 1
    each = {d: chain(config, d) for d in domains}
    gradient = {d: np.mean([*each.values()], axis=0) - p for d, p in each.items()}
    for a, b in itertools.combinations(domains, 2):
        lengths = np.linalg.norm(gradient[a]) * np.linalg.norm(gradient[b])
        assert (gradient[a] * gradient[b]).sum() / lengths < -0.3
