"""Log-likelihoods of candidate continuations: each token once through the model, where it counts.

A question is one row: what is left of its context behind the tokens that many questions share,
then its candidates side by side. Each candidate sees the context and itself, and its positions go
on where the context ends, as if it stood there alone. Shared tokens are read once and kept as
keys and values. Logits are made only where a candidate's token is expected, a limited number at a
time, and summed up in float32 whatever the model's own numbers are; sums are in float64.

Shapes: B questions of a batch, L tokens of the longest row, P shared tokens, S = P + L, D model
width, V vocabulary, M places where something is scored, N scored tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pike_mixing.errors import InputError
from pipeline.evaluation import shared_contexts
from pipeline.evaluation.batch_layout import CONTEXT, QuestionRow, row, side_by_side
from pipeline.model.transformer import AttentionLayout, Transformer
from pipeline.statistics.clustered import Floats

LOGITS_AT_ONCE = 2**23
"""Logits are made for so many (token, piece) pairs at a time: 32 MiB in float32, which a CPU's
caches bear; half or twice as many take a tenth longer there."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Question:
    """One context and the continuations that are compared behind it, as token ids."""

    context_C: Sequence[int] | Ints
    """Document start and demonstrations included; at least one token."""
    candidates: Sequence[Sequence[int] | Ints]
    """At least one token each."""


def score(
    model: Transformer,
    questions: Sequence[Question],
    *,
    batch_tokens: int,
    device: torch.device,
) -> list[Floats]:
    """Nats of log p(candidate | context) of each question's candidates, summed over their tokens.

    Values do not depend on what else is asked, nor on the budget, except for the last bits of
    the model's numbers.

    Args:
        model: On the device already.
        questions: In any order; those that begin alike are read together.
        batch_tokens: Tokens per forward pass, those that rows share counted in every row, and
            padding too. A longer question goes alone.
        device: Where the model is.

    Raises:
        InputError: a likelihood is no finite number; the message begins with the question's index.
    """
    contexts = [np.asarray(question.context_C, np.int64) for question in questions]
    candidates = [[np.asarray(c, np.int64) for c in q.candidates] for q in questions]
    assert all(map(len, contexts)), "nothing predicts the first token of a candidate"
    assert all(len(c) for several in candidates for c in several), "a candidate has no token"
    result: dict[int, Floats] = {}
    with torch.inference_mode():
        for group in shared_contexts.groups(contexts):
            prefix_P = torch.from_numpy(group.prefix_P).to(device)
            P = len(prefix_P)
            shared = model.prefill_cache(prefix_P) if P else None
            rows = [row(contexts[i], candidates[i], P) for i in group.members]
            for batch in _batches([P + len(r.token_L) for r in rows], batch_tokens):
                sums = _scored(model, [rows[i] for i in batch], shared, P, device)
                for i, own in zip(batch, sums, strict=True):
                    result[group.members[i]] = own
    in_order = [result[index] for index in range(len(questions))]
    for index, own in enumerate(in_order):
        if not np.isfinite(own).all():
            raise InputError(
                f"question {index}: the log-likelihoods {own.tolist()} are not all finite "
                "numbers, the model has diverged: lower training.peak_learning_rate and train again"
            )
    return in_order


def _batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices of rows, longest first, so many that padded they keep within the budget."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _scored(
    model: Transformer, rows: Sequence[QuestionRow], shared: Any, P: int, device: torch.device
) -> list[Floats]:
    """Sums of each row's candidates."""
    batch = side_by_side(rows)
    position_BxL = torch.from_numpy(batch.position_BxL).to(device)
    block_BxL = torch.from_numpy(batch.block_BxL).to(device)
    sight = AttentionLayout(position_BxL, _seen(position_BxL, block_BxL, P), shared)
    hidden_BxLxD = model.hidden(torch.from_numpy(batch.token_BxL).to(device), sight)
    hidden_MxD = hidden_BxLxD[torch.from_numpy(batch.scored_BxL).to(device)]
    log_p_N = _log_probabilities(model.embedding.weight, hidden_MxD, batch.place_N, batch.target_N)
    sums = np.bincount(
        batch.candidate_N, log_p_N.double().cpu().numpy(), minlength=batch.candidates
    )
    return np.split(sums, np.cumsum([r.candidates for r in rows])[:-1])


def _seen(position_BxL: Tensor, block_BxL: Tensor, P: int) -> Tensor:
    """B x L x S: all shared tokens, and earlier ones of the context or the same candidate."""
    earlier = position_BxL[:, None, :] <= position_BxL[:, :, None]
    same = block_BxL[:, None, :] == block_BxL[:, :, None]
    own_BxLxL = earlier & (same | (block_BxL == CONTEXT)[:, None, :])
    return torch.nn.functional.pad(own_BxLxL, (P, 0), value=True)


def _log_probabilities(
    weight_VxD: Tensor, hidden_MxD: Tensor, place_N: Ints, target_N: Ints
) -> Tensor:
    """Logarithmic probability of each target at its place, N in float32; places in rising order.

    Logits are made for a limited number of places at a time: M x V would not fit for large
    vocabularies.
    """
    at_once = max(1, LOGITS_AT_ONCE // len(weight_VxD))
    place = torch.from_numpy(place_N).to(hidden_MxD.device)
    target = torch.from_numpy(target_N).to(hidden_MxD.device)
    parts = []
    for start in range(0, len(hidden_MxD), at_once):
        logits = (hidden_MxD[start : start + at_once] @ weight_VxD.T).float()
        low, high = np.searchsorted(place_N, [start, start + at_once])
        here = place[low:high] - start
        parts.append(logits[here, target[low:high]] - logits.logsumexp(dim=1)[here])
    return torch.cat(parts)
