"""What holds for every rule in the table, those to come included, over steps of a loop."""

import dataclasses
import json
import math
import subprocess
import sys
import types

import documented
import numpy as np
import pytest
from arrays import assert_close
from hypothesis import example, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from pike_mixing import METHODS, method_registry, method_trial
from pike_mixing.errors import InputError
from pike_mixing.interface import Needs, RunFacts, Signals, Statistics
from pike_mixing.torch import resume_state
from pipeline.planning import method_catalogue

DOMAINS = ("code", "prose", "tables", "unicode", "web")
STEPS = 12

VARIANTS = {
    "single": {"domain": "prose"},
    "fixed": {"mixture": "found"},
    "pike": {"zeta1": 0.1, "zeta2": 0.01, "first": 0, "every": 1},
    "balanced-pike": {"zeta1": 0.1, "zeta2": 0.01, "tau": 3, "first": 0, "every": 1},
    "conceptual-pike": {"L": 1, "eta": 0.1, "norm": "plug-in"},
    # The share of the uniform weights depends on the number of domains.
    "doremi": {"reference": "mix", "smoothing": 1e-12},
    "ado": {"first": 9, "every": 2, "ignore": 0, "stride": 1, "window": 5},
    "aioli": {"sweeps": 1, "slot": 1, "every": 7},
    "doge": {"rate": 0.5},
    "gradnorm": {"first": 1},
    "odm": {"variant": "paper", "warmup": 1},
    "odm code": {"variant": "code", "warmup": 1},
    "skill-it": {"every": 1},
    "mgda l2": {"normalise": "l2"},
    "mgda loss": {"normalise": "loss"},
    "mgda loss+": {"normalise": "loss+"},
    "shown1:Spread": {"every": 1},
}
"""Settings under which a rule learns within a few steps; others get any where they need one."""

# The rules that docs/your-method.md has the reader copy.
SHOWN = documented.blocks("docs/your-method.md", "python")
for n, block in enumerate(SHOWN):
    shown = sys.modules[f"shown{n}"] = types.ModuleType(f"shown{n}")
    exec(compile(block, "docs/your-method.md", "exec"), vars(shown))  # noqa: S102

ALL = sorted({*METHODS, *VARIANTS, "shown0:Proportional"})
BY_PLACE = ("round-robin", "random")
"""Rules that choose the domain of a step by its place in the list."""
EXPLORING = ("ado", "aioli", "odm", "odm code")
"""Rules with floors, shares or excursions that depend on the number of domains."""

few = effort(max_examples=4)
seeds = st.integers(0, 2**31)


def build(name, domains=DOMAINS, **changes):
    """The rule's method as a run has it, told what a run of these domains knows."""
    rule = name.split()[0]
    values = (
        method_catalogue.placeholders_of_required_settings(rule) | VARIANTS.get(name, {}) | changes
    )
    sizes = {domain: 10.0 * len(domain) for domain in domains}
    facts = RunFacts(sizes, budget_tokens=100.0, mixture=sizes)
    return method_registry.build_method(rule, values, rule).for_run(facts)


@pytest.mark.parametrize("rule", ALL)
def test_a_rule_stands_the_trial_of_ones_own(rule):
    method_trial.try_method(build(rule), DOMAINS, 24, steps=2100, absent=True)


ADAPTIVE = [name for name in ALL if build(name).needs() != Needs()]


def each(names, slow=("ado",)):
    return pytest.mark.parametrize(
        "rule", [pytest.param(n, marks=[pytest.mark.slow] * (n in slow)) for n in names]
    )


def measurements(seed, step, order=range(5), same=False):
    """Per-domain signals of a step, of the domains in the given order; all alike if `same`."""
    generator = np.random.default_rng(seed + step)

    def drawn(*shape):
        values = generator.random((5, *shape)) + 0.5
        return (values[:1].repeat(5, axis=0) if same else values)[list(order)]

    gradient_KxP = drawn(8)
    loss_K = drawn() * 4
    return {
        "loss_K": loss_K,
        "loss_after_K": loss_K - drawn() / 10,
        "excess_K": drawn() - 0.5,
        "validation_loss_K": drawn() * 4,
        "gram_KxK": gradient_KxP @ gradient_KxP.T,
        "statistics.squared_norm_K": drawn(),
        "statistics.squared_norm_unbiased_K": drawn(),
        "statistics.variance_K": drawn(),
        "statistics.loss_K": loss_K,
        "statistics.rows_K": drawn() * 8,
        "absent_K": np.zeros(len(order), dtype=bool),
    }


