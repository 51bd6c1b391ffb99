"""The rows of one domain by their position in an endless order, whatever holds them."""

import contextlib
import copy
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch

from pike_mixing.errors import InputError
from pike_mixing.row_order import Order

log = logging.getLogger("pike_mixing")

MANY = 100_000
"""Rows that are read again only with a word in the log: it may take a minute, or an hour."""


class Stream(Protocol):
    """Rows at positions 0, 1, 2, ...; after the last row, the first ones come again."""

    def row(self, position: int) -> Any:
        """The row at a position."""


def open_stream(dataset: Any, domain: str, *, seed: int, purpose: str, shuffle: bool) -> Stream:
    """The rows of a domain's data set, in an order of their own for each purpose.

    Shuffled, a map-style data set is read in a new random order each time round. The order of an
    iterable, which must be one that can be read again, is its own for every purpose.
    """
    if isinstance(dataset, Mapping):
        raise InputError(
            f"domain {domain!r} is a {type(dataset).__name__} of {', '.join(map(str, dataset))}: "
            "give one data set, such as one of its splits"
        )
    rows = map_style_length(dataset)
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


def map_style_length(dataset: Any) -> int | None:
    """Rows of a map-style data set; None of an iterable."""
    if isinstance(dataset, torch.utils.data.IterableDataset):
        return None
    by_index = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return len(dataset) if by_index else None


def copy_if_stateful(dataset: Any) -> Any:
    """A data set of this reader's own, where it keeps a place or an epoch, as it was given.

    Reaches into `datasets`: a streaming set holds the dictionary of all file systems of the Hub.
    Copying one that another thread or process has made would add to it while it is read.
    """
    if not (hasattr(dataset, "set_epoch") or hasattr(dataset, "state_dict")):
        return dataset
    systems = getattr(dataset, "_IterableDataset__hffs_cache", None)
    return copy.deepcopy(dataset, {id(systems): systems})


def is_datasets_stream(dataset: Any) -> bool:
    """Whether it is a stream of `datasets`, whose release the order of its rows depends on."""
    return type(dataset).__module__ == "datasets.iterable_dataset"


def installed_datasets_release() -> str:
    """The release of `datasets`, which a stream of it has imported."""
    return f"datasets=={sys.modules['datasets'].__version__}"


class _ByIndex:
    """A map-style data set: any position at once."""

    def __init__(self, dataset: Any, order: Order | None) -> None:
        self._dataset, self._order = dataset, order

    def row(self, position: int) -> Any:
        if self._order is None:
            return self._dataset[position % len(self._dataset)]
        return self._dataset[int(self._order.take(position, 1)[0])]


class _InOrder:
    """An iterable: it is read on to a position, and anew for an earlier one.

    Rows are counted. A data set's own `state_dict` is not used: with most releases of `datasets` it
    goes on at other rows (docs/streams.md), and it never holds what a function of `map` keeps.
    """

    def __init__(self, dataset: Any, domain: str) -> None:
        self._given, self._domain = dataset, domain
        self._rewind()

    def __getstate__(self) -> dict[str, Any]:
        """For a worker that starts anew: it reads from the first row."""
        return {"given": self._given, "domain": self._domain}

    def __setstate__(self, state: dict[str, Any]) -> None:
        _InOrder.__init__(self, state["given"], state["domain"])

    def _rewind(self) -> None:
        self._own: Any = None
        self._rows: Iterator[Any] | None = None
        self._next = self._read = self._epoch = 0
        self._turns = True
        self._process = os.getpid()

    def _open_current_epoch(self) -> Iterator[Any]:
        if self._own is None:
            try:
                self._own = copy_if_stateful(self._given)
            except TypeError as error:
                raise InputError(
                    f"domain {self._domain!r}: a data set with set_epoch or state_dict is copied "
                    f"for each reader, but this {type(self._given).__name__} cannot be copied "
                    f"({error}): make locks, connections and open files in its __iter__"
                ) from error
        if hasattr(self._own, "set_epoch"):
            self._own.set_epoch(self._epoch if self._turns else 0)
        return iter(self._own)

    def row(self, position: int) -> Any:
        # A worker that was forked shares the places in open files with its siblings.
        if position < self._next or self._process != os.getpid():
            self._rewind()
        if position - self._next >= MANY:
            log.warning(
                "domain %r: its first %d rows are read again, up to where the training stopped; a "
                "map-style data set goes on at once",
                self._domain,
                position,
            )
        with _hiding_worker():
            while True:
                try:
                    if self._rows is None:
                        self._rows = self._open_current_epoch()
                    row = next(self._rows)
                except StopIteration:
                    if not self._read:
                        raise InputError(f"domain {self._domain!r} has no rows") from None
                    self._rows, self._read, self._epoch = None, 0, self._epoch + 1
                    continue
                except BaseException as error:
                    if type(error).__name__ == "DataSourcesShufflingDisallowed" and self._turns:
                        # datasets 5.0, of streams with take or skip: others keep their order.
                        self._rows, self._turns = None, False
                        continue
                    # Read on after an error, a generator would seem to be at its end.
                    self._rewind()
                    raise
                self._read += 1
                self._next += 1
                if self._next > position:
                    return row


@contextlib.contextmanager
def _hiding_worker() -> Iterator[None]:
    """Hides from a data set that a worker reads it; reaches into torch.

    Data sets that see a worker give it a part of their rows. Here every worker reads them all and
    leaves the others' to them, so that positions mean the same everywhere.
    """
    place = torch.utils.data._utils.worker
    before, place._worker_info = place._worker_info, None
    try:
        yield
    finally:
        place._worker_info = before
