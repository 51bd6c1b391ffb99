"""The tilted loss (`eq:fairness_def`): its min-max form (`lemma:MinToMinMax`), and its limits.

tilted(tau) = log(sum_k exp(tau L_k)) / tau
tau tilted(tau) = max over y >= 0 with sum tau of  sum_k y_k L_k - sum_k y_k/tau log(y_k/tau)
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pike_mixing.rules.pike import tau_softmax_of_tau_loss
from pipeline.theory.problem import vector


def tilted(loss_K, tau):
    return float(np.logaddexp.reduce(tau * loss_K)) / tau


def inner(y_K, loss_K, tau):
    """What the lemma maximises over y. A y_k of 0 adds 0 to the entropy."""
    share_K = y_K / tau
    logs_K = np.log(share_K, where=share_K > 0, out=np.zeros_like(share_K))
    return float(y_K @ loss_K - share_K @ logs_K)


def test_both_sides_by_hand():
    # exp gives 1 and 3: tilted log 4, shares 1/4 and 3/4; 3/4 log 3 - (1/4 log 1/4 + 3/4 log 3/4).
    loss_2 = vector(0, math.log(3))
    assert tilted(loss_2, 1.0) == pytest.approx(math.log(4))
    assert tau_softmax_of_tau_loss(loss_2, 1.0).tolist() == pytest.approx([0.25, 0.75])
    assert inner(vector(0.25, 0.75), loss_2, 1.0) == pytest.approx(math.log(4))
    # All on the second: its loss alone. A y_k of 0 adds nothing.
    assert inner(vector(0, 1), loss_2, 1.0) == pytest.approx(math.log(3))


losses = st.lists(st.floats(-20, 20), min_size=2, max_size=5)


@given(losses, st.floats(0.01, 20), st.integers(0, 2**32))
def test_the_identity_holds_and_no_other_y_is_higher(values, tau, seed):
    loss_K = vector(*values)
    y_K = tau_softmax_of_tau_loss(loss_K, tau)
    best = inner(y_K, loss_K, tau)
    assert best == pytest.approx(tau * tilted(loss_K, tau), rel=1e-9, abs=1e-9)
    other_K = np.random.default_rng(seed).random(len(values))
    other_K = tau * other_K / other_K.sum()
    assert inner(other_K, loss_K, tau) <= best + 1e-9


def test_the_gradient_of_the_tilted_loss_weighs_by_y():
    # With L_k = (theta - k)^2 / 2 the gradient is sum_k y_k (theta - k) / tau.
    def losses_3(theta):
        return (theta - np.arange(3)) ** 2 / 2

    slope = (tilted(losses_3(0.3 + 1e-6), 2) - tilted(losses_3(0.3 - 1e-6), 2)) / 2e-6
    assert slope == pytest.approx(
        tau_softmax_of_tau_loss(losses_3(0.3), 2) @ (0.3 - np.arange(3)) / 2, abs=1e-8
    )
