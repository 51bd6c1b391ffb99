"""What holds for every rule in the table, those to come included."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pipeline import checkpoint, optim, settings
from pipeline.mixing import METHODS, registry
from pipeline.mixing.seams import Needs, Signals, Statistics
from pipeline.model import initialised

DOMAINS = ("code", "prose", "tables", "unicode", "web")

SETTINGS = {
    "single": {"domain": "prose"},
    "fixed": {"weights_by_domain": {"code": 1, "prose": 2, "tables": 3, "unicode": 4, "web": 5}},
    "pike": {"zeta1": 0.1, "zeta2": 0.01},
    "balanced-pike": {"zeta1": 0.1, "zeta2": 0.01, "tau": 3},
}
"""Settings of rules that cannot do without."""

few = effort(max_examples=25, deadline=None)
norms = st.lists(st.floats(0, 100), min_size=len(DOMAINS), max_size=len(DOMAINS))


def build(rule):
    return registry.build(rule, SETTINGS.get(rule, {}), rule)


BY_PLACE = ("round-robin", "random")
"""Rules that choose the domain of a step by its place in the list."""
rules = pytest.mark.parametrize("rule", METHODS)
adaptive_rules = pytest.mark.parametrize(
    "rule", [rule for rule in METHODS if build(rule).needs() != Needs()]
)
rules_by_name = pytest.mark.parametrize("rule", [rule for rule in METHODS if rule not in BY_PLACE])


def signals(method, step, squared_norm, loss=None, b=64):
    """All that a method may ask for, made of one number for each domain."""
    squared_norm_K = torch.tensor(squared_norm, dtype=torch.float64)
    loss_K = squared_norm_K / 10 if loss is None else torch.tensor(loss, dtype=torch.float64)
    rows_K = (~squared_norm_K.isnan()).double() * 8
    statistics = Statistics(
        squared_norm_K=squared_norm_K,
        squared_norm_unbiased_K=squared_norm_K / 2,
        variance_K=squared_norm_K * 4,
        loss_K=loss_K,
        rows_K=rows_K,
    )
    given = {"statistics": statistics} if method.needs().statistics else {}
    if method.needs().losses:
        given |= {"loss_K": loss_K, "count_K": rows_K.long()}
    return Signals(step=step, batch_rows=b, **given)


@rules
@few
@given(st.integers(0, 10**6), st.integers(1, 1024), norms)
def test_counts_sum_to_the_batch(rule, step, b, squared_norm):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    for _ in range(2):
        count_K = method.allocate(state, step, b)
        assert count_K.dtype == torch.int64
        assert count_K.sum() == b
        assert count_K.min() >= 0
        state = method.observe(state, signals(method, step, squared_norm))


@rules
@few
@given(st.integers(0, 10**6), norms)
def test_weights_are_non_negative_and_sum_to_one(rule, step, squared_norm):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    for _ in range(2):
        weights_K = method.weights(state, step)
        assert weights_K.dtype == torch.float64
        assert weights_K.sum().item() == pytest.approx(1)
        assert weights_K.min() >= 0
        state = method.observe(state, signals(method, step, squared_norm))


@rules
def test_the_same_seed_and_state_give_the_same_rows(rule):
    for step in range(20):
        first, second = build(rule), build(rule)
        assert torch.equal(
            first.allocate(first.init(DOMAINS, 7), step, 64),
            second.allocate(second.init(DOMAINS, 7), step, 64),
        )


@rules
def test_a_hook_leaves_the_state_that_it_is_given_as_it_is(rule):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    before = {name: value.clone() for name, value in state.items()}
    method.weights(state, 1)
    method.allocate(state, 1, 64)
    method.loss_weights(state, Signals(step=1, batch_rows=64))
    method.combine(state, torch.eye(len(DOMAINS), dtype=torch.float64))
    method.observe(state, signals(method, 1, [5.0, 4.0, 3.0, 2.0, 1.0]))
    assert state.keys() == before.keys()
    assert all(torch.equal(state[name], before[name]) for name in state)


@rules
def test_the_state_survives_a_checkpoint_bit_by_bit(rule, tmp_path):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    # Weights far below the smallest float64 are kept as logarithms.
    state = method.observe(state, signals(method, 0, [0.1, 2e4, 1 / 3, 0.0, math.pi]))
    model, optimizer = small_model()
    positions_K = torch.arange(len(DOMAINS))
    progress = checkpoint.Progress(1, state, positions_K, positions_K)
    checkpoint.save(tmp_path / "step1", model, optimizer, progress, "identity")
    restored = checkpoint.restore(tmp_path / "step1", model, optimizer, torch.device("cpu")).method
    assert restored.keys() == state.keys()
    for name in state:
        assert restored[name].dtype == state[name].dtype
        assert torch.equal(restored[name], state[name])
    for step in range(10):
        assert torch.equal(method.weights(restored, step), method.weights(state, step))


@adaptive_rules
@few
@given(st.lists(st.floats(0, 50), min_size=4, max_size=4))
def test_an_absent_domain_changes_the_others_by_normalisation_alone(rule, squared_norm):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    absent = method.observe(state, signals(method, 0, [*squared_norm, math.nan]))
    weights_K = method.weights(absent, 1)
    assert not weights_K.isnan().any()
    # Odds among the others are those of a run that never had the domain.
    four = method.observe(method.init(DOMAINS[:4], 3), signals(method, 0, squared_norm))
    shared_K = weights_K[:4] / weights_K[:4].sum()
    torch.testing.assert_close(shared_K, method.weights(four, 1), rtol=1e-6, atol=1e-6)


@adaptive_rules
@few
@given(st.floats(0, 1000), st.floats(0, 12))
def test_equal_signals_leave_equal_weights_equal(rule, squared_norm, loss):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    K = len(DOMAINS)
    state = method.observe(state, signals(method, 0, [squared_norm] * K, [loss] * K))
    torch.testing.assert_close(method.weights(state, 1), torch.full((K,), 1 / K).double())


@adaptive_rules
def test_signals_that_cover_no_domain_change_nothing(rule):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    after = method.observe(state, signals(method, 0, [math.nan] * len(DOMAINS)))
    torch.testing.assert_close(method.weights(after, 0), method.weights(state, 0))


@rules_by_name
def test_the_order_of_the_domains_does_not_matter(rule):
    method, backwards = build(rule), DOMAINS[::-1]
    squared_norm = [5.0, 4.0, 3.0, 2.0, 1.0]
    forth = method.observe(method.init(DOMAINS, 3), signals(method, 0, squared_norm))
    back = method.observe(method.init(backwards, 3), signals(method, 0, squared_norm[::-1]))
    torch.testing.assert_close(method.weights(back, 1).flip(0), method.weights(forth, 1))


def small_model():
    shape = settings.Model(layers=1, width=4, heads=1, head_width=2)
    model = initialised(shape, 8, 0)
    recipe = settings.Training(
        rows=1,
        length=1,
        steps=1,
        warmup_steps=0,
        peak_learning_rate=1e-3,
        initial_learning_rate=1e-3,
        final_learning_rate=1e-3,
        checkpoint_every=1,
        resume_every=1,
    )
    return model, optim.adamw(model, recipe)