NUMBERS = tuple(measurements(0, 0))[:-1]


def changed(seen, k, value, names=NUMBERS):
    """The same signals with another number of domain k; of a Gramian, its row and column."""
    seen = {name: number.copy() for name, number in seen.items()}
    for name in names:
        seen[name][k] = value
        if name == "gram_KxK":
            seen[name][:, k] = value
    return seen


def without(seen, k):
    """The same signals, but the batch held no rows of domain k."""
    return changed(changed(seen, k, math.nan), k, True, ["absent_K"])


def served(count_K, absent_K):
    """Counts of a batch without rows of the absent domains; a batch of them alone has others."""
    left_K = np.where(absent_K, 0, count_K)
    return left_K if left_K.any() else np.where(absent_K, 0, 1)


def hooked(method, name, state, *given):
    """A hook's answer; the state that it was given stays as it was, bit by bit."""
    before = {n: value.copy() for n, value in state.items()}
    answer = getattr(method, name)(state, *given)
    assert state.keys() == before.keys()
    for n in before:
        np.testing.assert_array_equal(state[n], before[n])
    return answer


def run(method, steps, b=64, domains=DOMAINS, state=None, begin=0, end=STEPS):
    """State and answers of a run as the loop makes it; `steps` gives the signals of a step."""
    state, answers = state or method.init(domains, 3), []
    needs = method.needs()
    for step in range(begin, end):
        given = steps(step)
        given["statistics"] = Statistics(*(v for n, v in given.items() if "statistics." in n))
        for name, due in (
            ("statistics", needs.statistics),
            ("validation_loss_K", needs.validation),
        ):
            if due is not None and due.is_due(step):
                early = Signals(step, b, **{name: given[name]})
                if getattr(due, "inner_products", False):
                    early = dataclasses.replace(early, gram_KxK=given["gram_KxK"])
                state = hooked(method, "observe", state, early)
        answer = {
            "weights": hooked(method, "weights", state, step),
            "count": hooked(method, "allocate", state, step, b),
        }
        late = {n: given[n] for n in ("loss_K", "loss_after_K", "excess_K", "gram_KxK")}
        count_K = served(answer["count"], given["absent_K"])
        if not count_K.any():
            answers.append(answer)
            continue
        signals = Signals(step, int(count_K.sum()), count_K=count_K, **late)
        answer["loss weights"] = hooked(method, "loss_weights", state, signals)
        answer["coefficients"] = hooked(method, "gradient_coefficients", state, signals)
        if needs.losses or needs.gramian:
            state = hooked(method, "observe", state, signals)
        answers.append({n: value for n, value in answer.items() if value is not None})
    return state, answers


def sparse(seed):
    """Signals of which a domain is absent now and then."""

    def steps(step):
        given = measurements(seed, step)
        return without(given, step % 5) if step % 4 == 0 else given

    return steps


@each(ALL)
@few
@given(seeds, st.integers(1, 1000), st.sampled_from([0, 10**6]))
def test_counts_sum_to_the_batch_and_weights_to_one(rule, seed, b, begin):
    steps = sparse(seed)
    _, answers = run(build(rule), steps, b, begin=begin, end=begin + STEPS)
    for answer in answers:
        assert answer["count"].dtype == np.int64
        assert answer["count"].sum() == b
        assert answer["weights"].dtype == np.float64
        for name in answer.keys() & {"weights", "loss weights"}:
            assert answer[name].sum().item() == pytest.approx(1)
        for value_K in answer.values():
            assert value_K.min() >= 0
            assert np.isfinite(value_K).all()


@each([name for name in ALL if name not in BY_PLACE])
@few
@given(seeds, st.permutations(range(5)))
def test_the_order_of_the_domains_does_not_matter(rule, seed, order):
    # So many rows that the lower index wins no tie that would show in the counts.
    _, forth = run(build(rule), lambda step: measurements(seed, step), 10**6)
    domains = tuple(DOMAINS[k] for k in order)
    _, mixed = run(build(rule), lambda step: measurements(seed, step, order), 10**6, domains)
    for ours, theirs in zip(forth, mixed, strict=True):
        for name in ours.keys() - {"count"}:
            assert_close(theirs[name], ours[name][order], rtol=1e-4, atol=1e-5)


