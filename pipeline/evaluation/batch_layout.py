"""Questions laid out as rows, and which of them are read together.

A row is the context's tokens, then all candidates side by side.

A context (a b c) with the candidates (d e f) and (g h), of which a is shared with others:

    token      b  c  d  e  g
    position   1  2  3  4  3
    block      0  0  1  1  2
    scored        x  x  x  x       at c: d and g; at d: e; at e: f; at g: h

The last token of a candidate predicts nothing that is asked for, and is left out.

Shapes: L tokens of a row, B rows, M places where something is scored, N scored tokens.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Ints

CONTEXT = 0
PADDING = -1
BEGINNING_TOKENS, FEWEST = 64, 8
"""Longer contexts whose first so many tokens are the same are read together if there are so many of
them; all others are one group. A group costs a pass over its prefix and batches of its own."""


@dataclass(frozen=True)
class QuestionRow:
    """One question."""

    token_L: Ints
    position_L: Ints
    block_L: Ints
    """0 for the context, 1 and up for the candidates."""
    places: int
    """Tokens at which something is scored: the last so many of the row."""
    place_N: Ints
    """Which of them each scored token is expected at, in rising order."""
    target_N: Ints
    """The scored tokens."""
    candidate_N: Ints
    """Which candidate each belongs to."""
    candidates: int


@dataclass(frozen=True)
class RowBatch:
    """Rows of one batch, padded on the right; places and candidates counted through."""

    token_BxL: Ints
    position_BxL: Ints
    block_BxL: Ints
    scored_BxL: npt.NDArray[np.bool_]
    place_N: Ints
    target_N: Ints
    candidate_N: Ints
    candidates: int


def row(context: Ints, candidates: Sequence[Ints], shared: int) -> QuestionRow:
    """Lays out one question whose first `shared` tokens, not all of its context, are left out.

    Args:
        context: Token ids.
        candidates: Token ids of each, at least one.
        shared: Leading tokens of the context that are read elsewhere.
    """
    firsts = np.array([candidate[0] for candidate in candidates], np.int64)
    return QuestionRow(
        token_L=np.concatenate([context[shared:], *(candidate[:-1] for candidate in candidates)]),
        target_N=np.concatenate([firsts, *(candidate[1:] for candidate in candidates)]),
        candidates=len(candidates),
        **_places(len(context), tuple(map(len, candidates)), shared),
    )


@functools.lru_cache(maxsize=64)
def _places(context: int, candidates: tuple[int, ...], shared: int) -> dict[str, Any]:
    """What a row has of the lengths of a context and its candidates alone."""
    lengths = np.array(candidates, np.int64) - 1
    numbers = np.arange(len(lengths))
    number = np.repeat(numbers, lengths)
    place = np.arange(len(number)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return {
        "position_L": np.concatenate([np.arange(shared, context), context + place]),
        "block_L": np.concatenate([np.full(context - shared, CONTEXT), number + 1]),
        "places": 1 + len(number),
        "place_N": np.concatenate([np.zeros_like(numbers), 1 + np.arange(len(number))]),
        "candidate_N": np.concatenate([numbers, number]),
    }


def side_by_side(rows: Sequence[QuestionRow], size: tuple[int, int] | None = None) -> RowBatch:
    """One batch of rows, in their order, filled up to a size in rows and tokens if one is given."""
    size = size or (len(rows), max(len(one.token_L) for one in rows))
    token, position = np.zeros(size, np.int64), np.zeros(size, np.int64)
    block, scored = np.full(size, PADDING), np.zeros(size, bool)
    for number, one in enumerate(rows):
        L = len(one.token_L)
        token[number, :L], token[number, L:] = one.token_L, one.token_L[0]
        position[number, :L], block[number, :L] = one.position_L, one.block_L
        scored[number, L - one.places : L] = True
    places = np.cumsum([0, *(one.places for one in rows)])
    candidates = np.cumsum([0, *(one.candidates for one in rows)])
    parts = list(zip(rows, places, candidates, strict=False))
    return RowBatch(
        token_BxL=token,
        position_BxL=position,
        block_BxL=block,
        scored_BxL=scored,
        place_N=np.concatenate([first + one.place_N for one, first, _ in parts]),
        target_N=np.concatenate([one.target_N for one in rows]),
        candidate_N=np.concatenate([first + one.candidate_N for one, _, first in parts]),
        candidates=int(candidates[-1]),
    )


@dataclass(frozen=True)
class Group:
    """Contexts that share their first tokens, so that a model reads these only once."""

    members: list[int]
    """Indices of the contexts, in rising order."""
    prefix_P: Ints
    """What all of them begin with; at least one token of each is left over."""


def groups(contexts: Sequence[Ints]) -> list[Group]:
    """Puts every context into one group; each context holds at least one token.

    All questions of a task with fixed demonstrations share the document start and the
    demonstrations, but for those that had to leave demonstrations out: of these, the ones that left
    out as many.
    """
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
