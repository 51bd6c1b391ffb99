"""Two ways to read questions with a model of somebody else's: side by side, and row by row.

Candidates side by side behind one context, as `scoring` reads them, need a model that takes any
mask and any positions. Which models do is not told by their classes: some slide a window over
tokens as they lie in the row, some bend their positions with the longest row. So both ways are
tried on some of the very questions that are asked, the longest among them, and compared; where
they differ, each candidate becomes a row of its own, whose tokens stand as the model expects them.

Models are those of Hugging Face's transformers, by what they can do.

Shapes: B rows, L tokens of a row, K of them scored, P shared tokens, S = P + L, D model width,
V vocabulary, W tokens of a candidate.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from pike_mixing.errors import InputError
from pipeline.evaluation import scoring
from pipeline.evaluation.scoring import Question
from pipeline.model.transformer import AttentionLayout
from pipeline.statistics.clustered import Floats

Reading = Literal["blocks", "rows"]
"""Candidates side by side behind one context, or each in a row of its own."""

EXACT_NATS, ROUGH_NATS = 1e-3, 0.05
"""How far both ways may be apart: a candidate in float32, each of its tokens in 16 bits."""

LOGITS_AT_ONCE = 2**26
"""Rows of their own get logits for so many (token, piece) pairs at a time: 256 MiB in float32."""

REFUSALS = (
    TypeError,
    ValueError,
    RuntimeError,
    IndexError,
    KeyError,
    AttributeError,
    NotImplementedError,
)
"""What models raise that cannot take a mask, positions or kept keys and values."""


class Reader:
    """The model as `scoring` reads one: any positions, any mask, a beginning that is kept."""

    def __init__(self, model: Any) -> None:
        self.model, self.body = model, model.base_model
        self.embedding: nn.Linear = model.get_output_embeddings()
        self.vocabulary: int = self.embedding.weight.shape[0]

    def hidden(self, tokens_BxL: Tensor, sight: AttentionLayout) -> Tensor:
        """The stream after the last norm, B x L x D."""
        unseen = torch.finfo(self.model.dtype).min
        mask_BxLxS = torch.zeros(
            sight.seen_BxLxS.shape, dtype=self.model.dtype, device=tokens_BxL.device
        ).masked_fill(~sight.seen_BxLxS, unseen)
        kept: Any = copy.deepcopy(sight.shared)
        if kept is not None:
            kept.batch_repeat_interleave(len(tokens_BxL))
        told = self.body(
            input_ids=tokens_BxL,
            attention_mask=mask_BxLxS[:, None],
            position_ids=sight.position_BxL,
            past_key_values=kept,
            use_cache=kept is not None,
        )
        stream: Tensor = told.last_hidden_state
        return stream

    def prefill_cache(self, tokens_P: Tensor) -> Any:
        """Keys and values of a text's beginning."""
        return self.body(input_ids=tokens_P[None], use_cache=True).past_key_values


@dataclass(frozen=True)
class Verdict:
    """How a model's questions are read, and why."""

    reading: Reading
    reason: str
    difference: float | None
    """Largest difference between both ways on the questions that were tried, in nats."""

    def facts(self) -> dict[str, Any]:
        """What a manifest says of it."""
        return {
            "reading": self.reading,
            "reading_reason": self.reason,
            "reading_difference_nats": self.difference,
        }


def verdict(
    model: Any, tries: Sequence[Sequence[Question]], *, batch_tokens: int, device: torch.device
) -> Verdict:
    """Whether side by side gives what rows give.

    Args:
        model: On the device already, ready for evaluation.
        tries: Questions of each try are read together.
        batch_tokens: Tokens per forward pass.
        device: Where the model is.

    Raises:
        InputError: rows themselves give no finite numbers.
    """
    if reason := _cannot(model):
        return Verdict("rows", reason, None)
    difference = 0.0
    for questions in tries:
        expected = rows(model, questions, batch_tokens=batch_tokens, device=device)
        try:
            found = blocks(model, questions, batch_tokens=batch_tokens, device=device)
        except (*REFUSALS, InputError) as error:
            return Verdict("rows", f"side by side it fails: {first_line(error)}", None)
        for question, one, other in zip(questions, found, expected, strict=True):
            apart = np.abs(one - other)
            difference = max(difference, float(apart.max()))
            if (apart > _allowed(model, question, other)).any():
                reason = "side by side gives other likelihoods than rows"
                return Verdict("rows", reason, difference)
    return Verdict("blocks", "side by side gives the likelihoods that rows give", difference)


