"""Whether the domains are data sets, and their rows fit each other and are the same everywhere.

A row is a mapping of columns, a tuple of columns, or one value. Rows of different domains meet in
one micro-batch, where a collate function drops the columns that its first row lacks.
"""

import collections
import contextlib
import functools
import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from pike_mixing.errors import InputError
from pike_mixing.torch import parallel, streams

Columns = Literal["same", "union", "any"]
"""Whether all domains must have the same columns, get None in the place of a missing one, or are
not compared."""

Column = tuple[str, tuple[int, ...]]
"""What a column holds, and its shape."""

UNKNOWN = "None"
"""What None or an empty list holds: a column of any kind."""


def refuse_unless_elements_are_rows(domain: str, dataset: Any) -> None:
    """Refuses what could be read, but whose elements are not rows."""
    kind, module = type(dataset).__name__, type(dataset).__module__.partition(".")[0]
    # Loaders of Mixing, Fabric and others are none of torch's.
    wraps = hasattr(dataset, "dataset") and hasattr(dataset, "batch_size")
    problem = ""
    if isinstance(dataset, str | bytes | bytearray | os.PathLike):
        text = os.fsdecode(dataset) if isinstance(dataset, os.PathLike) else dataset
        problem = (
            f", {text[:60]!r}: give the data set itself, such as "
            'datasets.load_dataset("json", data_files=PATH, split="train")'
        )
    elif (
        isinstance(dataset, DataLoader)
        or kind == "IterableDatasetShard"
        or (wraps and not isinstance(dataset, Dataset))
    ):
        problem = (
            ", whose elements are batches, or the rows of one process: give its `dataset`; the "
            "batches are made of the mixed rows"
        )
    elif getattr(dataset, "ndim", 1) == 0:
        problem = f" of a single number, {dataset!r}: give an array of rows"
    elif isinstance(dataset, Sampler):
        problem = ", which gives numbers: give the data set"
    elif isinstance(dataset, set | frozenset):
        problem = ", whose order differs from process to process: give a list, such as sorted(...)"
    elif module in ("pandas", "polars", "pyarrow") and not isinstance(dataset, Mapping):
        how = {"pandas": "to_dict('records')", "polars": "to_dicts()"}.get(module, "to_pylist()")
        how = "tolist()" if kind == "Series" and module == "pandas" else how
        problem = (
            f" of {module}, whose elements are not rows: give its rows, .{how}, or "
            "datasets.Dataset of it"
        )
    if problem:
        raise InputError(f"domain {domain!r} is a {kind}{problem}")


def read_first_rows(datasets: Mapping[str, Any]) -> dict[str, Any]:
    """The first row of each domain, read anew; global random numbers stay as they were."""
    with _restored_random_states():
        return {
            name: _first_rows_stream(dataset, name).row(0) for name, dataset in datasets.items()
        }


def _first_rows_stream(dataset: Any, name: str) -> streams.Stream:
    return streams.open_stream(dataset, name, seed=0, purpose="first row", shuffle=False)


@contextlib.contextmanager
def _restored_random_states() -> Iterator[None]:
    """What is drawn in the block is drawn once more after it."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


class FilledStream:
    """A stream whose rows have the columns of all domains; a missing one is None."""

    def __init__(self, stream: streams.Stream, union: "ColumnUnion") -> None:
        """Takes the stream of one domain, and the columns of all."""
        self._stream, self._union = stream, union

    def row(self, position: int) -> Any:
        """The row at a position."""
        return self._union.with_missing_columns(self._stream.row(position))


class ColumnUnion:
    """The columns of the first row of every domain, in their order."""

    def __init__(self, datasets: Mapping[str, Any]) -> None:
        """Reads nothing yet."""
        self._datasets = datasets

    @functools.cached_property
    def _empty_row(self) -> dict[str, None]:
        rows = read_first_rows(self._datasets).values()
        return {name: None for row in rows if isinstance(row, Mapping) for name in row}

    def with_missing_columns(self, row: Any) -> Any:
        """The row with None where it lacks a column; one that is no mapping as it is."""
        return self._empty_row | dict(row) if isinstance(row, Mapping) else row


def refuse_different_columns_or_kinds(rows: Mapping[str, Any], *, allow_missing: bool) -> None:
    """Compares the columns and types of one row of each domain; lengths may differ."""
    found = {name: _kind_and_shape_by_column(row) for name, row in rows.items()}
    if lines := _column_differences(found, missing=not allow_missing, shapes=False):
        raise InputError(_unfit_message(lines))


def refuse_uncollatable_domains(
    rows: Mapping[str, Any], collate_fn: Callable[[list[Any]], Any], size: int
) -> None:
    """Compares what a collate function makes of each domain's row, and of rows of two domains."""
    raw = {name: _kind_and_shape_by_column(row) for name, row in rows.items()}
    (first, row), *others = rows.items()
    with _restored_random_states():
        found = {}
        for name, one in rows.items():
            what = f"the rows of domain {name!r}"
            found[name] = _kind_and_shape_by_column(
                _collate_or_refuse(collate_fn, [one] * size, what, raw)
            )
        if lines := _column_differences(found, missing=True, shapes=False):
            raise InputError(_unfit_message(lines))
        for name, other in others if size > 1 else []:
            mixed = [(row, other)[at % 2] for at in range(size)]
            what = f"rows of domains {first!r} and {name!r} together"
            pair = {n: raw[n] for n in (first, name)}
            _collate_or_refuse(collate_fn, mixed, what, pair)


