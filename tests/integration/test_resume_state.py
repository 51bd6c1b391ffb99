"""States that were damaged, or are of something else, are refused, and nothing changes."""

import copy
import dataclasses
import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from test_mixed_dataset import Again
from test_mixing import DOMAINS, Mean, Switches, losses

from pike_mixing import BalancedPiKE, PiKE
from pike_mixing.errors import InputError
from pike_mixing.torch import MixedDataset, Mixing

PIKE = PiKE(zeta1=1.0, zeta2=1.0, every=2, first=0, rows=2)


def mixture(method=PIKE, domains=DOMAINS, rows=4, **options):
    given = {"seed": 1, "micro_batch_rows": 2, "steps": 8}
    names = ("seed", "shuffle", "weights", "micro_batch_rows", "place", "steps")
    given |= {name: options.pop(name) for name in names if name in options}
    dataset = MixedDataset(domains, rows, **given)
    return Mixing(method, dataset, Mean(), losses, **options)


def stopped(steps=3, **options):
    """A mixing after some steps."""
    return until(steps, mixture(**options))


def until(steps, mixing, **options):
    for batch in mixing.data_loader(**options):
        mixing.loss(mixing.model, batch)
        if mixing.is_step_complete:
            mixing.end_step()
        if mixing.step == steps:
            return mixing


def drawn(rows, **options):
    """A data set after some rows."""
    options = {"steps": 9, "weights": {"a": 0.25, "b": 0.75}} | options
    dataset = MixedDataset({"a": DOMAINS["a"], "b": Again(DOMAINS["b"])}, 4, **options)
    reading = iter(dataset)
    for _ in range(rows):
        next(reading)
    return dataset


STATES = {
    "mixing": (mixture, json.loads(json.dumps(stopped().state_dict()))),
    "a step's beginning": (lambda: drawn(0), drawn(8).state_dict()),
    "within a step": (lambda: drawn(0), drawn(6).state_dict()),
}


def places(value, path=()):
    """The paths to all values within a state."""
    inner = {dict: lambda: value.items(), list: lambda: enumerate(value)}.get(type(value), tuple)
    return [p for key, part in inner() for p in [(*path, key), *places(part, (*path, key))]]


def at(state, path):
    for key in path:
        state = state[key]
    return state


MISSING = object()
WRONG = (MISSING, None, True, -1, 3, 2**70, 0.5, float("nan"), float("inf"), "", "7", [], {}, [[]])


@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
@effort(max_examples=300)
@given(st.data())
def test_whatever_is_damaged_is_refused(name, data):
    made, state = STATES[name]
    damaged = copy.deepcopy(state)
    *path, key = data.draw(st.sampled_from(places(state)))
    value = data.draw(st.sampled_from(WRONG))
    if value is MISSING:
        del at(damaged, path)[key]
    else:
        at(damaged, path)[key] = value
    into = made()
    before = into.state_dict()
    if repr(damaged) == repr(state):
        into.load_state_dict(damaged)
        assert into.state_dict() == state
        return
    with pytest.raises(InputError, match=r"^state\.(digest: the state is another|format: )"):
        into.load_state_dict(damaged)
    assert into.state_dict() == before


SAME = {
    "seed": ({"seed": 2}, "settings.seed: 1 in the state, but here it is 2"),
    "order": ({"shuffle": False}, "settings.shuffle: True"),
    "length": ({"domains": DOMAINS | {"b": [1.0]}}, r"settings.lengths: \[40, 40\].*\[40, 1\]"),
    "iterable": (
        {"domains": DOMAINS | {"b": Again([1.0])}},
        r"settings.lengths: .*\[40, None\]",
    ),
    "domains": ({"domains": dict(reversed(DOMAINS.items()))}, r"settings.domains: \['a', 'b'\]"),
    "batch": ({"rows": 8}, "settings.batch_rows: 4"),
}


@pytest.mark.parametrize(("options", "said"), SAME.values(), ids=SAME)
def test_a_state_of_other_data_is_refused(options, said):
    mixing = stopped()
    later = mixture(**options)
    with pytest.raises(InputError, match=f"^state.dataset.{said}"):
        later.load_state_dict(mixing.state_dict())
    with pytest.raises(InputError, match=f"^state.{said}"):
        later.dataset.load_state_dict(mixing.dataset.state_dict())


OTHERS = {
    "rule": (
        {"method": BalancedPiKE(zeta1=1.0, zeta2=1.0, tau=3, every=2, first=0, rows=2)},
        "rule: PiKE in the state, but here it is BalancedPiKE",
    ),
    "method": ({"method": dataclasses.replace(PIKE, zeta2=2.0)}, "method.zeta2: 1.0"),
    "arrays": ({"method": Switches()}, r"arrays: \['log_weights_K float64\(2,\)'\] in the state"),
    "latency": ({"latency": 1}, "latency: 0"),
    "rounding": ({"rounding": "systematic"}, "rounding: largest-remainder"),
    "micro-batch": ({"statistics_micro_batch_rows": 2}, "statistics_micro_batch_rows: 1"),
}


