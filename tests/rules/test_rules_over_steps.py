"""What holds for every rule that learns from signals, over many steps and all that it answers."""

import dataclasses
import io

import numpy as np
import pytest
from arrays import assert_close
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing.interface import Signals, Statistics
from pike_mixing.rules.aioli import Aioli
from pike_mixing.rules.conceptual_pike import ConceptualPiKE
from pike_mixing.rules.doge import DoGE
from pike_mixing.rules.doremi import DoReMi
from pike_mixing.rules.famo import FAMO
from pike_mixing.rules.gradnorm import GradNorm
from pike_mixing.rules.odm import OnlineDataMixing
from pike_mixing.rules.skill_it import SkillIt

DOMAINS = ("code", "prose", "tables", "unicode", "web")
STEPS = 10

RULES = {
    "aioli": Aioli(sweeps=1, slot=1, every=7),
    "conceptual-pike": ConceptualPiKE(L=1, eta=0.1, norm="plug-in"),
    "doge": DoGE(rate=0.5),
    "doremi": DoReMi(reference="mix", smoothing=1e-12),
    "famo": FAMO(),
    "gradnorm": GradNorm(first=1),
    "odm-code": OnlineDataMixing(variant="code", warmup=1),
    "odm-paper": OnlineDataMixing(variant="paper", warmup=1),
    "skill-it": SkillIt(every=1),
}
"""Settings under which every rule has learned something after a few steps.

ADO, whose fit takes a third of a second, has its own such tests.
"""

EXPLORING = ("aioli", "odm-code", "odm-paper")
"""Rules with floors or excursions that depend on the number of domains."""

few = effort(max_examples=4, deadline=None)
seeds = st.integers(0, 2**31)
rules = pytest.mark.parametrize("rule", RULES)


def measurements(seed, step, order, same=False):
    """Per-domain signals of a step, of the domains in the given order; all alike if `same`."""
    generator = np.random.default_rng(seed + step)

    def drawn(*shape):
        values = generator.random((5, *shape)) + 0.5
        return (values[:1].repeat(5, axis=0) if same else values)[order]

    gradient_KxP = drawn(8)
    loss_K = drawn() * 4
    return {
        "loss_K": loss_K,
        "loss_after_K": loss_K - drawn() / 10,
        "excess_K": drawn() - 0.5,
        "validation_loss_K": drawn() * 4,
        "gram_KxK": gradient_KxP @ gradient_KxP.T,
        "statistics": Statistics(drawn(), drawn(), drawn(), loss_K, drawn() * 8),
    }


def without(given, k):
    """The same signals, but the batch held no rows of domain k."""
    for name in ("loss_K", "loss_after_K", "excess_K", "validation_loss_K"):
        given[name][k] = np.nan
    given["gram_KxK"][k] = given["gram_KxK"][:, k] = np.nan
    fields = dataclasses.asdict(given["statistics"])
    for value_K in fields.values():
        value_K[k] = np.nan
    return given | {"statistics": Statistics(**fields)}


def run(method, steps, b=64, domains=DOMAINS, state=None, begin=0, end=STEPS):
    """State and answers of a run as the loop makes it; `steps` gives the signals of a step."""
    state, answers = state or method.init(domains, 3), []
    needs = method.needs()
    for step in range(begin, end):
        given = steps(step)
        if needs.statistics is not None:
            early = Signals(step=step, batch_rows=b, statistics=given["statistics"])
            state = method.observe(state, early)
        if needs.validation is not None and needs.validation.due(step):
            early = Signals(step=step, batch_rows=b, validation_loss_K=given["validation_loss_K"])
            state = method.observe(state, early)
        weights_K, count_K = method.weights(state, step), method.allocate(state, step, b)
        late = ("loss_K", "loss_after_K", "excess_K", "gram_KxK")
        signals = Signals(
            step=step, batch_rows=b, count_K=count_K, **{name: given[name] for name in late}
        )
        answer = {"weights": weights_K, "count": count_K}
        if needs.weighs_losses or needs.reference:
            answer["loss weights"] = method.loss_weights(state, signals)
        if needs.gramian:
            answer["coefficients"] = method.combine(state, signals)
        if needs.losses or needs.gramian:
            state = method.observe(state, signals)
        answers.append(answer)
    return state, answers


