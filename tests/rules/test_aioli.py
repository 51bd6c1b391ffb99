import math

import numpy as np
import pytest
from arrays import assert_close, vector

from pike_mixing.errors import InputError
from pike_mixing.interface import Signals
from pike_mixing.numerics.simplex import softmax
from pike_mixing.rules.aioli import Aioli

DOMAINS = ("en", "hi", "de")


def run(method, domains, helps, steps, start=10.0):
    """The state after a run in which a step on weights w lowers the held-out losses by A w."""
    state, loss_K = method.init(domains, 7), np.full(len(domains), start)
    need = method.needs().validation
    for step in range(steps):
        if need.is_due(step):
            signals = Signals(step=step, batch_rows=4, validation_loss_K=loss_K)
            state = method.observe(state, signals)
        loss_K = loss_K - helps @ method.weights(state, step)
    return state


# What is measured after the slots, which end at step 20, changes nothing.
@pytest.mark.parametrize("steps", [21, 40])
def test_what_helps_what_is_found_exactly(steps):
    # Two domains; hi helps both, en itself alone.
    helps = np.array([[0.02, 0.01], [0.0, 0.03]])
    method = Aioli(sweeps=2, slot=5, every=40)
    state = run(method, ("en", "hi"), helps, steps)
    # A slot of 5 steps; A is divided by its sum, 5 * 0.06.
    assert_close(state["graph_KxK"], helps / 0.06)
    # Columns 1/3 and 2/3.
    assert_close(state["weights_K"], softmax(vector(1 / 3, 2 / 3)))


def test_a_matrix_with_harm_in_it_is_shifted():
    helps = np.array([[0.03, -0.01], [0.0, 0.03]])
    state = run(Aioli(sweeps=1, slot=5, every=20), ("en", "hi"), helps, 11)
    # 4, 0, 1 and 4 hundredths, of sum 9.
    assert_close(state["graph_KxK"], np.array([[4, 0], [1, 4]]) / 9)


def test_the_old_matrix_counts_a_little():
    method = Aioli(sweeps=1, slot=1, every=4, ema=0.25)
    one, two = np.diag(vector(1, 3)), np.diag(vector(3, 1))
    state, loss_K = method.init(("en", "hi"), 0), vector(100, 100)
    for step in range(7):
        state = method.observe(state, Signals(step=step, batch_rows=4, validation_loss_K=loss_K))
        loss_K = loss_K - (one if step < 4 else two) @ method.weights(state, step)
    # 0.75 * (3/4, 1/4) + 0.25 * (1/4, 3/4).
    assert_close(state["graph_KxK"], np.diag(vector(0.625, 0.375)))


def test_a_sweep_leans_to_each_domain_once():
    method = Aioli(sweeps=2, slot=3, every=30)
    state = method.init(DOMAINS, 0)
    leaned = [method.leaning_domain(state, step) for step in range(60)]
    for begin in (0, 9, 30, 39):
        sweep = leaned[begin : begin + 9]
        assert sweep[::3] == sweep[1::3] == sweep[2::3]
        assert sorted(sweep[::3]) == [0, 1, 2]
    assert leaned[18:30] == leaned[48:] == [None] * 12
    # Order is drawn for each sweep.
    assert len({tuple(leaned[begin : begin + 9]) for begin in (0, 9, 30, 39)}) > 1


def test_the_batch_leans_in_a_slot_and_follows_the_weights_after():
    method = Aioli(sweeps=1, slot=2, every=10)
    state = method.init(DOMAINS, 0) | {"weights_K": vector(0.5, 0.25, 0.25)}
    k = method.leaning_domain(state, 0)
    weights_K = method.weights(state, 0)
    assert weights_K[k] == 0.75
    assert weights_K.sum().item() == pytest.approx(1)
    assert method.allocate(state, 0, 16)[k] == 12
    assert method.weights(state, 6).tolist() == [0.5, 0.25, 0.25]


def test_a_domain_without_a_held_out_loss_has_not_fallen():
    method = Aioli(sweeps=1, slot=1, every=10, lean=1)
    state = method.init(("en", "hi"), 0)
    for step, loss in enumerate((5.0, 4.0, 3.0)):
        loss_K = vector(loss, math.nan)
        state = method.observe(state, Signals(step=step, batch_rows=4, validation_loss_K=loss_K))
    assert_close(state["graph_KxK"], np.array([[0.5, 0.5], [0, 0]]))


def test_a_round_that_does_not_hold_its_slots_is_refused():
    with pytest.raises(InputError, match=r"every: 60 steps do not hold 2 x 3 slots of 10"):
        Aioli(every=60).init(DOMAINS, 0)


def test_a_lean_to_nobody_is_refused():
    with pytest.raises(InputError, match=r"lean: 0\.5 leans to none of 2 domains"):
        Aioli(lean=0.5).init(("en", "hi"), 0)
