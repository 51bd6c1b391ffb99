"""Rules whose weights follow no signal, and an objective beside their weights."""

import numpy as np
import pytest
import torch
from arrays import assert_close, recorded, vector
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from torch import nn

from pike_mixing import Schedule, by_domain
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, RunFacts, Signals
from pike_mixing.rules.static import (
    Fixed,
    Mix,
    Random,
    RoundRobin,
    Single,
    Temperature,
    UniMax,
    weights_capped_by_epochs,
)
from pike_mixing.torch import MixedDataset, Mixing

DOMAINS = ("en", "hi", "de")
GLAM = dict(
    zip(
        ("filtered-webpages", "wikipedia", "conversations", "forums", "books", "news"),
        (0.51, 0.05, 0.22, 0.04, 0.20, 0.02),
        strict=True,
    )
)
"""DoReMi's weights as printed in the paper, which sum to 1.04."""


@pytest.mark.parametrize(
    ("method", "domains", "step", "b", "expected"),
    [
        # 256 / 3 = 85 remainder 1; plain rounding would give 255 rows.
        (Mix(), DOMAINS, 0, 256, [86, 85, 85]),
        (RoundRobin(), DOMAINS, 2, 256, [0, 0, 256]),
        (RoundRobin(), DOMAINS, 3_000_001, 256, [0, 256, 0]),
        (Single("hi"), DOMAINS, 3, 256, [0, 256, 0]),
        # By name, not by place; divided by the sum.
        (Fixed({"de": 1, "en": 3}), ("en", "de"), 0, 8, [6, 2]),
        (Fixed(GLAM), tuple(GLAM), 0, 256, [126, 12, 54, 10, 49, 5]),
    ],
)
def test_rows_by_hand(method, domains, step, b, expected):
    state = method.init(domains, 0)
    assert method.allocate(state, step, b).tolist() == expected
    assert method.needs() == Needs()
    signals = Signals(step=step, batch_rows=b)
    assert method.observe(state, signals) is state
    assert method.loss_weights(state, signals) is None
    assert method.gradient_coefficients(state, signals) is None


@pytest.mark.parametrize(
    ("made", "messages"),
    [
        (
            lambda: Fixed({"en": 1, "hindi": 1}).init(("en", "hind"), 0),
            ["'hindi' is unknown: did you mean 'hind'?", "domain 'hind' has no weight"],
        ),
        (lambda: Fixed({"en": 1}, mixture="doremi"), ["give either these or a mixture"]),
        (
            lambda: Fixed(mixture="doremi").for_run(RunFacts({}, 100)),
            ["'doremi' were not given to the run"],
        ),
        (
            lambda: by_domain.required_tokens_in_order({"en": 1, "hindi": 1}, ("en", "hind")),
            ["'hindi' is unknown: did you mean 'hind'?", "domain 'hind' has no size"],
        ),
        (lambda: Temperature().init(DOMAINS, 0), ["the sizes of the corpora are not known: give"]),
    ],
)
def test_what_a_rule_cannot_mix_is_refused(made, messages):
    with pytest.raises(InputError) as caught:
        made()
    for message in messages:
        assert message in str(caught.value)


def test_a_mixture_that_other_runs_found_takes_the_place_of_written_weights():
    found = Fixed(mixture="doremi").for_run(RunFacts({}, 100, mixture={"en": 0.75, "hi": 0.25}))
    assert found == Fixed({"en": 0.75, "hi": 0.25})


@pytest.mark.parametrize(
    ("seed", "expected"),
    [(0, [2, 2, 1, 1, 1, 0, 0, 2, 1, 1, 0, 1]), (1, [1, 2, 0, 0, 2, 2, 2, 1, 0, 2, 2, 0])],
)
def test_the_draws_stay_the_same_from_version_to_version(seed, expected):
    method = Random()
    state = method.init(DOMAINS, seed)
    counts = [method.allocate(state, step, 256).tolist() for step in range(12)]
    assert counts == [[256 * (k == drawn) for k in range(3)] for drawn in expected]


def weights(temperature, *tokens):
    names = tuple(f"domain{k}" for k in range(len(tokens)))
    by_name = dict(zip(names, tokens, strict=True))
    method = Temperature(temperature=temperature, tokens_by_domain=by_name)
    return method.weights(method.init(names, 0), 0)


@pytest.mark.parametrize(
    ("temperature", "tokens", "expected"),
    [
        # 8^(1/3) : 1^(1/3) = 2 : 1.
        (3, (8, 1), (2, 1)),
        (1, (6, 3, 1), (6, 3, 1)),
        (1e9, (10**12, 1), (1, 1)),
        # mT5's: (10^10)^0.3 = 10^3.
        (Temperature().temperature, (1e10, 1), (1000, 1)),
        # 1e200 squared is no float64.
        (0.5, (1e200, 1), (1, 0)),
    ],
)
def test_weights_are_a_root_of_the_sizes(temperature, tokens, expected):
    assert_close(weights(temperature, *tokens), vector(*expected) / sum(expected))


def test_the_example_published_with_unimax_sampling_is_met():
    known = recorded("unimax")
    method = UniMax(
        epochs=known["epochs"], tokens_by_domain=known["sizes"], budget_tokens=known["budget"]
    )
    weights_K = method.weights(method.init(tuple(known["weights"]), 0), 0)
    assert_close(weights_K, vector(*known["weights"].values()), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("tokens", "budget", "epochs", "expected"),
    [
        # 4 each, but 2 epochs of 1 token are 2; the others take (12 - 2) / 2 = 5 each.
        ((9, 1, 7), 12, 2, (5, 2, 5)),
        # A short run takes equal parts.
        ((100, 900, 500), 30, 1, (10, 10, 10)),
        # 4 epochs of 1 and 9 tokens are 40: a longer run keeps the proportions.
        ((1, 9), 1000, 4, (100, 900)),
    ],
)
def test_what_a_small_domain_cannot_take_the_others_share(tokens, budget, epochs, expected):
    assert_close(
        weights_capped_by_epochs(vector(*tokens), budget, epochs), vector(*expected) / budget
    )


def test_a_budget_is_asked_for():
    with pytest.raises(InputError, match="budget_tokens: the length of the run is not known"):
        UniMax(tokens_by_domain={"en": 1}).init(("en",), 0)


@effort(max_examples=30)
@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=8),
    st.integers(1, 10**9),
    st.integers(1, 10),
)
def test_no_domain_passes_its_epochs_while_another_has_some_left(tokens, budget, epochs):
    epoch_K = weights_capped_by_epochs(vector(*tokens), budget, epochs) * budget / vector(*tokens)
    if budget <= epochs * sum(tokens):
        assert epoch_K.max() <= epochs * (1 + 1e-9)
    else:
        assert_close(epoch_K, epoch_K.mean().repeat(len(tokens)))


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