@rules
@few
@given(seeds, st.integers(1, 1000))
def test_counts_sum_to_the_batch_and_weights_to_one(rule, seed, b):
    order = list(range(5))
    _, answers = run(RULES[rule], lambda step: measurements(seed, step, order), b)
    for answer in answers:
        assert answer["count"].dtype == np.int64
        assert answer["count"].sum() == b
        assert answer["count"].min() >= 0
        assert answer["weights"].dtype == np.float64
        assert answer["weights"].sum().item() == pytest.approx(1)
        assert min(value.min() for value in answer.values()) >= 0
    if rule != "doge":
        # DoGE's coefficients are clipped.
        for name in answers[-1].keys() - {"count"}:
            assert answers[-1][name].sum().item() == pytest.approx(1)


@rules
@few
@given(seeds, st.permutations(range(5)))
def test_the_order_of_the_domains_does_not_matter(rule, seed, order):
    # So many rows that the lower index wins no tie that would show in the counts.
    _, forth = run(RULES[rule], lambda step: measurements(seed, step, list(range(5))), 10**6)
    domains = tuple(DOMAINS[k] for k in order)
    _, mixed = run(RULES[rule], lambda step: measurements(seed, step, order), 10**6, domains)
    for ours, theirs in zip(forth, mixed, strict=True):
        for name in ours.keys() - {"count"}:
            assert_close(theirs[name], ours[name][order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in EXPLORING])
@few
@given(seeds)
def test_an_absent_domain_changes_the_others_by_normalisation_alone(rule, seed):
    order = list(range(5))
    _, absent = run(RULES[rule], lambda step: without(measurements(seed, step, order), 4))
    _, four = run(
        RULES[rule], lambda step: measurements(seed, step, order[:4]), domains=DOMAINS[:4]
    )
    for ours, theirs in zip(absent, four, strict=True):
        for name in ours.keys() - {"count"}:
            shared_K = ours[name][:4] / ours[name][:4].sum()
            assert_close(shared_K, theirs[name] / theirs[name].sum())


@rules
@few
@given(seeds, st.integers(0, 4))
def test_domains_that_come_and_go_leave_no_nan(rule, seed, k):
    def steps(step):
        given = measurements(seed, step, list(range(5)))
        return without(given, (k + step) % 5) if step % 3 == 0 else given

    _, answers = run(RULES[rule], steps)
    assert all(np.isfinite(value).all() for answer in answers for value in answer.values())


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "aioli"])
@few
@given(seeds)
def test_equal_signals_leave_equal_weights_equal(rule, seed):
    order = list(range(5))
    # A multiple of 5 rows: equal counts.
    _, answers = run(RULES[rule], lambda step: measurements(seed, step, order, same=True), 65)
    for answer in answers:
        for value in answer.values():
            assert_close(value, value.mean().repeat(5))


@rules
@effort(max_examples=3, deadline=None)
@given(seeds, st.integers(1, STEPS - 1))
def test_a_run_that_stops_and_goes_on_ends_with_the_same_bits(rule, seed, stop):
    def steps(step):
        given = measurements(seed, step, list(range(5)))
        return without(given, step % 5) if step % 4 == 0 else given

    whole, _ = run(RULES[rule], steps)
    before, _ = run(RULES[rule], steps, end=stop)
    file = io.BytesIO()
    np.savez(file, **before)
    file.seek(0)
    restored = dict(np.load(file))
    after, _ = run(RULES[rule], steps, state=restored, begin=stop)
    assert after.keys() == whole.keys()
    for name in whole:
        np.testing.assert_array_equal(after[name], whole[name])