def _collate_or_refuse(
    collate_fn: Callable[[list[Any]], Any],
    given: list[Any],
    described_rows: str,
    columns_by_domain: Mapping[str, Mapping[str, Column]],
) -> Any:
    try:
        return collate_fn(given)
    except Exception as error:
        lines = _column_differences(columns_by_domain, missing=True, shapes=True)
        if isinstance(error, InputError) and not lines:
            raise
        why = f"collate_fn does not take {described_rows}: {type(error).__name__}: {error}"
        raise InputError("\n".join([why, *([_unfit_message(lines)] if lines else [])])) from error


def _unfit_message(lines: Sequence[str]) -> str:
    return (
        "the rows of the domains do not fit each other:\n  "
        + "\n  ".join(lines)
        + "\nGive every domain the same columns, types and lengths (map, remove_columns, padding); "
        'if your collate_fn or model takes them as they are: columns="any"'
    )


def _column_differences(
    columns_by_domain: Mapping[str, Mapping[str, Column]], *, missing: bool, shapes: bool
) -> list[str]:
    """A line for each column that is not the same in every domain."""
    lines = []
    for column in dict.fromkeys(name for one in columns_by_domain.values() for name in one):
        domains: dict[str, list[str]] = {}
        for domain, one in columns_by_domain.items():
            kind, shape = one.get(column, ("missing", ()))
            if (shapes or kind != UNKNOWN) and (missing or kind != "missing"):
                text = f"{kind} of shape {shape}" if shapes and shape else kind
                domains.setdefault(text, []).append(domain)
        if len(domains) > 1:
            told = (f"{text} in {', '.join(map(repr, names))}" for text, names in domains.items())
            lines.append(f"column {column!r}: {'; '.join(told)}" if column else "; ".join(told))
    return lines


def _kind_and_shape_by_column(row: Any, name: str = "") -> dict[str, Column]:
    """What a row, or a batch of rows, holds by column; of a nested mapping `outer.inner`."""
    parts: Mapping[Any, Any] | None = None
    if isinstance(row, Mapping):
        parts = row
    elif isinstance(row, tuple | list) and _kind_and_shape_if_plain(row) is None:
        # Of a list in a column, such as messages or images, rows have more or fewer.
        if isinstance(row, list) and name:
            return {name: ("lists", ())}
        parts = dict(enumerate(row))
    if parts is None:
        return {name: _kind_and_shape_if_plain(row) or (type(row).__name__, ())}
    found: dict[str, Column] = {}
    for key, part in parts.items():
        found |= _kind_and_shape_by_column(part, f"{name}.{key}" if name else str(key))
    return found


def _kind_and_shape_if_plain(value: Any) -> Column | None:
    """Kind and shape of numbers, texts, or lists of them; None of anything else."""
    if value is None:
        return UNKNOWN, ()
    if isinstance(value, torch.Tensor):
        real = "floats" if value.is_floating_point() else "integers"
        kind = {torch.bool: "booleans"}.get(value.dtype, real)
        return "complex numbers" if value.is_complex() else kind, tuple(value.shape)
    if isinstance(value, np.ndarray | np.generic):
        kinds = {"b": "booleans", "i": "integers", "u": "integers", "f": "floats", "U": "texts"}
        return kinds.get(value.dtype.kind, str(value.dtype)), tuple(value.shape)
    of_types = {bool: "booleans", int: "integers", float: "floats", str: "texts"}
    for type_, kind in of_types.items():
        if isinstance(value, type_):
            return kind, ()
    if not isinstance(value, tuple | list):
        return None
    if not value:
        return UNKNOWN, (0,)
    inner = [_kind_and_shape_if_plain(part) for part in value]
    kinds_ = {part[0] for part in inner if part} - {UNKNOWN}
    plain = not any(isinstance(part, torch.Tensor | np.ndarray) for part in value)
    if None in inner or len(kinds_) > 1 or not plain:
        return None
    return (*kinds_, UNKNOWN)[0], (len(value), *(inner[0] or ("", ()))[1])


