"""Every rule of the table runs in a loop of one's own, whoever makes the passes."""

import dataclasses
import json
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from pike_mixing import METHODS, method_registry
from pike_mixing.interface import Method, Needs, RunFacts
from pike_mixing.torch import MixedDataset, Mixing, PerDomainAdamW
from pipeline.planning import method_catalogue

NAMES, STEPS, SAVED, ROWS = ("a", "b", "c"), 6, 3, 12
SETTINGS = {
    "single": {"domain": "b"},
    "fixed": {"mixture": "found"},
    "pike": {"zeta1": 0.1, "zeta2": 0.01, "every": 2},
    "balanced-pike": {"zeta1": 0.1, "zeta2": 0.01, "tau": 3, "every": 2},
    "conceptual-pike": {"L": 1, "eta": 0.1},
    "doremi": {"reference": "mix"},
}
MOMENTS = ("adatask",)


def mixing_of(rule, method=None):
    if method is None:
        required = method_catalogue.placeholders_of_required_settings(rule)
        method = method_registry.build_method(rule, required | SETTINGS.get(rule, {}), rule)
    torch.manual_seed(0)
    model, reference = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False)
    draw = torch.Generator().manual_seed(1)
    rows = {
        name: [(x, k) for x in torch.randn(20, 4, generator=draw) + k]
        for k, name in enumerate(NAMES)
    }
    dataset = MixedDataset(rows, ROWS, micro_batch_rows=6, steps=STEPS)
    sizes = dict.fromkeys(NAMES, 100.0)
    facts = RunFacts(sizes, budget_tokens=ROWS * STEPS, mixture=dict.fromkeys(NAMES, 1.0))
    if rule in MOMENTS:
        optimizer = PerDomainAdamW(model.parameters(), len(NAMES), lr=0.05)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def excess(model, rows):
        return (losses(model, rows) - losses(reference, rows)).clamp(min=0)

    mixing = Mixing(
        method, dataset, model, losses, facts=facts, excess_fn=excess, optimizer=optimizer
    )
    return optimizer, mixing


def losses(model, rows):
    x, label = rows
    return nn.functional.cross_entropy(model(x), label, reduction="none")


def trained(optimizer, mixing, until=STEPS):
    counts = []
    for batch in mixing.data_loader():
        mixing.loss(mixing.model, batch).backward()
        if mixing.is_step_complete:
            ends(optimizer, mixing, counts)
        if mixing.step == until:
            break
    return counts


def ends(optimizer, mixing, counts):
    optimizer.step()
    optimizer.zero_grad()
    counts.append(mixing.dataset.counts(mixing.step).tolist())
    mixing.end_step()


@pytest.mark.parametrize("rule", METHODS)
def test_a_rule_trains_and_goes_on(rule):
    optimizer, mixing = mixing_of(rule)
    counts = trained(optimizer, mixing)
    assert np.array(counts).sum(axis=1).tolist() == [ROWS] * STEPS
    assert mixing.positions_K.tolist() == np.sum(counts, axis=0).tolist()
    assert sum(mixing.weights.values()) == pytest.approx(1)
    broken, stopped = mixing_of(rule)
    begun = trained(broken, stopped, until=SAVED)
    state = json.loads(json.dumps(stopped.state_dict()))
    again, later = mixing_of(rule)
    later.load_state_dict(state)
    later.model.load_state_dict(stopped.model.state_dict())
    again.load_state_dict(broken.state_dict())
    assert begun + trained(again, later) == counts
    assert later.weights == mixing.weights
    assert torch.equal(later.model.weight, mixing.model.weight)


@pytest.mark.parametrize("rule", METHODS)
def test_passes_that_the_method_makes_train_the_same(rule):
    """Gradients of the rule's own passes, in place of weights in the loop's own loss."""
    optimizer, mixing = mixing_of(rule)
    expected, found = trained(optimizer, mixing), []
    own, passing = mixing_of(rule)
    for _ in passing.steps():
        passing.backward()
        ends(own, passing, found)
    assert found == expected
    torch.testing.assert_close(passing.model.weight, mixing.model.weight, rtol=1e-4, atol=1e-5)
    assert passing.weights == pytest.approx(mixing.weights, rel=1e-4)


@dataclasses.dataclass(frozen=True)
class Noting(Method):
    """Notes the names of what each hook is given at each step."""

    wants: tuple[str, ...]
    notes: ClassVar[list[tuple[int, str, set[str]]]] = []

    def needs(self):
        return Needs(**dict.fromkeys(self.wants, True))

    def init(self, domains, seed):
        return {"weights_K": np.full(len(domains), 1 / len(domains))}

    def note(self, hook, signals):
        assert signals.count_K.tolist() == [4, 4, 4]
        given = {n for n, value in vars(signals).items() if value is not None}
        self.notes.append((signals.step, hook, given - {"step", "batch_rows", "count_K"}))

    def loss_weights(self, state, signals):
        self.note("loss_weights", signals)

    def gradient_coefficients(self, state, signals):
        self.note("gradient_coefficients", signals)

    def observe(self, state, signals):
        self.note("observe", signals)
        return state


@pytest.mark.parametrize("own_passes", [False, True])
@pytest.mark.parametrize(
    ("wants", "before", "after"),
    [
        ((), set(), set()),
        (("losses",), set(), {"loss_K"}),
        (("losses_after",), set(), {"loss_after_K"}),
        (("weighs_losses", "losses_after"), {"loss_K"}, {"loss_after_K"}),
        (("reference",), {"excess_K"}, {"excess_K"}),
        (("gramian",), {"gram_KxK"}, {"gram_KxK"}),
        (("gramian", "losses"), {"gram_KxK", "loss_K"}, {"gram_KxK", "loss_K"}),
    ],
)
def test_a_rule_is_given_what_it_asks_for_alone_at_each_step(wants, before, after, own_passes):
    optimizer, mixing = mixing_of("own", Noting(wants))
    Noting.notes.clear()
    if own_passes:
        for _ in mixing.steps():
            mixing.backward()
            ends(optimizer, mixing, [])
    else:
        trained(optimizer, mixing)
    asked = "gradient_coefficients" if "gramian" in wants else "loss_weights"
    each = ((asked, before), ("observe", after))
    assert Noting.notes == [(step, *hook) for step in range(STEPS) for hook in each]
