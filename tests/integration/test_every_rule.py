"""Every rule of the table runs beside a loop of one's own, or is refused by name."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from pike_mixing import METHODS, registry
from pike_mixing.errors import InputError
from pike_mixing.interface import Facts
from pike_mixing.torch import MixedDataset, Mixing
from pipeline.planning import method_catalogue

NAMES, STEPS, SAVED, ROWS = ("a", "b", "c"), 6, 3, 12
SETTINGS = {
    "single": {"domain": "b"},
    "fixed": {"mixture": "found"},
    "pike": {"zeta1": 0.1, "zeta2": 0.01, "every": 2},
    "balanced-pike": {"zeta1": 0.1, "zeta2": 0.01, "tau": 3, "every": 2},
    "conceptual-pike": {"L": 1, "eta": 0.1},
    "dga": {"every": 2},
    "doremi": {"reference": "mix"},
}
REFUSED = {"adatask": "moments for each domain", "doremi": "a frozen reference model"}


def mixing_of(rule):
    required = method_catalogue.required(rule)
    method = registry.build(rule, required | SETTINGS.get(rule, {}), rule)
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    draw = torch.Generator().manual_seed(1)
    rows = {
        name: [(x, k) for x in torch.randn(20, 4, generator=draw) + k]
        for k, name in enumerate(NAMES)
    }
    dataset = MixedDataset(rows, ROWS, micro_batch=6, steps=STEPS)
    sizes = dict.fromkeys(NAMES, 100.0)
    facts = Facts(sizes, budget_tokens=ROWS * STEPS, mixture=dict.fromkeys(NAMES, 1.0))
    return model, Mixing(method, dataset, model, losses, facts=facts)


def losses(model, rows):
    x, label = rows
    return nn.functional.cross_entropy(model(x), label, reduction="none")


def trained(model, mixing, until=STEPS):
    counts = []
    for batch in mixing.data_loader():
        mixing.loss(model, batch).backward()
        if mixing.complete:
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.05 * p.grad
                    p.grad = None
            counts.append(mixing.dataset.counts(mixing.step).tolist())
            mixing.end_step()
        if mixing.step == until:
            break
    return counts


@pytest.mark.parametrize("rule", [rule for rule in METHODS if rule not in REFUSED])
def test_a_rule_trains_and_goes_on(rule):
    model, mixing = mixing_of(rule)
    counts = trained(model, mixing)
    assert np.array(counts).sum(axis=1).tolist() == [ROWS] * STEPS
    assert mixing.positions_K.tolist() == np.sum(counts, axis=0).tolist()
    assert sum(mixing.weights.values()) == pytest.approx(1)
    broken, stopped = mixing_of(rule)
    begun = trained(broken, stopped, until=SAVED)
    state = json.loads(json.dumps(stopped.state_dict()))
    _, later = mixing_of(rule)
    later.load_state_dict(state)
    later.model = broken
    assert begun + trained(broken, later) == counts
    assert later.weights == mixing.weights
    assert torch.equal(broken.weight, model.weight)


@pytest.mark.parametrize("rule", REFUSED)
def test_a_rule_is_refused_by_name(rule):
    with pytest.raises(InputError, match=REFUSED[rule]):
        mixing_of(rule)
