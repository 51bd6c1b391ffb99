"""Laws over sizes and tokens, of curves that are known."""

import itertools

import numpy as np
import pytest

from pike_mixing.errors import InputError
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.finders.scaling import extrapolate, power_law_losses

MIXTURES = {(0.75, 0.25): 2.0, (0.25, 0.75): 4.0}
"""k of the loss over tokens."""


def test_a_curve_by_hand():
    # 1 + 2 / sqrt(x) is 3, 2, 1.5; at 64 it is 1.25. 0.5 + 4 / sqrt(x) there is 1.
    x_P = np.array([1.0, 4.0, 16.0])
    ends = power_law_losses([x_P, x_P[:2]], [1 + 2 / x_P**0.5, 0.5 + 4 / x_P[:2] ** 0.5], 64.0)
    np.testing.assert_allclose(ends, [1.25, 1.0], atol=1e-5)


def test_a_loss_that_does_not_fall_stays():
    x_P = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(
        power_law_losses([x_P], [np.array([3.0, 3.0, 3.0])], 100), [3], atol=1e-3
    )


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
    runs = extrapolate(swarm, {"tokens": 1600.0, "parameters": 10000.0}).runs
    # 1 + 2/40 + 3/10, 1 + 4/40 + 3/10.
    np.testing.assert_allclose([run.loss_K[0] for run in runs], [1.35, 1.4], atol=1e-3)
    assert [tuple(run.weights_K) for run in runs] == list(MIXTURES)
    assert {(run.tokens, run.parameters) for run in runs} == {(1600.0, 10000.0)}


def test_runs_of_other_tokens_are_other_curves(swarm):
    runs = extrapolate(swarm, {"parameters": 10000.0}).runs
    found = {(run.tokens, *run.weights_K): run.loss_K[0] for run in runs}
    assert len(runs) == len(found) == 6
    # 1 + 2/10 + 3/10, 1 + 4/20 + 3/10.
    assert found[100.0, 0.75, 0.25] == pytest.approx(1.5, abs=1e-3)
    assert found[400.0, 0.25, 0.75] == pytest.approx(1.5, abs=1e-3)


def test_too_few_or_unknown_sizes_are_refused(swarm):
    two = Swarm(("a", "b"), [r for r in swarm.runs if r.tokens < 400], ("l",))
    with pytest.raises(InputError, match="no mixture has runs of 3 different tokens"):
        extrapolate(two, {"tokens": 1e4})
    unknown = Swarm(("a", "b"), [Proxy("x", np.array([0.5, 0.5]), np.array([1.0]))], ("l",))
    with pytest.raises(InputError, match="positive number of parameters: name its column"):
        extrapolate(unknown, {"parameters": 1e9})


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
