"""Answers to multiple-choice items: the candidates' scores, the points they earn, the accuracy.

Shapes: I items, C candidates of all items one after another.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Floats, Ints


class MeanAndError(NamedTuple):
    """A mean and its standard error; None where nothing is known about that."""

    mean: float
    stderr: float | None


def clustered_mean(sum_G: npt.ArrayLike, count_G: npt.ArrayLike) -> MeanAndError:
    """The mean of observations that come in G clusters, and its standard error.

    Tokens of one document (or items cut from it) are alike, so that documents are what was
    sampled: counting tokens as independent gives an error that is several times too small. The
    mean m = sum_d s_d / sum_d n_d is a ratio of two sums over clusters d; to first order its
    error is that of the residuals (the linearised ratio estimator, as in Miller 2024,
    arXiv 2411.00640, eq. 4, with the small-sample factor G / (G - 1)):

        r_d = s_d - m n_d        SE = sqrt(G / (G - 1) * sum_d r_d^2) / sum_d n_d

    Clusters of no observations do not count. The error is None for fewer than two clusters, where
    nothing is known about it.
    """
    total_G, size_G = np.asarray(sum_G, np.float64), np.asarray(count_G, np.float64)
    total_G, size_G = total_G[size_G > 0], size_G[size_G > 0]
    clusters, size = len(size_G), size_G.sum()
    assert clusters >= 1
    mean = total_G.sum() / size
    if clusters < 2:
        return MeanAndError(float(mean), None)
    residual_G = total_G - mean * size_G
    stderr = math.sqrt(clusters / (clusters - 1) * (residual_G**2).sum()) / float(size)
    return MeanAndError(float(mean), stderr)


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


def item_points(score_C: Floats, candidates_I: Ints, gold_I: Ints) -> Floats:
    """The point of each item, shared between the candidates that score highest [I].

    A rule that gives all candidates one score gets exactly chance, and none gains from answering
    the first. Item i has `candidates_I[i]` candidates, of which the true one has the index
    `gold_I[i]`.
    """
    start_I = np.cumsum(candidates_I) - candidates_I
    best_C = np.repeat(np.maximum.reduceat(score_C, start_I), candidates_I) == score_C
    return best_C[start_I + gold_I] / np.add.reduceat(best_C.astype(np.int64), start_I)


def accuracy_percent(point_I: Floats, clusters: Sequence[str]) -> MeanAndError:
    """Accuracy in percent and its standard error, clustered by article, video or document."""
    _, cluster_I = np.unique(clusters, return_inverse=True)
    mean, stderr = clustered_mean(np.bincount(cluster_I, weights=point_I), np.bincount(cluster_I))
    return MeanAndError(100 * mean, None if stderr is None else 100 * stderr)
