"""Means over clustered data with honest standard errors."""

import math

import numpy as np
import numpy.typing as npt


def clustered_mean(sum_G: npt.ArrayLike, count_G: npt.ArrayLike) -> tuple[float, float | None]:
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
        return float(mean), None
    residual_G = total_G - mean * size_G
    return float(mean), math.sqrt(clusters / (clusters - 1) * (residual_G**2).sum()) / float(size)