@each([name for name in ADAPTIVE if name not in EXPLORING])
@few
@given(seeds)
def test_an_absent_domain_changes_the_others_by_normalisation_alone(rule, seed):
    # Odds among the others are those of a run that never had the domain.
    _, absent = run(build(rule), lambda step: without(measurements(seed, step), 4))
    four = DOMAINS[:4]
    _, never = run(build(rule, four), lambda s: measurements(seed, s, range(4)), domains=four)
    for ours, theirs in zip(absent, never, strict=True):
        for name in ours.keys() - {"count"}:
            shared_K = ours[name][:4] / ours[name][:4].sum()
            assert_close(shared_K, theirs[name] / theirs[name].sum(), rtol=1e-6, atol=1e-6)


@each([name for name in ADAPTIVE if name != "aioli"])
@few
@given(seeds)
# A fit of ADO at a bound, where the last bits decide.
@example(1_200_912_749)
def test_equal_signals_leave_equal_weights_equal(rule, seed):
    # A multiple of 5 rows: equal counts.
    _, answers = run(build(rule), lambda step: measurements(seed, step, same=True), 65)
    # Systematic rounding makes counts equal over the steps, not at each.
    evened = {"count"} if rule in ("r-and-b", "scale-free-pike") else set()
    for answer in answers:
        for name in answer.keys() - evened:
            assert_close(answer[name], answer[name].mean().repeat(5), rtol=1e-4)


@each(ADAPTIVE)
def test_signals_that_cover_no_domain_change_nothing(rule):
    def steps(step):
        given = measurements(0, step)
        for k in range(5):
            given = without(given, k)
        return given

    _, answers = run(build(rule), steps, end=1 if rule == "aioli" else STEPS)
    for answer in answers:
        assert_close(answer["weights"], answers[0]["weights"])


@each(ALL)
@effort(max_examples=3)
@given(seeds, st.integers(1, STEPS - 1))
def test_a_run_that_stops_and_goes_on_ends_with_the_same_bits(rule, seed, stop):
    whole, answers = run(build(rule), sparse(seed))
    before, _ = run(build(rule), sparse(seed), end=stop)
    restored = resume_state.unpack_state(
        json.loads(json.dumps(resume_state.pack_state(before), allow_nan=False))
    )
    for name, value in before.items():
        bits = (restored[name].dtype, restored[name].shape, restored[name].tobytes())
        assert bits == (value.dtype, value.shape, value.tobytes())
    after, last = run(build(rule), sparse(seed), state=restored, begin=stop)
    assert after.keys() == whole.keys()
    for name in whole:
        np.testing.assert_array_equal(after[name], whole[name])
    for ours, theirs in zip(last, answers[stop:], strict=True):
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


LATE = 4000
"""A step at which no rule warms up any more."""
SICK = [math.nan, math.inf, -math.inf, -1.0, 0.0, 5e-324, 1e-300, 1e-30, 1e30, 1e300, 1.7e308]
sick = st.lists(
    st.tuples(
        st.sampled_from(NUMBERS), st.sampled_from([*range(5), slice(None)]), st.sampled_from(SICK)
    ),
    min_size=1,
)
ODD = {
    "float16": lambda v: v.astype(np.float16),
    "big-endian": lambda v: v.astype(">f4"),
    "whole": lambda v: v.astype(np.uint8),
    "read-only": lambda v: np.frombuffer(v.tobytes()).reshape(v.shape),
    "bool": lambda v: v > 1,
    "object": lambda v: v.astype(object),
    "text": lambda v: v.astype(str),
    "complex": lambda v: v + 1j,
    "masked": lambda v: np.ma.masked_greater(v, 1),
    "matrix": np.asmatrix,
    "list": lambda v: v.tolist(),
    "0-d": lambda v: v.sum(),
    "empty": lambda v: v[:0],
}
"""Numbers in other forms than float64; the first four are numbers all the same."""
forms = st.sampled_from([None, *ODD])


