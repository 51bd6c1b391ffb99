"""Which contexts begin alike, so that a model reads what they share only once.

All questions of a task with fixed demonstrations share the document start and the demonstrations,
but for those that had to leave demonstrations out: of these, the ones that left out as many.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pike_mixing.arrays import Ints

BEGINNING_TOKENS, FEWEST = 64, 8
"""Longer contexts whose first so many tokens are the same are read together if there are so many of
them; all others are one group. A group costs a pass over its prefix and batches of its own."""


@dataclass(frozen=True)
class Group:
    """Contexts that share their first tokens."""

    members: list[int]
    """Indices of the contexts, in rising order."""
    prefix_P: Ints
    """What all of them begin with; at least one token of each is left over."""


def groups(contexts: Sequence[Ints]) -> list[Group]:
    """Puts every context into one group; each context holds at least one token."""
    alike: dict[bytes, list[int]] = {}
    for number, context in enumerate(contexts):
        long = len(context) > BEGINNING_TOKENS
        alike.setdefault(context[: BEGINNING_TOKENS * long].tobytes(), []).append(number)
    large = [m for key, m in alike.items() if key and len(m) >= FEWEST]
    others = sorted(set(range(len(contexts))).difference(*large))
    return [Group(m, _common([contexts[i] for i in m])) for m in (*large, others) if m]


def _common(contexts: Sequence[Ints]) -> Ints:
    """The longest beginning of all contexts that leaves a token of each."""
    length = min(map(len, contexts)) - 1
    first = contexts[0][:length]
    same = np.logical_and.reduce([context[:length] == first for context in contexts])
    return first[: length if same.all() else int(same.argmin())]
