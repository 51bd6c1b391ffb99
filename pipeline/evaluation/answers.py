"""A model's answers to multiple-choice items, what they are worth, and their rows in the tables.

Downstream tasks and the items made from corpora are asked and graded alike: every candidate behind
its context and behind nothing, ranked by scores made of both. They differ in which scores.

Shapes: I items, C candidates of all items one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.comparison.multiple_choice import ALONE, SCORES, SUM, accuracy_percent, item_points
from pike_mixing.errors import InputError
from pipeline.evaluation.log_likelihoods import Question, score_questions
from pipeline.evaluation.prompt_encoding import EncodedItem
from pipeline.model.transformer import Transformer

DOWNSTREAM = (
    *("per_token", "sum", "per_character", "per_byte"),
    *("per_character_olmes", "unconditional"),
)
"""Scores of downstream tasks; the first, the paper's "average log-likelihood", makes the picks."""
CONTINUATION = ("pmi", "raw", "answer_only", "overlap")
"""Scores of items made from corpora: the task's own, the likelihood in context, without it, and
tokens shared with it. Raw likelihood prefers the most fluent candidate whatever the context."""


@dataclass(frozen=True, eq=False)
class QuestionSet:
    """One task, asked in one way of any number of models."""

    name: str
    """Of the task and the way, in messages and manifests."""
    task: str
    shots: int
    formulation: str
    metrics: tuple[str, ...]
    """The scores that rank candidates; the first one makes the picks."""
    items: Sequence[EncodedItem]
    manifest_facts: dict[str, Any]
    """What a manifest says of it."""

    @property
    def task_shots_and_formulation(self) -> tuple[str, int, str]:
        """The columns that say what was asked."""
        return self.task, self.shots, self.formulation


@dataclass(frozen=True)
class Answers:
    """One model's log-likelihoods in nats, candidate by candidate, and what they are worth."""

    sums: list[Floats]
    """Of each item: log p(candidate | context)."""
    alone: list[Floats]
    """Of each item: log p(candidate) without the question."""
    pick_I: Ints
    """Candidate of the highest score, the first of equals."""
    accuracy: dict[str, tuple[float, float | None]]
    """For each metric the accuracy and its standard error by cluster, in percent."""


def ask_model(model: Transformer, questions: QuestionSet, *, batch_tokens: int) -> Answers:
    """Asks the model, on its device already, all items, and grades it."""
    scored = [Question(item.context_C, item.candidates) for item in questions.items]
    scored += [Question(item.unconditional_C, item.candidates) for item in questions.items]
    try:
        sums = score_questions(model, scored, batch_tokens=batch_tokens)
    except InputError as error:
        raise InputError(f"{questions.name}: {error}") from None
    return grade_answers(questions, sums[: len(questions.items)], sums[len(questions.items) :])


def grade_answers(questions: QuestionSet, sums: list[Floats], alone: list[Floats]) -> Answers:
    """Picks and accuracies, from nats of each item's candidates behind its context and alone."""
    items = questions.items
    columns = {
        SUM: np.concatenate(sums),
        ALONE: np.concatenate(alone),
        "tokens": np.array([len(tokens) for item in items for tokens in item.candidates]),
        "characters": np.array([length for item in items for length in item.characters]),
        "bytes": np.array([length for item in items for length in item.bytes]),
    }
    scores = {}
    for name in questions.metrics:
        if name == "overlap":
            # How many of the candidate's tokens occur in the context: a rule without model.
            pairs = ((tokens, set(item.context_C)) for item in items for tokens in item.candidates)
            shared = [sum(token in seen for token in tokens) for tokens, seen in pairs]
            scores[name] = np.array(shared, np.float64)
        else:
            needed, function = SCORES[name]
            scores[name] = function(*(columns[n] for n in needed))
    candidates_I = np.array([len(result) for result in sums])
    gold_I = np.array([item.gold for item in items])
    clusters = [item.cluster for item in items]
    by_item = np.split(scores[questions.metrics[0]], np.cumsum(candidates_I)[:-1])
    return Answers(
        sums,
        alone,
        pick_I=np.array([score_N.argmax() for score_N in by_item]),
        accuracy={
            n: accuracy_percent(item_points(s, candidates_I, gold_I), clusters)
            for n, s in scores.items()
        },
    )


def accuracy_rows_by_metric(questions: QuestionSet, result: Answers) -> list[tuple[Any, ...]]:
    """Task, shots, formulation, metric, value and error in percent, examples."""
    examples = len(questions.items)
    return [
        (*questions.task_shots_and_formulation, name, *value, examples)
        for name, value in result.accuracy.items()
    ]


def one_row_per_item(questions: QuestionSet, result: Answers) -> list[tuple[Any, ...]]:
    """Of every item all that a score needs, so that each is a query.

    Task, shots, formulation, item, document (the cluster), gold, pick, then lists over candidates:
    sums of log-likelihood in nats, the same without the question, tokens, characters and bytes
    (these two without the space in front; empty of items that are made of tokens); then the
    demonstrations that stood in the context.
    """
    picks = result.pick_I.tolist()
    return [
        (
            *questions.task_shots_and_formulation,
            item.id,
            item.cluster,
            item.gold,
            pick,
            sums.tolist(),
            alone.tolist(),
            [len(tokens) for tokens in item.candidates],
            *(list(item.characters), list(item.bytes), item.shots),
        )
        for item, pick, sums, alone in zip(
            questions.items, picks, result.sums, result.alone, strict=True
        )
    ]
