"""The rows of one domain by their position in an endless order, whatever holds them."""

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch

from pike_mixing.errors import InputError
from pike_mixing.order import Order


class Stream(Protocol):
    """Rows at positions 0, 1, 2, ...; after the last row, the first ones come again."""

    def row(self, position: int) -> Any:
        """The row at a position."""

    def state_dict(self) -> dict[str, Any]:
        """Where it stands; positions are the caller's."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from there."""


def opened(dataset: Any, domain: str, *, seed: int, purpose: str, shuffle: bool) -> Stream:
    """The stream of a domain.

    Args:
        dataset: Map-style (`__len__` and `__getitem__`), or an iterable that can be read again.
        domain: Its name.
        seed: Seed of the order.
        purpose: What the rows are for; another purpose has another order.
        shuffle: Whether a map-style data set is read in a new random order each time round. The
            order of an iterable is its own, the same for every purpose.

    Raises:
        InputError: it is neither, or empty.
    """
    if isinstance(dataset, Mapping):
        raise InputError(
            f"domain {domain!r} is a {type(dataset).__name__} of {', '.join(map(str, dataset))}: "
            "give one data set, such as one of its splits"
        )
    rows = length(dataset)
    if rows == 0:
        raise InputError(f"domain {domain!r} has no rows")
    if rows is not None:
        key = {"seed": seed, "purpose": purpose, "domain": domain}
        return _ByIndex(dataset, Order(rows, key) if shuffle else None)
    if not hasattr(dataset, "__iter__"):
        raise InputError(
            f"domain {domain!r} is a {type(dataset).__name__}: give a data set with __len__ and "
            "__getitem__, or an iterable"
        )
    if iter(dataset) is dataset:
        raise InputError(
            f"domain {domain!r} is an iterator, which can be read once: give an iterable, such as "
            "a data set, that starts anew"
        )
    return _InOrder(dataset, domain)


def length(dataset: Any) -> int | None:
    """Rows of a map-style data set; None of an iterable."""
    if isinstance(dataset, torch.utils.data.IterableDataset):
        return None
    by_index = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return len(dataset) if by_index else None


class _ByIndex:
    """A map-style data set: any position at once."""

    def __init__(self, dataset: Any, order: Order | None) -> None:
        self._dataset, self._order = dataset, order

    def row(self, position: int) -> Any:
        if self._order is None:
            return self._dataset[position % len(self._dataset)]
        return self._dataset[int(self._order.take(position, 1)[0])]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class _InOrder:
    """An iterable: it is read on to a position, and anew for an earlier one.

    A data set with `state_dict` and `load_state_dict`, such as a streaming one of Hugging Face,
    goes on where it was; of any other the rows before are read and dropped. So they are where a
    streaming one shuffles: its state does not hold the rows in its buffer.
    """

    def __init__(self, dataset: Any, domain: str) -> None:
        self._given, self._domain = dataset, domain
        self._own: Any = None
        self._begin(0, 0)

    @property
    def _dataset(self) -> Any:
        """This reader's own: data sets of Hugging Face keep epoch and place in shared memory."""
        if self._own is None:
            stateful = hasattr(self._given, "set_epoch") or hasattr(self._given, "state_dict")
            # It holds a dictionary of all file systems of the Hub; copying one that another thread
            # or process has made would add to it while it is read.
            systems = getattr(self._given, "_IterableDataset__hffs_cache", None)
            memo = {id(systems): systems}
            self._own = copy.deepcopy(self._given, memo) if stateful else self._given
        return self._own

    def __getstate__(self) -> dict[str, Any]:
        """For a worker that starts anew: it makes a copy of its own."""
        return {"given": self._given, "domain": self._domain, "place": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Without a place of its data set's own, it reads anew up to the next position."""
        _InOrder.__init__(self, state["given"], state["domain"])
        self.load_state_dict(state["place"])

    def _begin(self, position: int, epoch: int) -> None:
        self._next, self._epoch = position, epoch
        self._rows: Iterator[Any] | None = None
        self._read = 0

    def _opened(self) -> Iterator[Any]:
        if hasattr(self._dataset, "set_epoch"):
            self._dataset.set_epoch(self._epoch)
        return iter(self._dataset)

    def row(self, position: int) -> Any:
        if position < self._next:
            self._begin(0, 0)
        with _as_one_reader():
            while True:
                if self._rows is None:
                    self._rows = self._opened()
                try:
                    row = next(self._rows)
                except StopIteration:
                    if not self._read:
                        raise InputError(f"domain {self._domain!r} has no rows") from None
                    self._rows, self._read, self._epoch = None, 0, self._epoch + 1
                    continue
                self._read += 1
                self._next += 1
                if self._next > position:
                    return row

    def state_dict(self) -> dict[str, Any]:
        stateful = hasattr(self._given, "load_state_dict") and not _has_buffer(self._given)
        if not stateful or self._rows is None:
            return {}
        numbers = {"next": self._next, "epoch": self._epoch, "read": self._read}
        return numbers | {"dataset": copy.deepcopy(self._dataset.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._begin(state.get("next", 0), state.get("epoch", 0))
        if "dataset" in state and hasattr(self._given, "load_state_dict"):
            self._read = state["read"]
            if hasattr(self._dataset, "set_epoch"):
                self._dataset.set_epoch(self._epoch)
            self._dataset.load_state_dict(state["dataset"])
            with _as_one_reader():
                self._rows = iter(self._dataset)


def _has_buffer(part: Any) -> bool:
    """Whether a streaming data set of Hugging Face, or what it reads from, shuffles in a buffer."""
    inner = [getattr(part, name, None) for name in ("_ex_iterable", "ex_iterable")]
    inner += getattr(part, "ex_iterables", [])
    shuffles = type(part).__name__ == "BufferShuffledExamplesIterable"
    return shuffles or any(_has_buffer(p) for p in inner if p is not None)


@contextlib.contextmanager
def _as_one_reader() -> Iterator[None]:
    """Hides from a data set that a worker reads it.

    Data sets that see a worker give it a part of their rows. Here every worker reads them all and
    leaves the others' to them, so that positions mean the same everywhere.
    """
    place = torch.utils.data._utils.worker
    before, place._worker_info = place._worker_info, None
    try:
        yield
    finally:
        place._worker_info = before