def tried(questions: Sequence[Question]) -> list[Question]:
    """Of many questions a few to try both ways on: the longest, the shortest, one between."""

    def size(question: Question) -> int:
        return len(question.context_C) + sum(map(len, question.candidates))

    ordered = sorted(questions, key=size)
    places = {0, len(ordered) // 2, len(ordered) - 1}
    return [ordered[place] for place in sorted(places)]


def blocks(
    model: Any, questions: Sequence[Question], *, batch_tokens: int, device: torch.device
) -> list[Floats]:
    """What `scoring.score` gives."""
    return scoring.score(Reader(model), questions, batch_tokens=batch_tokens, device=device)


def rows(
    model: Any, questions: Sequence[Question], *, batch_tokens: int, device: torch.device
) -> list[Floats]:
    """The same, every candidate in a row of its own; rows of a batch are of one length.

    The model is given tokens alone: no mask, no positions, no padding.

    Raises:
        InputError: as `scoring.score` does.
    """
    vocabulary = _vocabulary(model)
    contexts, candidates = scoring.checked(questions, vocabulary, None)
    members: dict[int, list[tuple[int, int]]] = {}
    for number, context in enumerate(contexts):
        for place, candidate in enumerate(candidates[number]):
            read = len(context) + len(candidate) - 1
            members.setdefault(read, []).append((number, place))
    found = [np.empty(len(behind)) for behind in candidates]
    for read, alike in sorted(members.items(), reverse=True):
        longest = max(len(candidates[n][place]) for n, place in alike)
        at_once = max(1, min(batch_tokens // read, LOGITS_AT_ONCE // (longest * vocabulary)))
        for start in range(0, len(alike), at_once):
            some = alike[start : start + at_once]
            pairs = [(contexts[n], candidates[n][place]) for n, place in some]
            for (n, place), value in zip(some, _read(model, pairs, device), strict=True):
                found[n][place] = value
    for number, sums in enumerate(found):
        scoring.refuse_nan(number, sums)
    return found


SCORERS: dict[Reading, Callable[..., list[Floats]]] = {"blocks": blocks, "rows": rows}


def first_line(error: Exception) -> str:
    """A message's first line with its kind."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.200}"


def _read(model: Any, pairs: Sequence[scoring.Request], device: torch.device) -> list[float]:
    """Sums of continuations behind their prefixes, all of which are rows of one length."""
    read = np.stack([np.concatenate([context, candidate[:-1]]) for context, candidate in pairs])
    longest = max(len(candidate) for _, candidate in pairs)
    given: dict[str, Any] = {"input_ids": torch.from_numpy(read).to(device), "use_cache": False}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        given["logits_to_keep"] = longest
    with torch.inference_mode():
        logits_BxKxV = model(**given).logits[:, -longest:].float()
        values = []
        for logits_KxV, (_, candidate) in zip(logits_BxKxV, pairs, strict=True):
            target_W = torch.as_tensor(candidate, device=device)
            log_p_WxV = logits_KxV[-len(target_W) :].log_softmax(dim=-1)
            values.append(log_p_WxV.gather(1, target_W[:, None]).double().sum().item())
    return values


def _vocabulary(model: Any) -> int:
    vocabulary: int = model.get_input_embeddings().weight.shape[0]
    return vocabulary


def _cannot(model: Any) -> str | None:
    """Why a model cannot be read side by side, as far as that is told without trying."""
    known = inspect.signature(model.base_model.forward).parameters
    missing = {"attention_mask", "position_ids", "past_key_values"} - known.keys()
    if missing:
        return f"{type(model).__name__} takes no {', '.join(sorted(missing))}"
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear) or head.bias is not None:
        return f"the head of {type(model).__name__} is no plain matrix"
    return None


def _allowed(model: Any, question: Question, sums: Floats) -> Floats:
    """How far the candidates of a question may be apart, in nats."""
    if model.dtype == torch.float32:
        return EXACT_NATS + 1e-5 * np.abs(sums)
    return ROUGH_NATS * np.array([len(candidate) for candidate in question.candidates])
