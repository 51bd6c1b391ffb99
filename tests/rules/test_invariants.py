"""What holds for every rule in the table, those to come included."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from arrays import assert_close
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing import METHODS, registry
from pike_mixing.errors import InputError
from pike_mixing.interface import Facts, Needs, Signals, Statistics
from pipeline import settings
from pipeline.model import adamw, checkpoint
from pipeline.model.transformer import initialised
from pipeline.planning import method_catalogue

DOMAINS = ("code", "prose", "tables", "unicode", "web")

SETTINGS = {
    "single": {"domain": "prose"},
    "fixed": {"mixture": "found"},
    "pike": {"zeta1": 0.1, "zeta2": 0.01},
    "balanced-pike": {"zeta1": 0.1, "zeta2": 0.01, "tau": 3},
    "conceptual-pike": {"L": 1, "eta": 0.1},
    # The share of the uniform weights depends on the number of domains.
    "doremi": {"reference": "mix", "smoothing": 1e-9},
}
"""Settings under which a rule shows most; others get any value where they need one."""

LATE = 4000
"""A step at which no rule warms up any more."""

few = effort(max_examples=15, deadline=None)
numbers = st.floats(0, 100).map(lambda value: round(value, 3))
norms = st.lists(numbers, min_size=len(DOMAINS), max_size=len(DOMAINS))


def build(rule, domains=DOMAINS):
    """The rule's method as a run has it, told what a run of these domains knows."""
    method = registry.build(rule, method_catalogue.required(rule) | SETTINGS.get(rule, {}), rule)
    sizes = {domain: 10.0 * len(domain) for domain in domains}
    return method.informed(Facts(sizes, budget_tokens=100.0, mixture=sizes))


rules = pytest.mark.parametrize("rule", METHODS)
adaptive_rules = pytest.mark.parametrize(
    "rule", [rule for rule in METHODS if build(rule).needs() != Needs()]
)

BY_PLACE = ("round-robin", "random")
"""Rules that choose the domain of a step by its place in the list."""
rules_by_name = pytest.mark.parametrize("rule", [rule for rule in METHODS if rule not in BY_PLACE])

LEANING = ("aioli",)
"""Rules that lean to one domain at a time, to see what it does to all."""
even_rules = pytest.mark.parametrize(
    "rule",
    [r for r in METHODS if build(r).needs() != Needs() and r not in LEANING],
)


def signals(method, step, squared_norm, loss=None, cosine=-0.2):
    """All that a method may ask for, made of one number for each domain; NaN for one not there."""
    needs = method.needs()
    squared_norm_K = np.array(squared_norm, dtype=np.float64)
    loss_K = squared_norm_K / 10 + 1 if loss is None else np.array(loss, dtype=np.float64)
    present_K = ~np.isnan(squared_norm_K)
    rows_K = (present_K if present_K.any() else ~present_K) * 8
    norm_K = np.sqrt(squared_norm_K)
    one_KxK = np.eye(len(norm_K))
    given = {
        "statistics": needs.statistics
        and Statistics(
            squared_norm_K=squared_norm_K,
            squared_norm_unbiased_K=squared_norm_K / 2,
            variance_K=squared_norm_K * 4,
            loss_K=loss_K,
            rows_K=rows_K,
        ),
        "loss_K": loss_K if needs.losses or needs.weighs_losses or needs.gramian else None,
        "gram_KxK": np.outer(norm_K, norm_K) * (cosine + (1 - cosine) * one_KxK)
        if needs.gramian
        else None,
        "loss_after_K": 0.9 * loss_K if needs.losses_after else None,
        "excess_K": loss_K / 2 if needs.reference else None,
        "validation_loss_K": loss_K if needs.validation else None,
    }
    return Signals(
        step=step, batch_rows=int(rows_K.sum()), count_K=rows_K.astype(np.int64), **given
    )


def answers(method, state, seen):
    """What a method answers at a step, of what it answers at all."""
    given = {
        "weights": method.weights(state, seen.step),
        "loss weights": method.loss_weights(state, seen),
        "coefficients": method.combine(state, seen),
    }
    return {name: value for name, value in given.items() if value is not None}


def same(ours, theirs):
    """Whether two states are the same, bit by bit; NaN is what a state says of the unknown."""
    np.testing.assert_array_equal(ours, theirs)
    return True


@pytest.mark.slow
@rules
@few
@given(st.integers(0, 10**6), st.integers(1, 1024), norms)
def test_counts_sum_to_the_batch(rule, step, b, squared_norm):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    for _ in range(2):
        count_K = method.allocate(state, step, b)
        assert count_K.dtype == np.int64
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
        assert weights_K.dtype == np.float64
        assert weights_K.sum().item() == pytest.approx(1)
        assert weights_K.min() >= 0
        state = method.observe(state, signals(method, step, squared_norm))


@rules
def test_the_same_seed_and_state_give_the_same_rows(rule):
    for step in range(20):
        first, second = build(rule), build(rule)
        assert np.array_equal(
            first.allocate(first.init(DOMAINS, 7), step, 64),
            second.allocate(second.init(DOMAINS, 7), step, 64),
        )


@rules
def test_a_hook_leaves_the_state_that_it_is_given_as_it_is(rule):
    method = build(rule)
    seen = signals(method, LATE, [5.0, 4.0, 3.0, 2.0, 1.0])
    state = method.observe(method.init(DOMAINS, 3), seen)
    before = {name: value.copy() for name, value in state.items()}
    method.allocate(state, 1, 64)
    answers(method, state, seen)
    method.observe(state, seen)
    assert state.keys() == before.keys()
    assert all(same(state[name], before[name]) for name in state)


