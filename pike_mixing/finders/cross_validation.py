"""How well a fit predicts proxy runs that it has not seen.

Shapes: K domains, N proxy runs, M different mixtures.
"""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.finders.conformal_intervals import HeldOut
from pike_mixing.numerics.simplex import effective_domains

OUTSIDE = 1e-6
"""A mixture further than this from every average of the proxies' mixtures lies outside of them."""


def mixture_of_each_run(weights_NxK: Floats) -> Ints:
    """Number of each run's mixture [N], from 0 on in the order in which they first appear.

    Runs of one mixture, such as those of several seeds, have the same number.
    """
    _, first_M, place_N = np.unique(weights_NxK, axis=0, return_index=True, return_inverse=True)
    return first_M.argsort().argsort()[place_N.ravel()]  # NumPy 2.0 alone gives a column.


class Fold(NamedTuple):
    """Indices of runs, ascending."""

    rest: Ints
    """Of those that a fit sees."""
    part: Ints
    """Of those that are held out."""


def make_folds(weights_NxK: Floats, count: int, seed: int) -> list[Fold]:
    """Splits the proxies' mixtures into parts of nearly equal number, in an order of the seed's.

    One mixture per part (leave one out) when there are no more mixtures than parts. All runs of a
    mixture are in one part: else a fit would have seen what is held out.
    """
    mixture_N = mixture_of_each_run(weights_NxK)
    M = mixture_N.max() + 1
    part_M = np.empty(M, dtype=np.int64)
    part_M[np.random.default_rng(seed).permutation(M)] = np.arange(M) % count
    part_N = part_M[mixture_N]
    return [
        Fold(np.flatnonzero(part_N != part), np.flatnonzero(part_N == part))
        for part in range(min(M, count))
    ]


def is_outside_hull(weights_K: Floats, weights_NxK: Floats) -> bool:
    """Whether a mixture is no average of the proxies' mixtures: what is fitted then extrapolates.

    Non-negative multiples of mixtures that add up to a mixture are an average: all sum to 1.
    """
    from scipy import optimize

    _, distance = optimize.nnls(weights_NxK.T, weights_K)
    return bool(distance > OUTSIDE)


def fewest_mixtures_for_folds(training_mixtures: int, folds: int) -> int:
    """The fewest mixtures that leave `training_mixtures` without the largest of `folds` parts."""
    return next(
        n
        for n in itertools.count(training_mixtures)
        if n - -(-n // min(folds, n)) >= training_mixtures
    )


def fit_diagnostics(
    held_out_N: Floats, actual_N: Floats, weights_K: Floats, predicted_2: Iterable[float]
) -> dict[str, Any]:
    """What every finder that predicts says of its fit; losses and errors in nats per token.

    Args:
        held_out_N: Losses of the target as predicted by fits that have not seen the run.
        actual_N: The same as measured.
        weights_K: The mixture that is found.
        predicted_2: Predicted losses of the target for that mixture and for equal weights.
    """
    predicted, uniform = map(float, predicted_2)
    return {
        "runs": len(actual_N),
        "held_out_rmse": rmse(held_out_N, actual_N),
        "held_out_spearman": spearman(held_out_N, actual_N),
        "held_out_r_squared": r_squared(held_out_N, actual_N),
        "predicted_loss": predicted,
        "predicted_loss_uniform": uniform,
        "best_proxy_loss": float(actual_N.min()),
        "effective_domains": effective_domains(weights_K),
    }


def held_out_of_folds(
    predicted_N: Floats,
    actual_N: Floats,
    weights_NxK: Floats,
    folds: list[Fold],
    uncertainty_N: Floats | None = None,
) -> HeldOut:
    """The predictions of each part of `make_folds` by a fit of the others, for `intervals`."""
    block_N = np.empty(len(actual_N), dtype=np.int64)
    for number, fold in enumerate(folds):
        block_N[fold.part] = number
    return HeldOut(
        predicted_N,
        actual_N,
        block_N,
        len(np.unique(weights_NxK, axis=0)),
        np.ones(len(actual_N)) if uncertainty_N is None else uncertainty_N,
    )


def spearman(predicted_N: Floats, actual_N: Floats) -> float | None:
    """Correlation of the ranks; None when one of the two is constant."""
    from scipy import stats

    if np.ptp(predicted_N) == 0 or np.ptp(actual_N) == 0:
        return None
    return float(stats.spearmanr(predicted_N, actual_N).statistic)


def r_squared(predicted_N: Floats, actual_N: Floats) -> float | None:
    """Share of the variance that is predicted: 1 is perfect, 0 no better than the mean.

    None when the losses do not vary.
    """
    spread = ((actual_N - actual_N.mean()) ** 2).sum()
    return float(1 - ((actual_N - predicted_N) ** 2).sum() / spread) if spread > 0 else None


def rmse(predicted_N: Floats, actual_N: Floats) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(((predicted_N - actual_N) ** 2).mean()))
