"""A schedule from losses over steps, of runs whose law is known."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pike_mixing import make
from pike_mixing.errors import InputError
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.schedule_finder import cut_into_stages, find_schedule

HELPS = ([[0.3, 0.1], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.4]])
"""A of two stages: rows are losses, columns domains."""
MIXTURES = ([1.0, 0.0], [0.5, 0.5], [0.25, 0.75])


@pytest.fixture
def swarm():
    """Losses at steps 0, 10, 20, 30, 40: each stage is two of them, and falls by A p."""
    rows = []
    for n, mixture in enumerate(MIXTURES):
        loss_M = np.array([3.0, 2.0])
        for place in range(5):
            if place:
                loss_M = loss_M - np.array(HELPS[(place - 1) // 2]) @ mixture / 2
            rows.append(Proxy(f"run{n}", np.array(mixture), loss_M, tokens=10.0 * place))
    return Swarm(("a", "b"), rows, ("x", "y"))


def test_stages_by_hand(swarm):
    seen = cut_into_stages(swarm, 2)
    assert seen.at_S.tolist() == [0, 0.5]
    # Run 1 reads half of each: x falls by 0.3/2 + 0.1/2 first, y by 0.4/2 then.
    np.testing.assert_allclose(seen.fall_SxNxM[:, 1], [[0.2, 0], [0, 0.2]])
    np.testing.assert_allclose(seen.weights_SxNxK[0], MIXTURES)
    weights_SxK = find_schedule(seen, {"x": 1, "y": 1})
    # A of sum 1 is [[3/4, 1/4], [0, 0]], then [[0, 0], [0, 1]]; p ~ exp of the columns' sums.
    first, second = 1 / (1 + math.exp(-0.5)), 1 / (1 + math.e)
    np.testing.assert_allclose(weights_SxK[:, 0], [first, second])


def test_a_target_and_a_rate(swarm):
    # Only y counts: nothing lowers it in the first stage, b alone in the second.
    weights_SxK = find_schedule(cut_into_stages(swarm, 2), {"x": 0, "y": 1}, eta=3)
    np.testing.assert_allclose(
        weights_SxK, [[0.5, 0.5], [1 / (1 + math.exp(6)), 1 / (1 + math.exp(-6))]]
    )


def test_runs_that_do_not_tell_are_refused(swarm):
    with pytest.raises(InputError, match="5 steps with losses do not make 9"):
        cut_into_stages(swarm, 9)
    two = Swarm(swarm.domains, swarm.runs[:5], swarm.losses)
    with pytest.raises(InputError, match="averages of fewer than 2"):
        find_schedule(cut_into_stages(two, 2), {"x": 1, "y": 1})
    # The mixtures of a stage differ by 2e-4: what they tell is the noise of losses.
    near = [replace(r, weights_K=0.5 + 1e-4 * (r.weights_K - 0.5)) for r in swarm.runs]
    with pytest.raises(InputError, match="averages of fewer than 2, or nearly so"):
        find_schedule(cut_into_stages(replace(swarm, runs=near), 2), {"x": 1, "y": 1})
    with pytest.raises(InputError, match="give a column `tokens`, or name it"):
        cut_into_stages(replace(swarm, runs=[replace(r, tokens=None) for r in swarm.runs]), 2)
    ragged = Swarm(swarm.domains, swarm.runs[:-1], swarm.losses)
    with pytest.raises(InputError, match="must stand at the same steps"):
        cut_into_stages(ragged, 2)


def test_the_command_prints_a_rules_settings(swarm, said, write):
    header = ["run", "step", "weight/a", "weight/b", "loss/x", "loss/y"]
    path = write(header, [[r.name, r.tokens, *r.weights_K, *r.loss_K] for r in swarm.runs])
    ask = ["stages", path, "--target", "x", "y", "--stages", "2"]
    ask += ["--size-columns", "tokens=step"]
    settings = json.loads(said(*ask))
    assert "--eta: must be a finite number" in said(*ask, "--eta", "nan", code=2)
    method = make(settings.pop("rule"), **settings, steps=100)
    state = method.init(("a", "b"), 0)
    assert method.weights(state, 0)[0] > 0.5 > method.weights(state, 60)[0]
