"""The tilted loss: the min-max identity, its maximiser and its limits."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.rules.balanced_pike import tilt
from pipeline.theory import tilt as theory
from pipeline.theory.problem import vector


def test_both_sides_by_hand():
    # exp gives 1 and 3: tilted log 4, shares 1/4 and 3/4; 3/4 log 3 - (1/4 log 1/4 + 3/4 log 3/4).
    loss_2 = vector(0, math.log(3))
    assert theory.tilted(loss_2, 1.0) == pytest.approx(math.log(4))
    assert tilt(loss_2, 1.0).tolist() == pytest.approx([0.25, 0.75])
    assert theory.inner(vector(0.25, 0.75)[None], loss_2, 1.0)[0] == pytest.approx(math.log(4))
    # All on the second: its loss alone. A y_k of 0 adds nothing.
    assert theory.inner(vector(0, 1)[None], loss_2, 1.0)[0] == pytest.approx(math.log(3))


losses = st.lists(st.floats(-20, 20), min_size=2, max_size=5)


@given(losses, st.floats(0.01, 20), st.integers(0, 2**32))
def test_the_identity_holds_and_no_other_y_is_higher(values, tau, seed):
    loss_K = vector(*values)
    y_K = tilt(loss_K, tau)
    best = theory.inner(y_K[None], loss_K, tau)[0]
    assert best == pytest.approx(tau * theory.tilted(loss_K, tau), rel=1e-9, abs=1e-9)
    other_K = np.random.default_rng(seed).random(len(values))
    other_K = tau * other_K / other_K.sum()
    assert theory.inner(other_K[None], loss_K, tau)[0] <= best + 1e-9


@given(losses)
def test_limits(values):
    loss_K, K = vector(*values), len(values)
    small, large = 1e-5, 1e4
    without = theory.tilted(loss_K, small) - math.log(K) / small
    # Off by tau times half the variance, at most 20^2 / 2.
    assert without == pytest.approx(sum(values) / K, abs=2.1e-3)
    assert theory.tilted(loss_K, large) == pytest.approx(
        max(values), abs=1.001 * math.log(K) / large
    )


def test_the_gradient_of_the_tilted_loss_weighs_by_y():
    # With L_k = (theta - k)^2 / 2 the gradient is sum_k y_k (theta - k) / tau.
    def losses_3(theta):
        return (theta - np.arange(3)) ** 2 / 2

    slope = (theory.tilted(losses_3(0.3 + 1e-6), 2) - theory.tilted(losses_3(0.3 - 1e-6), 2)) / 2e-6
    assert slope == pytest.approx(tilt(losses_3(0.3), 2) @ (0.3 - np.arange(3)) / 2, abs=1e-8)


def alternated(theta, tau, rounds):
    """Minimises over theta and maximises over y by turns, for the losses (theta -+ 1)^2 / 2.

    The minimiser for given y is (y_1 - y_2) / tau: one round maps theta to -tanh(tau theta).
    """
    for _ in range(rounds):
        y_2 = tilt(np.array([(theta - 1) ** 2 / 2, (theta + 1) ** 2 / 2]), tau)
        theta = float(y_2[0] - y_2[1]) / tau
    return theta


def test_alternating_by_hand():
    assert alternated(0.5, 3.0, 1) == pytest.approx(-math.tanh(1.5))
    # Below tau = 1 turns come nearer to the minimum at 0; above they do not.
    assert abs(alternated(0.5, 0.8, 100)) < 1e-6
    far = alternated(0.5, 3.0, 100)
    assert far == pytest.approx(math.tanh(3 * far), abs=1e-9)
    assert alternated(0.5, 3.0, 101) == pytest.approx(-far, abs=1e-9)


def test_checks_hold():
    rows = theory.checks(200, np.random.default_rng(0))
    assert len(rows) == len(theory.LOSSES) * len(theory.TAUS)
    for row in rows:
        room = 1e-14 * (1 + row["tau"] * max(map(abs, row["losses"])))
        assert abs(row["identity"]) <= 10 * room
        assert row["others"] <= 10 * room
        assert sum(row["y"]) == pytest.approx(row["tau"])
        if row["tau"] == 1e-6:
            assert abs(row["above_mean"]) < 1e-4
        if row["tau"] == 1e4:
            assert 0 <= row["above_max"] + 1e-12 < 2e-4
    equal = next(r for r in rows if r["name"] == "equal" and r["tau"] == 3)
    assert equal["equal_step"] == pytest.approx(equal["y"][0] ** 2) == 1
