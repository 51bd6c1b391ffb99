"""Rows as a collate function leaves them: a tensor, or tensors in dictionaries, tuples, lists."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from pike_mixing.errors import InputError

T = TypeVar("T")

Rows = Any
"""A tensor R x ..., or a dictionary, tuple or list of these of the same R; or `UnreadRows`."""


class UnreadRows:
    """Rows that are read when a pass takes them: each process reads its own."""

    def __init__(self, read: Callable[[range], Rows], which: range, device: torch.device) -> None:
        """Keeps how to read."""
        self._read, self._which, self.device = read, which, device

    def __getitem__(self, part: slice) -> "UnreadRows":
        """Some of the rows, still unread."""
        return UnreadRows(self._read, self._which[part], self.device)

    def read(self) -> Rows:
        """The rows."""
        return self._read(self._which)


def tensors_of_rows(rows: Rows) -> Iterator[Tensor]:
    """The tensors of rows."""
    if isinstance(rows, Tensor):
        yield rows
    elif isinstance(rows, Mapping):
        for part in rows.values():
            yield from tensors_of_rows(part)
    elif isinstance(rows, tuple | list):
        for part in rows:
            yield from tensors_of_rows(part)
    elif rows is not None:
        raise InputError(
            f"rows hold a {type(rows).__name__}: give tensors, or dictionaries, tuples or lists of "
            "tensors, as a collate function makes them"
        )


def row_count(rows: Rows) -> int:
    """How many rows there are; None has none."""
    sizes = {part.shape[0] if part.ndim else 0 for part in tensors_of_rows(rows)}
    if len(sizes) > 1:
        raise InputError(f"the tensors of the rows have {sorted(sizes)} rows: they must be as many")
    return sizes.pop() if sizes else 0


def device(rows: Rows) -> torch.device:
    """Where the rows are, or will be once they are read."""
    return rows.device if isinstance(rows, UnreadRows) else next(tensors_of_rows(rows)).device


def read_if_unread(rows: Rows) -> Rows:
    """The rows, read if they were not."""
    return rows.read() if isinstance(rows, UnreadRows) else rows


def select(rows: Rows, which: slice | Tensor) -> Rows:
    """Some of the rows, in the same containers."""
    if isinstance(rows, UnreadRows):
        assert isinstance(which, slice)
        return rows[which]
    return _map_tensors(rows, lambda part: part[which])


def with_is_last(items: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Each item, and whether it is the last."""
    before: list[T] = []
    for item in items:
        yield from ((earlier, False) for earlier in before)
        before = [item]
    yield from ((item, True) for item in before)


def split(rows: Rows, size: int) -> list[Rows]:
    """The rows in pieces of `size`; the last may be shorter."""
    if size < 1:
        raise InputError(f"micro_batch_rows: {size} must be at least 1")
    return [select(rows, slice(at, at + size)) for at in range(0, row_count(rows), size)]


def to_device(rows: Rows, device: torch.device) -> Rows:
    """The rows on a device, in the same containers."""
    return _map_tensors(rows, lambda part: part.to(device, non_blocking=True))


def _map_tensors(rows: Rows, function: Callable[[Tensor], Tensor]) -> Rows:
    if isinstance(rows, Tensor):
        return function(rows)
    if isinstance(rows, Mapping):
        return {name: _map_tensors(part, function) for name, part in rows.items()}
    if rows is None:
        return None
    parts = [_map_tensors(part, function) for part in rows]
    if hasattr(rows, "_fields"):
        return type(rows)(*parts)
    return tuple(parts) if isinstance(rows, tuple) else parts
