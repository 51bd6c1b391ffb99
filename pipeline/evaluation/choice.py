"""Scoring of multiple-choice items: by a model, and by rules that read less than the item.

Candidates are ranked by PMI(c, context) = log p(c | context) - log p(c | EOS): the raw
likelihood prefers the most fluent candidate whatever the context, and stays near chance.

Shapes: I items, N candidates each, V pieces.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pipeline.evaluation.items import DomainItems
from pipeline.evaluation.scoring import Question, score
from pipeline.model.transformer import Transformer
from pipeline.statistics.clustered import Floats
from pipeline.statistics.multiple_choice import accuracy, points

SHOTS = 0
FORMULATION = "pmi"
"""How the tables call it: no demonstrations, candidates scored behind their context."""

METRICS = ("pmi", "raw", "answer_only", "overlap")
"""The task's own score, likelihood in context, likelihood without it, tokens shared with it."""


@dataclass(frozen=True)
class ItemScores:
    """One model's scores on all items of a domain, in nats."""

    conditional_IxN: Floats
    """log p(candidate | context)."""
    unconditional_IxN: Floats
    """log p(candidate | EOS)."""
    pick_I: npt.NDArray[np.int64]
    """Candidate of the highest PMI, the first of equals."""
    accuracy: dict[str, tuple[float, float | None]]
    """For each of METRICS the accuracy and its standard error by document, in percent."""


def questions(items: DomainItems, eos: int) -> list[Question]:
    """What the model is asked: all candidates behind their contexts, then all behind EOS."""
    after_context = [
        Question(context, candidates)
        for context, candidates in zip(items.context_IxC, items.candidate_IxNxW, strict=True)
    ]
    return after_context + [Question([eos], candidates) for candidates in items.candidate_IxNxW]


def answer(
    model: Transformer, items: DomainItems, eos: int, *, batch_tokens: int, device: torch.device
) -> ItemScores:
    """Asks the model all items and grades it beside the baselines.

    Raises:
        InputError: a likelihood is no finite number.
    """
    found = score(model, questions(items, eos), batch_tokens=batch_tokens, device=device)
    conditional_IxN, unconditional_IxN = np.stack(found).reshape(
        2, *items.candidate_IxNxW.shape[:2]
    )
    pmi_IxN = conditional_IxN - unconditional_IxN
    scores = {
        "pmi": pmi_IxN,
        "raw": conditional_IxN,
        "answer_only": unconditional_IxN,
        "overlap": overlap(items),
    }
    return ItemScores(
        conditional_IxN=conditional_IxN,
        unconditional_IxN=unconditional_IxN,
        pick_I=pmi_IxN.argmax(axis=1),
        accuracy={name: graded(scores[name], items) for name in METRICS},
    )


def accuracies(task: str, items: DomainItems, answers: ItemScores) -> list[tuple[Any, ...]]:
    """Rows of the table `accuracies`, in percent."""
    return [
        (task, SHOTS, FORMULATION, metric, value, stderr, len(items.names))
        for metric, (value, stderr) in answers.accuracy.items()
    ]


def choices(task: str, items: DomainItems, answers: ItemScores) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `choices`; items are made of tokens, so characters and bytes are empty."""
    N, W = items.candidate_IxNxW.shape[1:]
    for name, document, gold, pick, inside, alone in zip(
        items.names,
        items.documents,
        items.gold_I.tolist(),
        answers.pick_I.tolist(),
        answers.conditional_IxN.tolist(),
        answers.unconditional_IxN.tolist(),
        strict=True,
    ):
        asked = (task, SHOTS, FORMULATION, name, document, gold, pick, inside, alone)
        yield (*asked, [W] * N, [], [], SHOTS)


def overlap(items: DomainItems) -> Floats:
    """How many tokens of each candidate also occur in its item's context: I x N."""
    shared = items.candidate_IxNxW[..., None] == items.context_IxC[:, None, None, :]
    return shared.any(axis=-1).sum(axis=-1).astype(np.float64)


def graded(score_IxN: Floats, items: DomainItems) -> tuple[float, float | None]:
    """Accuracy in percent and its standard error, clustered by document."""
    count, width = score_IxN.shape
    return accuracy(points(score_IxN.ravel(), np.full(count, width), items.gold_I), items.documents)
