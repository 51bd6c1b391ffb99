"""Exposure and objective apart: the share of rows and the weight in the loss."""

import numpy as np
import pytest
import torch
from torch import nn

from pike_mixing import Fixed, Schedule, Temperature, UniMax
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, RunFacts, Signals
from pike_mixing.torch import MixedDataset, Mixing

RULES = {
    "fixed": lambda **o: Fixed({"a": 3, "b": 1}, **o),
    "schedule": lambda **o: Schedule(points=({"a": 3, "b": 1},), **o),
    "temperature": lambda **o: Temperature(tokens_by_domain={"a": 27, "b": 1}, temperature=3, **o),
    "unimax": lambda **o: UniMax(tokens_by_domain={"a": 3, "b": 1}, budget_tokens=4, epochs=1, **o),
}


@pytest.mark.parametrize("rule", RULES)
def test_rows_follow_the_weights_and_losses_the_objective(rule):
    method = RULES[rule](objective={"a": 1, "b": 4})
    state = method.init(("a", "b"), 0)
    assert method.allocate(state, 0, 8).tolist() == [6, 2]
    for count_K, expected in (([6, 2], [0.2, 0.8]), ([8, 0], [1, 0]), ([0, 8], [0, 1])):
        signals = Signals(0, 8, count_K=np.array(count_K))
        assert method.loss_weights(state, signals).tolist() == pytest.approx(expected)
    # No pass over the model is added.
    assert method.needs() == Needs()
    plain = RULES[rule]()
    assert plain.init(("a", "b"), 0).keys() == state.keys() - {"objective_K"}
    assert plain.loss_weights(plain.init(("a", "b"), 0), signals) is None


@pytest.mark.parametrize("kind", [Temperature, UniMax, Schedule])
def test_the_run_fills_in_what_nobody_wrote_down(kind):
    known = {"tokens_by_domain": {"a": 9, "b": 1}, "budget_tokens": 10, "steps": 5}
    known = {name: value for name, value in known.items() if hasattr(kind, name)}
    facts = RunFacts({"a": 9, "b": 1}, 10, steps=5)
    assert kind().for_run(facts) == kind(**known)
    assert kind(**known).for_run(RunFacts({"a": 2}, 3, steps=4)) == kind(**known)


def test_an_objective_without_the_batchs_domains_leaves_nothing():
    method = Fixed({"a": 1, "b": 1}, objective={"a": 1, "b": 0})
    signals = Signals(0, 2, count_K=np.array([0, 2]))
    assert method.loss_weights(method.init(("a", "b"), 0), signals).tolist() == [0, 0]
    with pytest.raises(InputError, match="objective: domain 'b' has no weight"):
        Fixed({"a": 1, "b": 1}, objective={"a": 1}).init(("a", "b"), 0)


@pytest.mark.parametrize(
    ("objective", "expected"),
    # Losses theta of each row of a, 5 theta of b; 6 rows and 2: the mean is (6 + 10) / 8.
    [(None, 2.0), ({"a": 1, "b": 4}, 0.2 + 0.8 * 5), ({"a": 1, "b": 0}, 1.0)],
)
@pytest.mark.parametrize("micro_batch_rows", [8, 2])
def test_the_gradient_in_a_loop_of_ones_own(objective, expected, micro_batch_rows):
    rows = {"a": [torch.ones(1)] * 8, "b": [torch.full((1,), 5.0)] * 8}
    dataset = MixedDataset(rows, 8, micro_batch_rows=micro_batch_rows, steps=1)
    model = nn.Linear(1, 1, bias=False)
    method = Fixed({"a": 3, "b": 1}, objective=objective)
    mixing = Mixing(method, dataset, model, lambda model, x: model(x)[:, 0])
    for batch in mixing.data_loader():
        mixing.loss(model, batch).backward()
    assert model.weight.grad.item() == pytest.approx(expected)
