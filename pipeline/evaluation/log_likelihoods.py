"""Log-likelihoods of candidate continuations: each token once through the model, where it counts.

A question is one row: what is left of its context behind the tokens that many questions share,
then its candidates side by side. Each candidate sees the context and itself, and its positions go
on where the context ends, as if it stood there alone. Shared tokens are read once and kept as
keys and values. Logits are made only where a candidate's token is expected, a limited number at a
time, and summed up in float32 whatever the model's own numbers are; sums are in float64.

A context (a b c) with the candidates (d e f) and (g h), of which a is shared with others:

    token      b  c  d  e  g
    position   1  2  3  4  3
    block      0  0  1  1  2
    scored        x  x  x  x       at c: d and g; at d: e; at e: f; at g: h

The last token of a candidate predicts nothing that is asked for, and is left out.

A device that compiles reads rows of a few lengths, each in batches of one shape, every context
whole: what questions share would be another shape for each group of them. A model of transformers
reads a row for each candidate, behind its context.

Shapes: B questions of a batch, L tokens of the longest row, P shared tokens, S = P + L, D model
width, V vocabulary, M places where something is scored, N scored tokens.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.torch import chunked_loss
from pipeline.model.transformer import AttentionLayout, Transformer
from pipeline.runtime import devices, xla_chips

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


def lay_out_question(context: Ints, candidates: Sequence[Ints], shared_length: int) -> QuestionRow:
    """Lays out one question; its first tokens, not all of the context, are left out as shared."""
    firsts = np.array([candidate[0] for candidate in candidates], np.int64)
    return QuestionRow(
        token_L=np.concatenate(
            [context[shared_length:], *(candidate[:-1] for candidate in candidates)]
        ),
        target_N=np.concatenate([firsts, *(candidate[1:] for candidate in candidates)]),
        candidates=len(candidates),
        **_row_layout_of_lengths(len(context), tuple(map(len, candidates)), shared_length),
    )


@functools.lru_cache(maxsize=64)
def _row_layout_of_lengths(
    context: int, candidates: tuple[int, ...], shared_length: int
) -> dict[str, Any]:
    """What a row has of the lengths of a context and its candidates alone."""
    lengths = np.array(candidates, np.int64) - 1
    numbers = np.arange(len(lengths))
    number = np.repeat(numbers, lengths)
    place = np.arange(len(number)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return {
        "position_L": np.concatenate([np.arange(shared_length, context), context + place]),
        "block_L": np.concatenate([np.full(context - shared_length, CONTEXT), number + 1]),
        "places": 1 + len(number),
        "place_N": np.concatenate([np.zeros_like(numbers), 1 + np.arange(len(number))]),
        "candidate_N": np.concatenate([numbers, number]),
    }


def pad_rows(rows: Sequence[QuestionRow], size: tuple[int, int]) -> RowBatch:
    """One batch of rows, in their order, filled up to a size in rows and tokens."""
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
class PrefixGroup:
    """Contexts that share their first tokens, so that a model reads these only once."""

    members: list[int]
    """Indices of the contexts, in rising order."""
    prefix_P: Ints
    """What all of them begin with; at least one token of each is left over."""


def group_by_shared_prefix(contexts: Sequence[Ints]) -> list[PrefixGroup]:
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
    return [
        PrefixGroup(m, _shared_prefix_leaving_a_token([contexts[i] for i in m]))
        for m in (*large, others)
        if m
    ]


def _shared_prefix_leaving_a_token(contexts: Sequence[Ints]) -> Ints:
    """The longest beginning of all contexts that leaves a token of each."""
    length = min(map(len, contexts)) - 1
    first = contexts[0][:length]
    same = np.logical_and.reduce([context[:length] == first for context in contexts])
    return first[: length if same.all() else int(same.argmin())]


LOGITS_AT_ONCE = 2**23
"""Logits are made for so many (token, piece) pairs at a time: 32 MiB in float32, which a CPU's
caches bear; half or twice as many take a tenth longer there."""

LOGITS_AT_ONCE_COMPILED = 2**27
"""The same where the device compiles; each row of them is one scored token."""
SHORTEST = 64
"""Tokens of the shortest rows there; longer ones have the next power of two."""


@dataclass(frozen=True, eq=False)
class Question:
    """One context and the continuations that are compared behind it, as token ids."""

    context_C: Sequence[int] | Ints
    """Document start and demonstrations included; at least one token."""
    candidates: Sequence[Sequence[int] | Ints]
    """At least one token each."""


def score_questions(
    model: Transformer, questions: Sequence[Question], *, batch_tokens: int
) -> list[Floats]:
    """Nats of log p(candidate | context) of each question's candidates, summed over their tokens.

    Values do not depend on what else is asked, nor on the budget, except for the last bits of
    the model's numbers.

    Args:
        model: On its device already.
        questions: In any order; those that begin alike are read together.
        batch_tokens: Tokens per forward pass, those that rows share counted in every row, and
            padding too. A longer question goes alone.

    Raises:
        InputError: a likelihood is no finite number; the message begins with the question's index.
    """
    if model.takes_layouts:
        in_order = _score_one_row_per_question(model, questions, batch_tokens)
    else:
        alone = [
            Question(q.context_C, [candidate]) for q in questions for candidate in q.candidates
        ]
        sums = iter(_score_one_row_per_question(model, alone, batch_tokens))
        in_order = [np.array([next(sums)[0] for _ in q.candidates]) for q in questions]
    for index, own in enumerate(in_order):
        if not np.isfinite(own).all():
            raise InputError(
                f"question {index}: the log-likelihoods {own.tolist()} are not all finite "
                "numbers, the model has diverged: lower training.peak_learning_rate and train again"
            )
    return in_order


def _score_one_row_per_question(
    model: Transformer, questions: Sequence[Question], batch_tokens: int
) -> list[Floats]:
    """Each question's sums, from a row for each."""
    contexts = [np.asarray(question.context_C, np.int64) for question in questions]
    candidates = [[np.asarray(c, np.int64) for c in q.candidates] for q in questions]
    assert all(map(len, contexts)), "nothing predicts the first token of a candidate"
    assert all(len(c) for several in candidates for c in several), "a candidate has no token"
    result: dict[int, Floats] = {}
    device, compiles = model.device, devices.is_xla(model.device)
    groups = group_by_shared_prefix(contexts)
    if contexts and (compiles or not model.takes_layouts):
        # Where it compiles, what questions share would be another shape for each group of them.
        groups = [PrefixGroup([*range(len(contexts))], contexts[0][:0])]
    with devices.without_gradients(device):
        for group in groups:
            prefix_P = torch.from_numpy(group.prefix_P).to(device)
            P = len(prefix_P)
            shared = model.prefix_keys_values(prefix_P) if P else None
            rows = [lay_out_question(contexts[i], candidates[i], P) for i in group.members]
            lengths = [P + len(row.token_L) for row in rows]
            if compiles:
                lengths = [max(SHORTEST, 1 << (length - 1).bit_length()) for length in lengths]
            for numbers in _batches_longest_first(lengths, batch_tokens):
                members, longest = [rows[i] for i in numbers], lengths[numbers[0]]
                count = len(members)
                if compiles:
                    count = xla_chips.round_up_rows(max(1, batch_tokens // longest), device)
                batch = pad_rows(members, (count, longest - P))
                hidden_BxLxD = _hidden_states(model, batch, shared, P)
                score = _log_probabilities_on_xla if compiles else _log_probabilities
                log_p_N = score(model.output_weight, hidden_BxLxD, batch).double().cpu()
                sums = np.bincount(batch.candidate_N, log_p_N.numpy(), batch.candidates)
                ends = np.cumsum([row.candidates for row in members])[:-1]
                for i, own in zip(numbers, np.split(sums.astype(np.float64), ends), strict=True):
                    result[group.members[i]] = own
    return [result[index] for index in range(len(questions))]


def _batches_longest_first(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices of rows, longest first, so many that padded they keep within the budget."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _hidden_states(model: Transformer, batch: RowBatch, shared: Any, P: int) -> Tensor:
    """The stream at each token of a batch, BxLxD."""
    token_BxL, position_BxL, block_BxL = (
        xla_chips.shard_tensor(torch.from_numpy(part).to(model.device))
        for part in (batch.token_BxL, batch.position_BxL, batch.block_BxL)
    )
    if not model.takes_layouts:
        return model.hidden_states(token_BxL)
    sight = AttentionLayout(position_BxL, _attention_mask(position_BxL, block_BxL, P), shared)
    return model.hidden_states(token_BxL, sight)


def _attention_mask(position_BxL: Tensor, block_BxL: Tensor, P: int) -> Tensor:
    """B x L x S: all shared tokens, and earlier ones of the context or the same candidate."""
    earlier = position_BxL[:, None, :] <= position_BxL[:, :, None]
    same = block_BxL[:, None, :] == block_BxL[:, :, None]
    own_BxLxL = earlier & (same | (block_BxL == CONTEXT)[:, None, :])
    return F.pad(own_BxLxL, (P, 0), value=True)


def _log_probabilities(weight_VxD: Tensor, hidden_BxLxD: Tensor, batch: RowBatch) -> Tensor:
    """Logarithmic probability of each scored token, N in float32."""
    hidden_MxD = hidden_BxLxD[torch.from_numpy(batch.scored_BxL).to(hidden_BxLxD.device)]
    at_once = max(1, LOGITS_AT_ONCE // len(weight_VxD))
    place = torch.from_numpy(batch.place_N).to(hidden_MxD.device)
    target = torch.from_numpy(batch.target_N).to(hidden_MxD.device)
    parts = []
    for start in range(0, len(hidden_MxD), at_once):
        logits = chunked_loss.a_times_b_transposed(
            hidden_MxD[start : start + at_once], weight_VxD
        ).float()
        low, high = np.searchsorted(batch.place_N, [start, start + at_once])
        here = place[low:high] - start
        parts.append(logits[here, target[low:high]] - logits.logsumexp(dim=1)[here])
    return torch.cat(parts)


def _log_probabilities_on_xla(weight_VxD: Tensor, hidden_BxLxD: Tensor, batch: RowBatch) -> Tensor:
    """The same from programs that the size of the batch alone tells apart."""
    device = hidden_BxLxD.device
    devices.mark_step(device)
    place_N = torch.from_numpy(np.flatnonzero(batch.scored_BxL)[batch.place_N])
    N, at_once = len(place_N), max(1, LOGITS_AT_ONCE_COMPILED // len(weight_VxD))
    padding = (0, -N % at_once)
    places = F.pad(place_N, padding).split(at_once)
    targets = F.pad(torch.from_numpy(batch.target_N), padding).split(at_once)
    parts = []
    for place, target in zip(places, targets, strict=True):
        here, wanted = place.to(device), target.to(device)
        logits = hidden_BxLxD.flatten(0, 1)[here] @ weight_VxD.T
        log_p = logits.gather(1, wanted[:, None])[:, 0] - logits.logsumexp(dim=1)
        parts.append(devices.fetch_to_host(log_p))
    return torch.cat(parts)[:N]
