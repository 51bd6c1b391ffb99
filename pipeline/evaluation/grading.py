"""From log-likelihoods to picks and accuracies under every normalisation.

Shapes: I items, C candidates of all items one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pike_mixing.errors import InputError
from pipeline.evaluation.prompt_encoding import Item
from pipeline.statistics.clustered import Floats
from pipeline.statistics.multiple_choice import ALONE, SCORES, SUM, accuracy, points

HEADLINE = "per_token"
"""The paper's "average log-likelihood"."""
METRICS = ("per_token", "sum", "per_character", "per_byte", "per_character_olmes", "unconditional")
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
    columns = {
        SUM: np.concatenate(sums),
        ALONE: np.concatenate(alone),
        "tokens": np.array([len(tokens) for item in items for tokens in item.candidates]),
        "characters": np.array([length for item in items for length in item.characters]),
        "bytes": np.array([length for item in items for length in item.bytes]),
    }
    candidates_I, gold_I = np.array([len(told) for told in sums]), np.array([i.gold for i in items])
    clusters = [item.cluster for item in items]
    scores = {}
    for name in METRICS:
        needed, score = SCORES[name]
        scores[name] = score(*(columns[n] for n in needed))
    by_item = np.split(scores[HEADLINE], np.cumsum(candidates_I)[:-1])
    return Grades(
        pick_I=np.array([score_N.argmax() for score_N in by_item]),
        accuracy={
            n: accuracy(points(s, candidates_I, gold_I), clusters) for n, s in scores.items()
        },
    )
