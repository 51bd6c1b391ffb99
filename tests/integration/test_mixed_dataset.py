"""Rows of mixed domains by id: which process and worker reads what, and what follows a stop."""

import copy
import json
import re
import threading
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, default_collate

from benchmarks import stream_resumes
from pike_mixing.errors import InputError
from pike_mixing.torch import MixedDataset, Mixing, interleave_datasets, parallel, streams

NAMES = ("a", "b")
COUNTS = [[4, 4], [6, 2], [1, 7], [8, 0], [3, 5], [4, 4], [0, 8], [5, 3]]
STEPS = len(COUNTS)
WITHOUT = "all_exhausted_without_replacement"


class Again:
    """An iterable without length, as a stream of files."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)


def ids(name, count):
    return [f"{name}{i}" for i in range(count)]


def domains(kind="list", counts=(20, 12)):
    found = {name: ids(name, count) for name, count in zip(NAMES, counts, strict=True)}
    if kind == "list":
        return found
    if kind == "iterable":
        return {name: Again(rows) for name, rows in found.items()}
    datasets = pytest.importorskip("datasets")
    made = {n: datasets.Dataset.from_dict({"id": rows}) for n, rows in found.items()}
    if kind == "streaming":
        # Shards that a worker would read in parts, did it know that it is one.
        made = {n: d.to_iterable_dataset(num_shards=2) for n, d in made.items()}
    return made


def mixed(kind="list", **options):
    dataset = MixedDataset(domains(kind), 8, **({"shuffle": False, "steps": STEPS} | options))
    for step, counts in enumerate(COUNTS):
        dataset.publish(step, np.array(counts))
    return dataset


def names(batch):
    return list(batch["id"]) if isinstance(batch, dict) else list(batch)


def expected():
    """Rows of each step, dealt by hand."""
    found, at = [], [0, 0]
    for counts in COUNTS:
        rows = []
        for k, (name, size) in enumerate(zip(NAMES, (20, 12), strict=True)):
            rows += [f"{name}{(at[k] + i) % size}" for i in range(counts[k])]
            at[k] += counts[k]
        found.append(rows)
    return found


@pytest.mark.parametrize(
    ("kind", "world", "workers", "micro_batch_rows"),
    [
        ("list", 1, 0, 8),
        ("list", 2, 0, 2),
        *(
            pytest.param(kind, 2, workers, micro_batch_rows, marks=pytest.mark.slow)
            for kind in ("list", "iterable", "hugging face", "streaming")
            for workers, micro_batch_rows in ((2, 4), (2, 2), (3, 4))
        ),
    ],
)
def test_processes_and_workers_read_every_row_once(kind, world, workers, micro_batch_rows):
    for rank in range(world):
        dataset = mixed(kind, micro_batch_rows=micro_batch_rows, place=(rank, world))
        loader = DataLoader(dataset, batch_size=micro_batch_rows, num_workers=workers)
        read = [row for batch in loader for row in names(batch)]
        assert read == [row for rows in expected() for row in rows[rank::world]]
    assert expected()[1] == ["a4", "a5", "a6", "a7", "a8", "a9", "b4", "b5"]


class IterableDatasetShard:
    """Reads as the class of Accelerate of this name: the rows of both processes."""

    def read(self, dataset):
        return list(dataset)


class DataLoaderDispatcher:
    """The loader of Accelerate of this name."""

    def sent(self, dataset):
        return copy.deepcopy(dataset)


def test_workers_that_start_anew_read_what_accelerate_deals(monkeypatch):
    """A dispatching loader is seen where it sends the data set, a shard where the worker reads."""
    monkeypatch.setattr(parallel, "world_size", lambda group=None: 2)
    monkeypatch.setattr(parallel, "rank", lambda group=None: 1)
    rows = {"a": [0, 1, 2, 3]}
    mixed_rows = MixedDataset(rows, 4, steps=1, shuffle=False)
    sent, dispatched = (
        copy.deepcopy(mixed_rows),
        DataLoaderDispatcher().sent(mixed_rows),
    )
    monkeypatch.undo()
    assert list(dispatched) == [0, 1, 2, 3]
    assert list(sent) == [1, 3]
    assert IterableDatasetShard().read(sent) == [0, 1, 2, 3]
    given = MixedDataset(rows, 4, steps=1, place=(1, 2))
    with pytest.raises(InputError, match=r"place: \(1, 2\), .* leave `place` away"):
        IterableDatasetShard().read(given)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["list", "iterable", "hugging face", "streaming"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [3, 4, 9])
def test_a_stateful_loader_goes_on_in_the_middle(kind, workers, stop):
    loaders = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        dataset = mixed(kind, micro_batch_rows=4)
        return loaders.StatefulDataLoader(
            dataset, batch_size=4, num_workers=workers, prefetch_factor=2 if workers else None
        )

    whole = [names(batch) for batch in loader()]
    first = loader()
    rows = iter(first)
    begun = [names(next(rows)) for _ in range(stop)]
    state = first.state_dict()
    del rows
    second = loader()
    second.load_state_dict(state)
    assert begun + [names(batch) for batch in second] == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", stream_resumes.STREAMS)
def test_a_stream_goes_on_at_the_row_after_each_stop(name):
    pytest.importorskip("datasets")
    assert stream_resumes.outcomes(stream_resumes.ours, [name]) == {name: []}


class Lying(Again):
    """Its own state is always that of the last row, as of another protocol, or not to be had."""

    def state_dict(self):
        return {"at": len(self.rows)}

    def load_state_dict(self, state):
        self.rows = self.rows[state["at"] :]


class Placed(Again):
    """It goes on in the middle when it is read again before its end; epochs turn its rows."""

    at = epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def state_dict(self):
        return {}

    def __iter__(self):
        while self.at < len(self.rows):
            self.at += 1
            yield self.rows[(self.at - 1 + self.epoch) % len(self.rows)]
        self.at = 0


@pytest.mark.parametrize("stops", [(5, 0), (1, 1, 1), (7, 4), (16, 5)])
@pytest.mark.parametrize("kind", [Again, Lying, Placed])
def test_an_iterable_goes_on_by_the_count_of_its_rows(kind, stops):
    state, rows = None, []
    for count in (*stops, 20):
        mixed = MixedDataset({"a": kind(ids("a", 7))}, 4)
        if state:
            mixed.load_state_dict(json.loads(state))
        reading = iter(mixed)
        rows += [next(reading) for _ in range(count)]
        state = json.dumps(mixed.state_dict())
    turned = kind is Placed
    assert rows == [f"a{(n + turned * (n // 7)) % 7}" for n in range(sum(stops) + 20)]


class Locked(Placed):
    def __init__(self):
        super().__init__(ids("a", 7))
        self.lock = threading.Lock()


def test_an_iterable_is_read_from_its_first_row_again_when_the_reading_begins_anew():
    given = Placed(ids("a", 7))
    mixed = MixedDataset({"a": given}, 4, steps=3)
    later = MixedDataset({"a": given}, 4, steps=3)
    reading = iter(mixed)
    whole = [next(reading) for _ in range(9)]
    later.load_state_dict(mixed.state_dict())
    whole += list(reading)
    assert list(later) == whole[9:]
    assert list(later) == list(mixed) == whole


def test_many_rows_that_are_read_again_are_told(caplog, monkeypatch):
    monkeypatch.setattr(streams, "MANY", 8)
    first, later = (MixedDataset({"a": Again(ids("a", 12))}, 4, steps=3) for _ in range(2))
    assert list(first) == ids("a", 12)
    assert not caplog.messages
    later.load_state_dict(first.state_at(2, np.array([8])))
    assert list(later) == ids("a", 12)[8:]
    assert "domain 'a': its first 8 rows are read again" in caplog.text


def test_a_state_of_another_release_of_datasets_is_refused(monkeypatch):
    datasets = pytest.importorskip("datasets")
    state = MixedDataset(domains("streaming"), 8).state_dict()
    MixedDataset(domains("streaming"), 8).load_state_dict(state)
    was = re.escape(f"state.settings.streams.b: datasets=={datasets.__version__} in the state, but")
    monkeypatch.setattr(datasets, "__version__", "5.0.9")
    with pytest.raises(InputError, match=was + " here it is datasets==5.0.9"):
        MixedDataset(domains("streaming"), 8).load_state_dict(state)


def test_a_shuffled_domain_is_a_permutation_of_its_own_each_time_round():
    dataset = MixedDataset({"a": ids("a", 7)}, 7, seed=3, steps=2)
    rows = list(dataset)
    first, second = rows[:7], rows[7:]
    assert first != second
    assert sorted(first) == sorted(second)
    # Read again, it begins anew, as in a worker.
    assert list(dataset) == rows
    assert sorted(first) == ids("a", 7)
    # Another purpose reads rows in another order.
    fresh = dataset.streams("statistics")[0]
    assert [fresh.row(i) for i in range(7)] not in (first, second)


def test_interleaved_like_the_function_of_datasets():
    found = interleave_datasets(
        [ids("a", 20), ids("b", 9)], probabilities=[0.75, 0.25], seed=1, steps=400
    )
    rows = iter(found)
    first = [next(rows)[0] for _ in range(200)]
    assert first.count("a") == pytest.approx(150, abs=1)
    found.set_weights({"0": 0.25, "1": 0.75})
    second = [next(rows)[0] for _ in range(200)]
    assert second.count("a") == pytest.approx(50, abs=1)
    assert len(interleave_datasets({"x": ids("x", 3)}, steps=2)) == 2


@pytest.mark.parametrize("strategy", ["first_exhausted", "all_exhausted", None])
@pytest.mark.parametrize("counts", [(3, 3, 3), (3, 4, 5), (5, 4, 3), (1, 7, 2)])
def test_interleaved_in_turn_are_the_rows_of_the_function_of_datasets(counts, strategy):
    datasets = pytest.importorskip("datasets")
    made = [
        datasets.Dataset.from_dict({"id": ids(name, count)})
        for name, count in zip("abc", counts, strict=True)
    ]
    options = {"stopping_strategy": strategy} if strategy else {}
    own = datasets.interleave_datasets(made, **options)
    assert list(interleave_datasets(made, **options)) == list(own)


@pytest.mark.parametrize("streaming", [False, True])
def test_interleaved_columns_are_those_of_the_function_of_datasets(streaming):
    """A column that one set lacks is None; the strategy may be the sixth argument."""
    datasets = pytest.importorskip("datasets")
    made = [
        datasets.Dataset.from_dict({"id": [0, 1], "x": [3, 4]}),
        datasets.Dataset.from_dict({"id": [5, 6], "text": ["q", "r"]}),
    ]
    made = [d.to_iterable_dataset() for d in made] if streaming else made
    if streaming:
        rows = list(interleave_datasets(made, batch_rows=2, steps=2))
        # Theirs leaves the last row out.
        assert rows[:3] == list(datasets.interleave_datasets(made))
    else:
        options = (None, None, None, None, "all_exhausted")
        rows = list(interleave_datasets(made, *options))
        assert rows == list(datasets.interleave_datasets(made, *options))
    assert list(rows[1].items()) == [("id", 5), ("x", None), ("text", "q")]


LONG = torch.zeros(4, dtype=torch.long)
UNLIKE = [
    ({"ids": LONG, "mask": LONG}, "column 'mask': missing in 'a', 'c'; integers in 'b'"),
    ({"ids": "w1 w2"}, "column 'ids': integers in 'a', 'c'; texts in 'b'"),
    ((LONG, LONG), "column 'ids': integers in 'a', 'c'; missing in 'b'"),
    ({"ids": torch.zeros(6).long()}, r"shape \(4,\) in 'a'; integers of shape \(6,\) in 'b'"),
]


@pytest.mark.parametrize(("row", "said"), UNLIKE)
@pytest.mark.parametrize("stream", [False, True])
def test_rows_that_do_not_fit_each_other_are_told_before_the_first(row, said, stream):
    rows = {"a": [{"ids": LONG}] * 9, "b": [row] * 9, "c": [{"ids": LONG}] * 9}
    if stream:
        rows = {name: Again(given) for name, given in rows.items()}

    mixing = Mixing("mix", MixedDataset(rows, 6, micro_batch_rows=3, steps=2), nn.Linear(1, 1))
    with pytest.raises(InputError, match=said):
        next(iter(mixing.data_loader()))
    if "shape" not in said:
        # Another collate function of a loop of its own may pad.
        loader = DataLoader(MixedDataset(rows, 6, steps=2), batch_size=3)
        with pytest.raises(InputError, match=said):
            next(iter(loader))


def test_a_collate_function_that_takes_the_rows_as_they_are_may():
    """Padding mends other lengths; what a model does with missing columns is its own."""
    rows = {"a": [{"ids": LONG, "source": "x"}] * 9, "b": [{"ids": LONG[:2]}] * 9}

    def padded(given):
        ids = [row["ids"] for row in given]
        return {"ids": nn.utils.rnn.pad_sequence(ids, batch_first=True)}

    def first_batch(collate_fn, columns, rows=rows):
        mixed = MixedDataset(rows, 4, micro_batch_rows=2, steps=1, shuffle=False, columns=columns)
        return next(iter(Mixing("mix", mixed, collate_fn=collate_fn).data_loader()))

    assert first_batch(padded, "same")["ids"].shape == (2, 4)
    masked = {"a": [{"ids": LONG}] * 9, "b": [{"ids": LONG, "mask": LONG}] * 9}
    assert first_batch(default_collate, "any", masked).keys() == {"ids"}
    with pytest.raises(InputError, match="column 'mask': None in 'a'; integers of shape"):
        first_batch(default_collate, "union", masked)


def test_a_data_set_that_is_read_in_order_has_no_index_though_it_has_a_length():
    class Read(IterableDataset):
        def __iter__(self):
            return iter(ids("a", 3))

        def __len__(self):
            return 3

    assert list(MixedDataset({"a": Read()}, 4, steps=1)) == ["a0", "a1", "a2", "a0"]


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    parts=st.lists(st.integers(0, 5), min_size=4, max_size=4),
    batch_rows=st.integers(1, 5),
)
def test_interleaved_by_shares_ends_where_the_first_or_the_last_ends(lengths, parts, batch_rows):
    parts = [parts[0] + 1, *parts[1 : len(lengths)]]
    shares = [part / sum(parts) for part in parts]
    made = [[(k, i) for i in range(length)] for k, length in enumerate(lengths)]
    options = {"stopping_strategy": "all_exhausted", "batch_rows": batch_rows}
    rows = list(interleave_datasets(made, shares, **options))
    drawn = [k for k, part in enumerate(parts) if part]
    whole = {(k, i) for k in drawn for i in range(lengths[k])}
    # Without the last batch, a row is missing.
    assert whole <= set(rows)
    assert not whole <= set(rows[:-batch_rows])
    if batch_rows <= min(lengths):
        rows = list(interleave_datasets(made, shares, batch_rows=batch_rows))
        assert len(set(rows)) == len(rows) > 0
        if batch_rows == 1:
            assert any(sum(row[0] == k for row in rows) == lengths[k] for k in drawn)


LOADER = DataLoader([1, 2])
NO_DATASETS = [
    ("rows.jsonl", r"is a str, 'rows.jsonl': give the data set itself, such as .*load_dataset"),
    (Path("rows.jsonl"), "is a PosixPath, 'rows.jsonl'"),
    (LOADER, "is a DataLoader, whose elements are batches, .* give its `dataset`"),
    (LOADER.sampler, "is a SequentialSampler, which gives numbers"),
    ({1, 2}, "is a set, whose order differs"),
    (pandas.DataFrame({"id": [1]}), r"is a DataFrame of pandas, .* rows, .to_dict\('records'\)"),
    (pandas.Series([1]), r"is a Series of pandas, .*tolist\(\)"),
    ((i for i in range(3)), "can be read once"),
    (np.zeros((0, 4)), "has no rows"),
    (np.array(3), "is a ndarray of a single number"),
]


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda: MixedDataset([[1], [2]], 8), "give at least one domain by its name"),
        (lambda: MixedDataset({"a": []}, 8), "domain 'a' has no rows"),
        (lambda: list(MixedDataset({"a": Again([])}, 8, steps=1)), "domain 'a' has no rows"),
        (
            lambda: list(MixedDataset({"a": Locked()}, 8, steps=1)),
            "domain 'a': .* Locked cannot be",
        ),
        (lambda: MixedDataset({"a": 3}, 8), "domain 'a' is a int"),
        (lambda: MixedDataset({"a": {"train": [1]}}, 8), "give one data set, such as one of its"),
        (lambda: MixedDataset({"a": [1]}, 8.0), "batch_rows: 8.0"),
        (lambda: MixedDataset({"a": [1]}, 8, steps=0), "steps: 0 must be a whole number of at"),
        (lambda: MixedDataset(domains(), 8, weights={"a": 1.0}), "domain 'b' has no weight"),
        (lambda: MixedDataset(domains(), 8, weights={"a": -1, "b": 2}), "weights.a: must not be"),
        *((lambda d=d: MixedDataset({"a": d}, 8), said) for d, said in NO_DATASETS),
        (lambda: MixedDataset(domains(), 8, columns="some"), "take same, union, any"),
        (lambda: MixedDataset(domains(), 2, place=(0, 4)).micro_batch_rows, "multiple of 4$"),
        (
            lambda: MixedDataset(domains(), 12, micro_batch_rows=2, place=(0, 5)).micro_batch_rows,
            "micro-batches of 2: make it a multiple of 10",
        ),
        (lambda: MixedDataset(domains(), 8, ends="first-exhausted"), "take first_exhausted or"),
        (lambda: mixed().publish(3, np.array([4, 4])), "step 3 is not the next one, 8"),
        (lambda: mixed().publish(8, np.array([4, 3])), "sum to 8"),
        (lambda: mixed().counts(8), "prefetches"),
        (lambda: mixed().set_weights({"a": 1, "b": 1}), "published by a method"),
        (lambda: interleave_datasets([ids("a", 2)], [0.5, 0.5]), "2 for 1 data sets"),
        (lambda: interleave_datasets([ids("a", 2)] * 2, [0.5, 0.6]), "must sum to 1"),
        (lambda: interleave_datasets([Again([1])]), "a data set without length"),
        (lambda: interleave_datasets([[1]], split="train"), "leave both away"),
        (lambda: interleave_datasets([[1]], [1], 0, "first_exhausted"), "stopping_strategy="),
        (lambda: interleave_datasets("rows.jsonl"), "give a list of data sets"),
        (lambda: interleave_datasets([[1]], steps=1, stopping_strategy="all_exhausted"), "one of"),
        (lambda: interleave_datasets([[1]], stopping_strategy=WITHOUT), "go with first_exhausted"),
        (lambda: list(interleave_datasets([[1]], batch_rows=2)), "more rows than a domain has"),
    ],
)
def test_mistakes_are_told(do, said):
    with pytest.raises(InputError, match=said):
        do()


@pytest.mark.slow
def test_a_worker_that_draws_what_is_not_decided_says_so():
    dataset = MixedDataset(domains(), 8, shuffle=False)
    dataset.publish(0, np.array([4, 4]))
    loader = DataLoader(dataset, batch_size=8, num_workers=1)
    with pytest.raises(InputError, match="the loader prefetches"):
        list(loader)
