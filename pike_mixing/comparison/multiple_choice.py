"""Answers to multiple-choice items: the candidates' scores, the points they earn, the accuracy.

Shapes: I items, C candidates of all items one after another.
"""

from collections.abc import Callable, Sequence

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.comparison.clustered import clustered_mean

SUM, ALONE = "sum_log_likelihood", "unconditional"
SCORES: dict[str, tuple[tuple[str, ...], Callable[..., Floats]]] = {
    "per_token": ((SUM, "tokens"), np.divide),
    "sum": ((SUM,), lambda sum_C: sum_C),
    "per_character": ((SUM, "characters"), np.divide),
    "per_byte": ((SUM, "bytes"), np.divide),
    # OLMES counts the space in front, lm-evaluation-harness does not: picks can differ.
    "per_character_olmes": ((SUM, "characters"), lambda sum_C, length_C: sum_C / (length_C + 1)),
    "unconditional": ((SUM, ALONE), np.subtract),
    "raw": ((SUM,), lambda sum_C: sum_C),
    "pmi": ((SUM, ALONE), np.subtract),
    "answer_only": ((ALONE,), lambda alone_C: alone_C),
}
"""By metric: the lists of the table `choices` that it needs, and the candidates' score made of
them. The last three are those of the items made from the corpora."""


def points(score_C: Floats, candidates_I: Ints, gold_I: Ints) -> Floats:
    """The point of each item, shared between the candidates that score highest.

    A rule that gives all candidates one score gets exactly chance, and none gains from answering
    the first.

    Args:
        score_C: The candidates' scores.
        candidates_I: How many candidates each item has.
        gold_I: The index of the true one.
    """
    start_I = np.cumsum(candidates_I) - candidates_I
    best_C = np.repeat(np.maximum.reduceat(score_C, start_I), candidates_I) == score_C
    return best_C[start_I + gold_I] / np.add.reduceat(best_C.astype(np.int64), start_I)


def accuracy(point_I: Floats, clusters: Sequence[str]) -> tuple[float, float | None]:
    """Accuracy in percent and its standard error, clustered by article, video or document."""
    _, cluster_I = np.unique(clusters, return_inverse=True)
    mean, stderr = clustered_mean(np.bincount(cluster_I, weights=point_I), np.bincount(cluster_I))
    return 100 * mean, None if stderr is None else 100 * stderr