_numbers: collections.Counter[str] = collections.Counter()


def take_shared_dataset_key(dataset_settings: Mapping[str, Any]) -> str:
    """A key of a mixed data set, the same on every process: its settings, and which of them."""
    text = json.dumps(dataset_settings, sort_keys=True, default=str)
    _numbers[text] += 1
    return f"{hashlib.sha1(text.encode()).hexdigest()}/{_numbers[text]}"


def refuse_streams_split_by_process(datasets: Mapping[str, Any]) -> None:
    """Refuses streams of `datasets` that give this process a part of their rows."""
    for name, dataset in datasets.items():
        cut: Any = getattr(dataset, "_distributed", None)
        if cut is not None and cut.world_size > 1:
            raise InputError(
                f"domain {name!r} was cut by split_dataset_by_node: process {cut.rank} of "
                f"{cut.world_size} has a part of its rows. {WHOLE}"
            )


WHOLE = (
    "The rows are dealt to the processes afterwards, so that those of the other parts would never "
    "be read: give every process the whole data set, in the same order"
)


COMPARED = 16
"""Rows of each domain that are compared over the processes. Parts of a data set may begin with the
same row, and random augmentation of few outcomes gives one row twice, but not as many."""


def domain_descriptions(datasets: Mapping[str, Any]) -> list[list[Any]]:
    """By which processes know each other's domains: name, rows, and a digest of rows by column.

    The digests are of the first rows, and of the last of a map-style data set. Columns that are
    another at each reading, as with random augmentation, have none.
    """
    return [
        [name, streams.map_style_length(d), _digest_by_repeatable_column(d, name)]
        for name, d in datasets.items()
    ]


def _digest_by_repeatable_column(dataset: Any, name: str) -> dict[str, str]:
    once, again = (_compared_rows_digest_by_column(dataset, name) for _ in range(2))
    return {column: digest for column, digest in once.items() if again.get(column) == digest}


def _compared_rows_digest_by_column(dataset: Any, name: str) -> dict[str, str]:
    length = streams.map_style_length(dataset)
    positions = (
        [*range(COMPARED)] if length is None else [*range(min(COMPARED, length)), length - 1]
    )
    columns = collections.defaultdict[str, list[Any]](list)
    with _restored_random_states():
        # The same on every process, and at each reading.
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        torch.default_generator.manual_seed(0)
        stream = _first_rows_stream(dataset, name)
        for position in positions:
            row = stream.row(position)
            for column, value in row.items() if isinstance(row, Mapping) else [("", row)]:
                columns[str(column)].append(value)
    return {column: _json_digest(values) for column, values in columns.items()}


def _json_digest(values: Any) -> str:
    """A digest of plain values, arrays and images, the same on every machine."""

    def plain_value_or_text(value: Any) -> Any:
        if hasattr(value, "tolist"):
            return value.tolist()
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, bytes):
            return repr(value)
        # Images are given as objects.
        return repr(value.tobytes() if hasattr(value, "tobytes") else type(value))

    text = json.dumps(values, default=plain_value_or_text, skipkeys=True)
    return hashlib.sha1(text.encode()).hexdigest()


def refuse_domains_differing_by_rank(described: Mapping[int, list[list[Any]]]) -> None:
    """Refuses domains that are not the same on every process."""
    (first, ours), *others = sorted(described.items())
    for rank, theirs in others:
        for (name, rows, digests), (other, others_rows, other_digests) in zip(
            ours, theirs, strict=False
        ):
            both = digests.keys() & other_digests.keys()
            differ = any(digests[column] != other_digests[column] for column in both)
            if (name, rows) != (other, others_rows) or differ:
                count = "" if rows is None else f" ({others_rows} rows, and {rows})"
                raise InputError(
                    f"domain {name!r} has other rows on process {rank} than on process "
                    f"{first}{count}: it was cut by process (split_dataset_by_node, shard, a "
                    f"sampler), or shuffled without a seed. {WHOLE}"
                )


def refuse_domains_unlike_group(datasets: Mapping[str, Any], group: parallel.Group) -> None:
    """Refuses domains that are not the same on every process of a group; all of them call this."""
    own = json.dumps(domain_descriptions(datasets))
    texts = parallel.gather_texts(own, group)
    refuse_domains_differing_by_rank({rank: json.loads(text) for rank, text in enumerate(texts)})


def refuse_domains_unlike_published(datasets: Mapping[str, Any], key: str) -> None:
    """Publishes what they are, compares with what others published already, and waits for none.

    The process that comes later is the one that refuses.
    """
    own = json.dumps(domain_descriptions(datasets))
    texts = parallel.publish_and_read_texts(key, own)
    refuse_domains_differing_by_rank({rank: json.loads(text) for rank, text in texts.items()})
