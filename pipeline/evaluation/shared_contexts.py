"""Which contexts begin alike, so that a model reads what they share only once.

All questions of a task with fixed demonstrations share the document start and the demonstrations.
Where they do not all begin alike, as when some had to leave demonstrations out, those that do are
taken together.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

WORTH_TOKENS = 512
"""A set of contexts is read apart from the others when that saves more than so many tokens:
it costs a pass over its prefix and batches of its own."""


@dataclass(frozen=True)
class Group:
    """Contexts that share their first tokens."""

    members: list[int]
    """Indices of the contexts, in rising order."""
    prefix_P: Ints
    """What all of them begin with; at least one token of each is left over."""


def groups(contexts: Sequence[Ints]) -> list[Group]:
    """Puts every context into one group; each context holds at least one token.

    In lexicographic order contexts that share a prefix are neighbours, and what a range of them
    shares is the least that two neighbours in it share.
    """
    texts = [context.astype(">u4").tobytes() for context in contexts]
    order_I = np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)
    ordered = [contexts[i] for i in order_I]
    order = _Order(
        np.array([_common(a, b) for a, b in itertools.pairwise(ordered)], np.int64),
        np.array([len(context) - 1 for context in ordered], np.int64),
    )
    return [
        Group(sorted(order_I[places].tolist()), ordered[places[0]][:shared])
        for places, shared in order.ranges()
    ]


def _common(first: Ints, second: Ints) -> int:
    """Length of the longest common prefix."""
    shorter = min(len(first), len(second))
    different = np.flatnonzero(first[:shorter] != second[:shorter])
    return int(different[0]) if len(different) else shorter


def _saved(contexts: int, own: int, shared: int) -> int:
    """Tokens saved when contexts read a prefix of their own once, beyond what all share."""
    return contexts * (own - shared) - own


@dataclass(frozen=True)
class _Order:
    """Contexts in lexicographic order, seen through what they share."""

    common: Ints
    """Tokens that each place shares with the next; one fewer than places."""
    most: Ints
    """Tokens that each place can share at most: one is left over."""

    def ranges(self) -> Iterator[tuple[Ints, int]]:
        """Places that are read together, and how many tokens they share."""
        waiting = [(0, len(self.most))] if len(self.most) else []
        while waiting:
            start, stop = waiting.pop()
            shared = self._shared(start, stop)
            apart = list(self._worthwhile(start, stop, shared))
            waiting += apart
            left = np.ones(stop - start, bool)
            for a, b in apart:
                left[a - start : b - start] = False
            if left.any():
                yield start + np.flatnonzero(left), shared

    def _shared(self, start: int, stop: int) -> int:
        common = self.common[start : stop - 1]
        return int(min(common.min(initial=self.most[start]), self.most[start:stop].min()))

    def _worthwhile(self, start: int, stop: int, shared: int) -> Iterator[tuple[int, int]]:
        """Ranges within a range that share more than it does and save enough when read apart."""
        waiting = self._parts(start, stop)
        while waiting:
            a, b = waiting.pop()
            if _saved(b - a, self._shared(a, b), shared) > WORTH_TOKENS:
                yield a, b
            elif _saved(b - a, self.common[a : b - 1].max(initial=0), shared) > WORTH_TOKENS:
                waiting += self._parts(a, b)

    def _parts(self, start: int, stop: int) -> list[tuple[int, int]]:
        """A range cut where neighbours share least."""
        common = self.common[start : stop - 1]
        if not len(common):
            return []
        cuts = (start + 1 + np.flatnonzero(common == common.min())).tolist()
        return list(zip([start, *cuts], [*cuts, stop], strict=True))