@rules
def test_the_state_survives_a_checkpoint_bit_by_bit(rule, tmp_path):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    # Weights far below the smallest float64 are kept as logarithms.
    state = method.observe(state, signals(method, 0, [0.1, 2e4, 1 / 3, 0.0, math.pi]))
    model, optimizer = small_model()
    positions_K = np.arange(len(DOMAINS))
    progress = checkpoint.TrainState(1, state, positions_K, positions_K)
    checkpoint.save(tmp_path / "step1", model, optimizer, progress, "identity")
    restored = checkpoint.restore(tmp_path / "step1", model, optimizer, torch.device("cpu")).method
    assert restored.keys() == state.keys()
    assert all(same(restored[name], state[name]) for name in state)
    for step in range(10):
        assert np.array_equal(method.weights(restored, step), method.weights(state, step))


@even_rules
@few
@given(st.lists(numbers, min_size=4, max_size=4))
def test_an_absent_domain_changes_the_others_by_normalisation_alone(rule, squared_norm):
    method = build(rule)
    seen = signals(method, 0, [*squared_norm, math.nan])
    state = method.init(DOMAINS, 3)
    whole = answers(method, method.observe(state, seen), seen)
    assert all(np.isfinite(value).all() for value in whole.values())
    # Odds among the others are those of a run that never had the domain.
    seen = signals(method, 0, squared_norm)
    four = answers(method, method.observe(method.init(DOMAINS[:4], 3), seen), seen)
    weights_K = whole.pop("weights")
    shared_K = weights_K[:4] / weights_K[:4].sum()
    assert_close(shared_K, four.pop("weights"), rtol=1e-6, atol=1e-6)
    assert whole.keys() == four.keys()
    for name, value_K in whole.items():
        assert value_K[4] == 0
        assert_close(value_K[:4], four[name], rtol=1e-6, atol=1e-6)


@even_rules
@few
@given(numbers, st.floats(0.01, 12))
def test_equal_signals_leave_equal_weights_equal(rule, squared_norm, loss):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    K = len(DOMAINS)
    # Gradients without conflict: PCGrad and GradVaccine visit those with conflicts in some order.
    seen = signals(method, LATE, [squared_norm] * K, [loss] * K, cosine=0.3)
    for value_K in answers(method, method.observe(state, seen), seen).values():
        assert_close(value_K, value_K.mean().repeat(K))


@adaptive_rules
def test_signals_that_cover_no_domain_change_nothing(rule):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    after = method.observe(state, signals(method, 0, [math.nan] * len(DOMAINS)))
    assert_close(method.weights(after, 0), method.weights(state, 0))


SICK = ("squared_norm_K", "squared_norm_unbiased_K", "variance_K", "statistics_loss_K")
SICK += ("loss_K", "loss_after_K", "excess_K", "validation_loss_K", "gram_KxK")
sick_numbers = st.sampled_from([math.nan, math.inf, -math.inf, 1e-30, 1e30])


def poisoned(seen, name, k, value):
    """The signals with another number of domain k; that of a Gramian on its diagonal."""
    owner, field = seen, name
    if name in SICK[:4]:
        owner, field = seen.statistics, name.removeprefix("statistics_")
    if owner is None or getattr(owner, field) is None:
        return seen
    given = getattr(owner, field).copy()
    given[(k, k) if name == "gram_KxK" else k] = value
    changed = dataclasses.replace(owner, **{field: given})
    return changed if owner is seen else dataclasses.replace(seen, statistics=changed)


@pytest.mark.slow
@adaptive_rules
@few
@given(st.lists(st.tuples(st.sampled_from(SICK), st.integers(0, 4), sick_numbers), min_size=1))
def test_a_signal_that_is_no_number_is_ignored_or_refused_by_name(rule, sick):
    method = build(rule)
    state = method.init(DOMAINS, 3)
    for step in range(LATE, LATE + 3):
        seen = signals(method, step, [1.0, 2.0, 3.0, 4.0, 5.0])
        for name, k, value in sick:
            seen = poisoned(seen, name, k, value)
        try:
            given = answers(method, state, seen)
            state = method.observe(state, seen)
        except InputError as error:
            if f"step {step}" in str(error):
                return
            raise
        assert all(np.isfinite(value).all() for value in given.values())
        weights_K = method.weights(state, step + 1)
        assert np.isfinite(weights_K).all()
        assert weights_K.min() >= 0
        assert method.allocate(state, step + 1, 64).sum() == 64


@rules_by_name
@few
@given(norms)
def test_the_order_of_the_domains_does_not_matter(rule, squared_norm):
    method, order = build(rule), [2, 4, 0, 1, 3]
    seen = signals(method, LATE, squared_norm)
    sorted_K = answers(method, method.observe(method.init(DOMAINS, 3), seen), seen)
    mixed = tuple(DOMAINS[k] for k in order)
    seen = signals(method, LATE, [squared_norm[k] for k in order])
    mixed_K = answers(method, method.observe(method.init(mixed, 3), seen), seen)
    assert sorted_K.keys() == mixed_K.keys()
    for name, value_K in sorted_K.items():
        assert_close(mixed_K[name], value_K[order], rtol=1e-5, atol=1e-6)


@rules
def test_one_domain_alone_is_a_mixture_too(rule):
    method = build(rule, ("prose",))
    state = method.init(("prose",), 3)
    for step in (0, 1, 100, 1000, 1100, 3000):
        assert method.allocate(state, step, 7).tolist() == [7]
        seen = signals(method, step, [2.0])
        for value_K in answers(method, state, seen).values():
            assert value_K.shape == (1,)
            assert value_K > 0
        state = method.observe(state, seen)


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
    return model, adamw.adamw(model, recipe)
