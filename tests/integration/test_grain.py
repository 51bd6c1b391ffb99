"""A mixture in Grain: counts by hand, a schedule, and the same elements when it goes on."""

import itertools
import json
from collections import Counter

import pytest

from pike_mixing import Fixed, Schedule
from pike_mixing.errors import InputError

grain = pytest.importorskip("grain")
from pike_mixing.grain import MixConfig, MixedIterDataset  # noqa: E402

SHARES = Fixed(weights_by_domain={"a": 3, "b": 1})
RAMP = Schedule(
    points=({"a": 1, "b": 0}, {"a": 0, "b": 1}), at=(0, 10), unit="steps", between="linear"
)


def parts(repeats=True):
    sets = {
        "a": grain.MapDataset.range(0, 50).shuffle(seed=1),
        "b": grain.MapDataset.range(100, 150),
    }
    return {n: d.repeat() if repeats else d for n, d in sets.items()}


def test_every_step_has_the_counts_of_its_weights():
    elements = list(itertools.islice(MixedIterDataset(parts(), SHARES, batch_rows=8), 8 * 30))
    for step in range(30):
        names = Counter("a" if n < 100 else "b" for n in elements[8 * step : 8 * step + 8])
        assert names == {"a": 6, "b": 2}
    # Of b, 60 elements of 50: each once, then the first ten again.
    assert [n for n in elements if n >= 100] == [*range(100, 150), *range(100, 110)]


def test_a_schedule_changes_the_shares_and_a_filter_does_not():
    filtered = parts() | {"a": grain.MapDataset.range(0, 50).filter(lambda n: n % 2).repeat()}
    mixed = MixedIterDataset(filtered, RAMP, batch_rows=10)
    elements = list(itertools.islice(mixed, 120))
    counts = [sum(n < 100 for n in elements[at : at + 10]) for at in range(0, 120, 10)]
    assert counts == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]
    assert all(n % 2 for n in elements if n < 100)


def test_it_goes_on_where_it_stood():
    whole = list(itertools.islice(MixedIterDataset(parts(), RAMP, batch_rows=10), 90))
    first = iter(MixedIterDataset(parts(), RAMP, batch_rows=10))
    assert [next(first) for _ in range(37)] == whole[:37]
    state = json.loads(json.dumps(first.get_state()))
    second = iter(MixedIterDataset(parts(), RAMP, batch_rows=10))
    second.set_state(state)
    assert [next(second) for _ in range(53)] == whole[37:]
    # As Grain's own transformations on top of it.
    batches = iter(MixedIterDataset(parts(), RAMP, batch_rows=10).batch(10))
    next(batches)
    other = iter(MixedIterDataset(parts(), RAMP, batch_rows=10).batch(10))
    other.set_state(batches.get_state())
    assert next(other).tolist() == next(batches).tolist() == whole[10:20]


def test_it_ends_with_the_first_that_ends():
    # 6 of a in each step of 8: the ninth step wants more than 50.
    assert len(list(MixedIterDataset(parts(repeats=False), SHARES, batch_rows=8))) in range(64, 72)


def test_what_cannot_be_mixed_is_refused():
    with pytest.raises(InputError, match="follows losses or gradients"):
        MixedIterDataset(parts(), "scale-free-pike", batch_rows=8)
    with pytest.raises(InputError, match="batch_rows: 0 must be"):
        MixedIterDataset(parts(), "mix", batch_rows=0)
    with pytest.raises(InputError, match="give at least one domain"):
        MixedIterDataset({}, "mix", batch_rows=1)
    other = iter(MixedIterDataset({"c": grain.MapDataset.range(9)}, "mix", batch_rows=1))
    with pytest.raises(InputError, match="is of the domains a, b"):
        other.set_state(iter(MixedIterDataset(parts(), "mix", batch_rows=2)).get_state())


def test_a_configuration_builds_each_domain_in_its_own_order():
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class Policy:
        seed: int = 5

    class Leaf:
        def build(self, *, context, dataset_iteration_policy):
            assert context == "context"
            return grain.MapDataset.source([dataset_iteration_policy.seed]).repeat()

    config = MixConfig(datasets={"a": Leaf(), "b": Leaf()}, rule="mix", batch_rows=4)
    mixed = config.build(context="context", dataset_iteration_policy=Policy())
    assert Counter(itertools.islice(mixed, 4)) == {5: 2, 6: 2}
