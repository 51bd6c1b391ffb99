"""A model's answers to a downstream task, as rows of the tables `accuracies` and `choices`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pike_mixing.errors import InputError
from pipeline.evaluation.grading import Grades, grade
from pipeline.evaluation.prompt_encoding import Item
from pipeline.evaluation.scoring import Question, score
from pipeline.model.transformer import Transformer
from pipeline.statistics.clustered import Floats
from pipeline.tasks.benchmark import Benchmark


@dataclass(frozen=True)
class TaskScores:
    """One model's log-likelihoods in nats, candidate by candidate, and what they are worth."""

    sums: list[Floats]
    """Of each item: log p(candidate | demonstrations, question)."""
    unconditional: list[Floats]
    """Of each item: log p(candidate) without the question."""
    grades: Grades


def questions(items: Sequence[Item]) -> list[Question]:
    """What the model is asked: all items, then all candidates without their questions."""
    return [Question(item.context_C, item.candidates) for item in items] + [
        Question(item.unconditional_C, item.candidates) for item in items
    ]


def answer(
    model: Transformer,
    benchmark: Benchmark,
    items: Sequence[Item],
    *,
    batch_tokens: int,
    device: torch.device,
) -> TaskScores:
    """Asks the model all items and grades it.

    Args:
        model: On the device already.
        benchmark: What is asked.
        items: The same in tokens.
        batch_tokens: Tokens per forward pass.
        device: Where the model is.

    Raises:
        InputError: a likelihood is no finite number, or a token is none of the model's.
    """
    try:
        found = score(model, questions(items), batch_tokens=batch_tokens, device=device)
    except InputError as error:
        raise InputError(f"{benchmark.asked.name}: {error}") from None
    sums = [np.asarray(values, np.float64) for values in found[: len(items)]]
    alone = [np.asarray(values, np.float64) for values in found[len(items) :]]
    return TaskScores(sums, alone, grade(items, sums, alone))


def accuracies(benchmark: Benchmark, answers: TaskScores) -> list[tuple[Any, ...]]:
    """Task, shots, formulation, metric, value and error in percent, examples."""
    asked = benchmark.asked
    return [
        (asked.task, asked.shots, asked.formulation, metric, value, stderr, len(benchmark.rows))
        for metric, (value, stderr) in answers.grades.accuracy.items()
    ]


def choices(
    benchmark: Benchmark, items: Sequence[Item], answers: TaskScores
) -> list[tuple[Any, ...]]:
    """Of every item all that a normalisation needs, so that each is a query.

    Task, shots, formulation, item, document (the cluster), gold, pick, then lists over candidates:
    sums of log-likelihood in nats, the same without the question, tokens, characters and bytes
    (these two without the space in front); then the demonstrations that stood in the context.
    """
    asked = benchmark.asked
    return [
        (
            asked.task,
            asked.shots,
            asked.formulation,
            item.id,
            item.cluster,
            item.gold,
            pick,
            sums.tolist(),
            alone.tolist(),
            [len(tokens) for tokens in item.candidates],
            list(item.characters),
            list(item.bytes),
            item.shots,
        )
        for item, pick, sums, alone in zip(
            items,
            answers.grades.pick_I.tolist(),
            answers.sums,
            answers.unconditional,
            strict=True,
        )
    ]