@pytest.mark.slow
@each(ADAPTIVE)
@effort(max_examples=25)
@given(sick, st.sampled_from(NUMBERS), forms)
# A reward of each that is beyond a float64.
@example([("loss_K", slice(None), 1e300)], "loss_K", None)
# Inner products that no gradients of such lengths have.
@example([("gram_KxK", 0, 1e300)], "loss_K", None)
@example([("gram_KxK", slice(None), 5e-324)], "loss_K", None)
@example([("statistics.squared_norm_K", 0, -1.0)], "loss_K", None)
@example([("validation_loss_K", 0, 1.7e308)], "loss_K", None)
@example([], "loss_K", "float16")
def test_a_signal_that_is_no_number_is_ignored_or_refused_by_name(rule, sick, name, form):
    method = build(rule)

    def steps(step):
        given = measurements(0, step)
        for number, k, value in sick:
            given = changed(given, k, value, [number])
        return given if form is None else given | {name: ODD[form](given[name])}

    try:
        state, answers = run(method, steps, begin=LATE, end=LATE + 14)
    except InputError as error:
        if "step 40" in str(error):
            return
        raise
    used = name.split(".")[0] if form in list(ODD)[4:] else None
    assert used is None or not needed(method, used)
    json.dumps(resume_state.pack_state(state), allow_nan=False)
    for answer in answers:
        assert all(np.isfinite(value).all() for value in answer.values())
        assert answer["weights"].min() >= 0
        assert answer["weights"].sum().item() == pytest.approx(1)
        assert answer["count"].sum() == 64


def needed(method, signal):
    """Whether a method's hooks are given a signal: all but what is measured at times alone."""
    needs = method.needs()
    return {
        "statistics": needs.statistics is not None,
        "validation_loss_K": needs.validation is not None,
    }.get(signal, needs.losses or needs.gramian)


@each(ALL)
def test_a_run_of_no_domains_or_without_a_seed_is_refused_by_every_rule(rule):
    for domains, seed, message in (
        ((), 0, "domains: there is none"),
        (DOMAINS[:1] * 2, 0, "holds a name twice"),
        (DOMAINS, 2**63, "seed: 9223372036854775808 must be a whole number"),
    ):
        with pytest.raises(InputError, match=message):
            build(rule).init(domains, seed)


@each(ALL)
def test_one_domain_alone_is_a_mixture_too(rule):
    alone = ("prose",)
    for begin in (0, 100, 1000, 3000):
        _, answers = run(
            build(rule, alone), lambda s: measurements(0, s, [1]), 7, alone, None, begin, begin + 9
        )
        for answer in answers:
            assert answer["count"].tolist() == [7]
            assert all(value.shape == (1,) and value > 0 for value in answer.values())


WITH_PRIOR = {
    "pike": {},
    "balanced-pike": {},
    # These two let go of the prior at their first estimate and after their warm-up.
    "conceptual-pike": {"first": 20},
    "odm": {"warmup": 20},
    "doremi": {},
    "ado": {"first": 9, "every": 1, "ignore": 0, "stride": 1, "window": 5, "min_weight": 0},
    "scale-free-pike": {"every": 1},
    "fixed": {"mixture": None},
}


def test_no_rule_with_a_prior_is_left_out():
    with_prior = {r for r, kind in METHODS.items() if "prior" in kind.__dataclass_fields__}
    assert with_prior == WITH_PRIOR.keys() - {"fixed"}


@pytest.mark.parametrize("place", range(len(DOMAINS)))
@each(WITH_PRIOR)
def test_a_domain_of_weight_0_stays_out_and_leaves_numbers(rule, place):
    prior = {d: float(k != place) for k, d in enumerate(DOMAINS)}
    name = "weights_by_domain" if rule == "fixed" else "prior"
    method = build(rule, **WITH_PRIOR[rule], **{name: prior})
    _, answers = run(method, lambda step: without(measurements(0, step), place), 24)
    for answer in answers:
        for value_K in answer.values():
            assert np.isfinite(value_K).all()
            assert value_K[place] == 0


@pytest.mark.parametrize("block", SHOWN)
def test_the_rule_of_the_page_passes_lint_where_it_is_saved(block):
    for command in ("check", "format --check"):
        for place in ("mine.py", "pike_mixing/rules/proportional.py"):
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *command.split(), "--stdin-filename", place, "-"],
                input=block,
                cwd=documented.ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
