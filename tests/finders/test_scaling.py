"""Laws over sizes and tokens, and over the stages of a run."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pike_mixing import make
from pike_mixing.errors import InputError
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.loss_scaling import extrapolate_long_curves, power_law_losses
from pike_mixing.finders.schedule_finder import cut_into_stages, find_schedule

MIXTURES = {(0.75, 0.25): 2.0, (0.25, 0.75): 4.0}
"""k of the loss over tokens."""


def test_a_curve_by_hand():
    # 1 + 2 / sqrt(x) is 3, 2, 1.5; at 64 it is 1.25. 0.5 + 4 / sqrt(x) there is 1.
    x_P = np.array([1.0, 4.0, 16.0])
    ends = power_law_losses([x_P, x_P[:2]], [1 + 2 / x_P**0.5, 0.5 + 4 / x_P[:2] ** 0.5], 64.0)
    np.testing.assert_allclose(ends, [1.25, 1.0], atol=1e-5)
    # A loss that does not fall stays.
    np.testing.assert_allclose(power_law_losses([x_P], [np.full(3, 3.0)], 100), [3], atol=1e-3)


@pytest.fixture
def swarm():
    """L = 1 + k / tokens^0.5 + 3 / parameters^0.25, at three sizes of both."""
    runs = [
        Proxy(
            f"{n}",
            np.array(mixture),
            np.array([1 + k / tokens**0.5 + 3 / parameters**0.25]),
            tokens=tokens,
            parameters=parameters,
        )
        for n, ((mixture, k), tokens, parameters) in enumerate(
            itertools.product(MIXTURES.items(), (100.0, 200.0, 400.0), (16.0, 81.0, 256.0))
        )
    ]
    return Swarm(("a", "b"), runs, ("l",))


def test_tokens_first_then_sizes(swarm):
    runs = extrapolate_long_curves(swarm, {"tokens": 1600.0, "parameters": 10000.0}).runs
    # 1 + 2/40 + 3/10, 1 + 4/40 + 3/10.
    np.testing.assert_allclose([run.loss_K[0] for run in runs], [1.35, 1.4], atol=1e-3)
    assert [tuple(run.weights_K) for run in runs] == list(MIXTURES)
    assert {(run.tokens, run.parameters) for run in runs} == {(1600.0, 10000.0)}


def test_runs_of_other_tokens_are_other_curves(swarm):
    runs = extrapolate_long_curves(swarm, {"parameters": 10000.0}).runs
    found = {(run.tokens, *run.weights_K): run.loss_K[0] for run in runs}
    assert len(runs) == len(found) == 6
    # 1 + 2/10 + 3/10, 1 + 4/20 + 3/10.
    for curve in ((100.0, 0.75, 0.25), (400.0, 0.25, 0.75)):
        assert found[curve] == pytest.approx(1.5, abs=1e-3)


def test_too_few_or_unknown_sizes_are_refused(swarm):
    two = Swarm(("a", "b"), [r for r in swarm.runs if r.tokens < 400], ("l",))
    with pytest.raises(InputError, match="no mixture has runs of 3 different tokens"):
        extrapolate_long_curves(two, {"tokens": 1e4})
    unknown = Swarm(("a", "b"), [Proxy("x", np.array([0.5, 0.5]), np.array([1.0]))], ("l",))
    with pytest.raises(InputError, match="positive number of parameters: name its column"):
        extrapolate_long_curves(unknown, {"parameters": 1e9})


def test_rows_of_several_sizes_are_no_one_table(swarm, said, write):
    rows = [[*r.weights_K, *r.loss_K, r.parameters, r.tokens] for r in swarm.runs]
    path = write(["weight/a", "weight/b", "loss/l", "parameters", "tokens"], rows)
    ask = ["fit", "best", path, "--target", "l", "--resamples", "0"]
    told = "rows of 3 parameters: their losses do not compare: choose with --where parameters=256,"
    assert told in said(*ask, code=2)
    # Extrapolated to one number of tokens, rows of three sizes of the model are left.
    assert told in said(*ask, "--at", "tokens=1600", code=2)
    one = ["--where", "parameters=256", "tokens=400"]
    assert "best: 2 rows" in said(*ask, *one)
    # Runs that end a few tokens apart are of one size.
    header = ["weight/a", "weight/b", "loss/l", "tokens"]
    near = write(header, [[1, 0, 1, 1000], [0, 1, 2, 1009]], "near.csv")
    assert "best: 2 rows" in said("fit", "best", near, *ask[3:])
    assert "choose with --test-where parameters=256" in said(*ask, *one, "--test", path, code=2)
    design = ["design", path, "--target", "l", "--finder", "best", "--count", "1"]
    assert told in said(*design, code=2)
    assert "weight/a,weight/b" in said(*design[:2], "--count", "1")


def test_sizes_that_are_no_numbers(said, write):
    header = ["weight/a", "weight/b", "loss/l", "parameters"]
    ask = ["--target", "l", "--resamples", "0"]
    one = write(header, [[1, 0, 1, "tiny"], [0, 1, 2, "tiny"]])
    assert "best: 2 rows" in said("fit", "best", one, *ask)
    assert "--size-columns parameters=NAME" in said(
        "fit", "best", one, *ask, "--at", "parameters=1e9", code=2
    )
    two = write(header, [[1, 0, 1, "tiny"], [0, 1, 2, "small"]])
    told = "parameters holds values that are no numbers: choose rows of one of them"
    assert told in said("fit", "best", two, *ask, code=2)
    assert "best: 1 rows" in said("fit", "best", two, *ask, "--where", "parameters=small")


def test_a_fit_at_a_size(swarm, said, write):
    rows = [[*r.weights_K, *r.loss_K, r.tokens] for r in swarm.runs]
    path = write(["weight/a", "weight/b", "loss/l", "seen"], rows)
    ask = ["fit", "best", path, "--target", "l", "--at", "tokens=1600", "--size-columns"]
    assert "best: 2 rows, 2 domains" in said(*ask, "tokens=seen")
    assert "'token' is unknown: did you mean 'tokens'" in said(*ask, "token=seen", code=2)


HELPS = ([[0.3, 0.1], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.4]])
"""A of two stages: rows are losses, columns domains."""
STAGE_MIXTURES = ([1.0, 0.0], [0.5, 0.5], [0.25, 0.75])


@pytest.fixture
def courses():
    """Losses at steps 0, 10, 20, 30, 40: each stage is two of them, and falls by A p."""
    rows = []
    for n, mixture in enumerate(STAGE_MIXTURES):
        fall_SxM = np.array(HELPS) @ mixture / 2
        for place in range(5):
            loss_M = [3, 2] - fall_SxM.repeat(2, axis=0)[:place].sum(axis=0)
            rows.append(Proxy(f"run{n}", np.array(mixture), loss_M, tokens=10.0 * place))
    return Swarm(("a", "b"), rows, ("x", "y"))


def test_stages_by_hand(courses):
    seen = cut_into_stages(courses, 2)
    assert seen.at_S.tolist() == [0, 0.5]
    # Run 1 reads half of each: x falls by 0.3/2 + 0.1/2 first, y by 0.4/2 then.
    np.testing.assert_allclose(seen.fall_SxNxM[:, 1], [[0.2, 0], [0, 0.2]])
    np.testing.assert_allclose(seen.weights_SxNxK[0], STAGE_MIXTURES)
    weights_SxK = find_schedule(seen, {"x": 1, "y": 1})
    # A of sum 1 is [[3/4, 1/4], [0, 0]], then [[0, 0], [0, 1]]; p ~ exp of the columns' sums.
    first, second = 1 / (1 + math.exp(-0.5)), 1 / (1 + math.e)
    np.testing.assert_allclose(weights_SxK[:, 0], [first, second])


def test_a_target_and_a_rate(courses):
    # Only y counts: nothing lowers it in the first stage, b alone in the second.
    weights_SxK = find_schedule(cut_into_stages(courses, 2), {"x": 0, "y": 1}, eta=3)
    np.testing.assert_allclose(
        weights_SxK, [[0.5, 0.5], [1 / (1 + math.exp(6)), 1 / (1 + math.exp(-6))]]
    )


def test_runs_that_do_not_tell_are_refused(courses):
    with pytest.raises(InputError, match="5 steps with losses do not make 9"):
        cut_into_stages(courses, 9)
    two = Swarm(courses.domains, courses.runs[:5], courses.losses)
    with pytest.raises(InputError, match="averages of fewer than 2"):
        find_schedule(cut_into_stages(two, 2), {"x": 1, "y": 1})
    # The mixtures of a stage differ by 2e-4: what they tell is the noise of losses.
    near = [replace(r, weights_K=0.5 + 1e-4 * (r.weights_K - 0.5)) for r in courses.runs]
    with pytest.raises(InputError, match="averages of fewer than 2, or nearly so"):
        find_schedule(cut_into_stages(replace(courses, runs=near), 2), {"x": 1, "y": 1})
    with pytest.raises(InputError, match="give a column `tokens`, or name it"):
        cut_into_stages(replace(courses, runs=[replace(r, tokens=None) for r in courses.runs]), 2)
    ragged = Swarm(courses.domains, courses.runs[:-1], courses.losses)
    with pytest.raises(InputError, match="must stand at the same steps"):
        cut_into_stages(ragged, 2)


def test_the_command_prints_a_rules_settings(courses, said, write):
    header = ["run", "step", "weight/a", "weight/b", "loss/x", "loss/y"]
    path = write(header, [[r.name, r.tokens, *r.weights_K, *r.loss_K] for r in courses.runs])
    ask = ["stages", path, "--target", "x", "y", "--stages", "2"]
    ask += ["--size-columns", "tokens=step"]
    settings = json.loads(said(*ask))
    assert "--eta: must be a finite number" in said(*ask, "--eta", "nan", code=2)
    method = make(settings.pop("rule"), **settings, steps=100)
    state = method.init(("a", "b"), 0)
    assert method.weights(state, 0)[0] > 0.5 > method.weights(state, 60)[0]
