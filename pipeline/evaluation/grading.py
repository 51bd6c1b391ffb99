"""From log-likelihoods to picks and accuracies under every normalisation.

Shapes: I items, N candidates of the item that has most; shorter items end in -inf.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pike_mixing.errors import InputError
from pipeline.evaluation.prompt_encoding import Item
from pipeline.statistics.clustered import Floats, clustered_mean

HEADLINE = "per_token"
"""The paper's "average log-likelihood"."""

_SCORES: dict[str, Callable[[Item, Floats, Floats], Floats]] = {
    "per_token": lambda item, ll, _: ll / [len(tokens) for tokens in item.candidates],
    "sum": lambda item, ll, _: ll,
    "per_character": lambda item, ll, _: ll / item.characters,
    "per_byte": lambda item, ll, _: ll / item.bytes,
    # OLMES counts the space in front, lm-evaluation-harness does not: picks can differ.
    "per_character_olmes": lambda item, ll, _: ll / (np.array(item.characters) + 1),
    "unconditional": lambda item, ll, alone: ll - alone,
}

METRICS = tuple(_SCORES)
"""The score that ranks candidates: log-likelihood divided by a length, or less that without the
question."""


@dataclass(frozen=True)
class Grades:
    """One model's answers to all items."""

    pick_I: npt.NDArray[np.int64]
    """Candidate of the highest headline score, the first of equals."""
    accuracy: dict[str, tuple[float, float | None]]
    """For each of METRICS the accuracy and its standard error by cluster, in percent."""


def grade(items: Sequence[Item], sums: Sequence[Floats], alone: Sequence[Floats]) -> Grades:
    """Picks and accuracies.

    Args:
        items: What was asked.
        sums: Of each item the log-likelihood in nats of each candidate behind its context.
        alone: The same without the question.

    Raises:
        InputError: a log-likelihood is no finite number.
    """
    for item, told, bare in zip(items, sums, alone, strict=True):
        assert len(told) == len(bare) == len(item.candidates)
        if not (np.isfinite(told).all() and np.isfinite(bare).all()):
            raise InputError(
                f"item {item.id}: a log-likelihood is not a finite number, the model has diverged: "
                "train it again with a lower training.peak_learning_rate"
            )
    scores = {
        name: _padded([score(*asked) for asked in zip(items, sums, alone, strict=True)])
        for name, score in _SCORES.items()
    }
    return Grades(
        pick_I=scores[HEADLINE].argmax(axis=1),
        accuracy={name: accuracy(score_IxN, items) for name, score_IxN in scores.items()},
    )


def accuracy(score_IxN: Floats, items: Sequence[Item]) -> tuple[float, float | None]:
    """Accuracy in percent and its standard error, clustered by article, video, goal or concept.

    Candidates that share the highest score share the point: a model that knows nothing gets
    exactly chance, and none gains from answering the first.
    """
    gold_I = np.array([item.gold for item in items])
    best_IxN = score_IxN == score_IxN.max(axis=1, keepdims=True)
    point_I = best_IxN[np.arange(len(items)), gold_I] / best_IxN.sum(axis=1)
    _, cluster_I = np.unique([item.cluster for item in items], return_inverse=True)
    mean, stderr = clustered_mean(np.bincount(cluster_I, weights=point_I), np.bincount(cluster_I))
    return 100 * mean, None if stderr is None else 100 * stderr


def _padded(scores: Sequence[Floats]) -> Floats:
    padded_IxN = np.full((len(scores), max(map(len, scores))), -np.inf)
    for row, values in enumerate(scores):
        padded_IxN[row, : len(values)] = values
    return padded_IxN