@pytest.mark.parametrize(("options", "said"), OTHERS.values(), ids=OTHERS)
def test_a_state_of_another_method_is_refused_with_all_that_differs(options, said):
    later = mixture(seed=5, **options)
    with pytest.raises(InputError) as caught:
        later.load_state_dict(stopped().state_dict())
    assert re.search(rf"(?m)^state\.settings\.{said}", str(caught.value))
    assert "\nstate.dataset.settings.seed: 1 in the state, but here it is 5" in str(caught.value)


def test_a_state_of_other_weights_is_refused():
    with pytest.raises(InputError, match=r"^state.settings.weights: \[0.25, 0.75\] in the state"):
        drawn(0, weights={"a": 1, "b": 1}).load_state_dict(drawn(4).state_dict())


@pytest.mark.parametrize("state", [{}, None, {"format": 1}, [("format", 2)]])
def test_a_state_without_a_known_format_is_refused(state):
    for one in (mixture(), mixture().dataset):
        with pytest.raises(InputError, match=r"^state.format: .* reads 2: go on with the version"):
            one.load_state_dict(state)


def test_weights_of_a_training_that_diverged_are_refused():
    mixing = stopped()
    mixing.state["log_weights_K"][0] = np.nan
    with pytest.raises(InputError, match=r"^state.method: its weights are \[nan, 0.9"):
        mixture().load_state_dict(mixing.state_dict())


def numbers(value, kind):
    """The state with each of its numbers of another kind, such as other ways of saving leave."""
    if isinstance(value, dict):
        return {name: numbers(part, kind) for name, part in value.items()}
    if isinstance(value, list):
        return tuple(numbers(part, kind) for part in value)
    return kind(value) if type(value) in (int, float) else value


@pytest.mark.parametrize(
    "kind", [np.asarray, lambda v: np.asarray(v)[()], lambda v: torch.tensor(np.asarray(v))]
)
def test_a_state_of_other_numbers_is_that_of_plain_ones(kind):
    whole = until(6, stopped())
    for state, into in ((stopped().state_dict(), mixture()), (drawn(6).state_dict(), drawn(0))):
        assert json.loads(json.dumps(state, allow_nan=False)) == state
        into.load_state_dict(numbers(state, kind))
        assert into.state_dict() == state
    later = mixture()
    later.load_state_dict(numbers(stopped().state_dict(), np.asarray))
    assert until(6, later).state_dict() == whole.state_dict()


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("rows", [2, 5, 6, 8])
def test_within_a_step_the_same_process_goes_on_alone(rows, ranks):
    options = {"shuffle": False, "steps": 6}
    # Rank 0 of 2 has two rows of a step; after the last of them anybody goes on.
    first = drawn(rows, place=(0, 2), **options)
    state = first.state_dict()
    for rank in range(ranks):
        later = drawn(0, place=(rank, ranks), **options)
        if rows % 2 and (rank, ranks) != (0, 2):
            with pytest.raises(InputError, match=r"^state.reader.(rank|processes): "):
                later.load_state_dict(state)
        else:
            later.load_state_dict(state)
            whole = list(drawn(0, **options))
            if rows % 2:
                assert list(later) == list(drawn(0, place=(0, 2), **options))[rows:]
            else:
                own = [whole[at : at + 4][rank::ranks] for at in range(2 * rows, 24, 4)]
                assert list(later) == [row for step in own for row in step]


@pytest.mark.parametrize("rows", [10, 12])
def test_weights_that_are_set_within_a_step_act_from_the_next_one(rows):
    # One row of `a` and three of `b` in each of three steps: the third has begun, or is read.
    dataset = MixedDataset(DOMAINS, 4, steps=5, weights={"a": 1, "b": 3}, shuffle=False)
    reading = iter(dataset)
    for _ in range(rows):
        next(reading)
    dataset.set_weights({"a": 1, "b": 0})
    later = MixedDataset(DOMAINS, 4, steps=5, weights={"a": 1, "b": 3}, shuffle=False)
    later.load_state_dict(dataset.state_dict())
    rest = [107.0, 108.0, 3.0, 4, 5, 6, 7, 8, 9, 10][rows - 10 :]
    assert list(later) == list(reading) == rest
    assert later.counts(4).tolist() == [4, 0]


def test_a_state_between_two_epochs():
    dataset, later = (MixedDataset(DOMAINS, 4, steps=3, shuffle=False) for _ in range(2))
    rows = list(dataset)
    later.load_state_dict(dataset.state_dict())
    assert list(later) == rows == [0.0, 1, 100, 101, 2, 3, 102, 103, 4, 5, 104, 105]


def test_the_state_before_the_first_step_takes_the_counts_back():
    before = mixture(Switches(), shuffle=False).state_dict()
    mixing = stopped(8, method=Switches(), shuffle=False)
    assert mixing.dataset.counts(3).tolist() == [0, 4]
    mixing.load_state_dict(before)
    assert mixing.dataset.published_step == -1


@pytest.mark.slow
def test_what_may_change_leaves_the_rows():
    state = stopped(latency=4).state_dict()
    whole = stopped(steps=8, latency=4)
    later = mixture(latency=4, micro_batch_rows=4, steps=9)
    later.load_state_dict(state)
    until(8, later, num_workers=1, prefetch_factor=4)
    assert later.positions_K.tolist() == whole.positions_K.tolist()
    assert later.weights == pytest.approx(whole.weights)
