"""Scores of the finders' benchmark, each with its interval: see `benchmarks.finders`.

Shapes: T targets, N test runs, B resampled scores.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.finders import prediction_scores
from pike_mixing.finders.interface import Swarm

MEAN = "mean of all"
MEASURES = ("spearman", "regret", "slope")


def by_target(loss_NxM: Floats) -> Floats:
    """Losses of each target [T, N], their mean last."""
    return np.concatenate([loss_NxM, loss_NxM.mean(axis=1, keepdims=True)], axis=1).T


def measured(predicted_TxN: Floats, actual_TxN: Floats) -> Floats:
    """Each measure of each target [3, T]."""
    chance_T = actual_TxN.mean(axis=1) - actual_TxN.min(axis=1)
    ranks = prediction_scores.ranks(predicted_TxN), prediction_scores.ranks(actual_TxN)
    return np.stack(
        [
            prediction_scores.correlations(*ranks),
            prediction_scores.regret_of_choice(predicted_TxN, actual_TxN) / chance_T,
            prediction_scores.slopes(predicted_TxN, actual_TxN),
        ]
    )


def judged(predicted: list[Floats], actual_TxN: Floats, resamples: int) -> tuple[Floats, Floats]:
    """Mean scores over the draws [3, T], and B resampled ones [B, 3, T].

    The same draws and rows come up for every finder, so that scores are paired.
    """
    random, N = np.random.default_rng(0), actual_TxN.shape[1]
    drawn = []
    for _ in range(resamples):
        draw, rows = int(random.integers(10**6)) % len(predicted), random.integers(0, N, N)
        drawn.append(measured(predicted[draw][:, rows], actual_TxN[:, rows]))
    return np.mean([measured(p, actual_TxN) for p in predicted], axis=0), np.stack(drawn)


def interval(value: float, drawn_B: Floats) -> list[float]:
    """A value with its quantiles of 2.5 % and 97.5 %."""
    return [float(value), *np.nanquantile(drawn_B, [0.025, 0.975]).tolist()]


def over_targets(drawn_BxT: Floats) -> Floats:
    """Means over targets drawn with replacement [B]; the mean of all is none of them."""
    B, T = drawn_BxT.shape
    chosen_BxT = np.random.default_rng(1).integers(0, T - 1, (B, T - 1))
    return np.take_along_axis(drawn_BxT, chosen_BxT, axis=1).mean(axis=1)


def summary(values: Floats, drawn: Floats, targets: list[str]) -> dict[str, Any]:
    """Scores [3, T] by measure and target, and their mean over targets, each with an interval."""
    result: dict[str, Any] = {}
    for m, measure in enumerate(MEASURES):
        one = {t: interval(values[m, n], drawn[:, m, n]) for n, t in enumerate(targets)}
        one["each"] = interval(values[m, :-1].mean(), over_targets(drawn[:, m]))
        result[measure] = one
    return result


def repeatability(optima: list[Floats], resamples: int) -> dict[str, Any]:
    """Mean distance (half of the sum of differences) of two draws' mixtures; and what was missed.

    Each draw has optima [T, K], NaN where none was found. The interval is over draws and targets
    drawn anew; a draw has no distance from itself.
    """
    optimum_DxTxK = np.stack(optima)
    apart_DxDxT = np.abs(optimum_DxTxK[:, None] - optimum_DxTxK).sum(axis=3) / 2
    found_DxDxT = ~np.isnan(apart_DxDxT)
    D, _, T = apart_DxDxT.shape

    def mean(draws: Floats, targets: Floats) -> float:
        often_D, often_T = np.bincount(draws, minlength=D), np.bincount(targets, minlength=T)
        weight_DxDxT = np.triu(np.outer(often_D, often_D), 1)[..., None] * often_T * found_DxDxT
        total = (weight_DxDxT * np.nan_to_num(apart_DxDxT)).sum()
        return float(total / weight_DxDxT.sum()) if weight_DxDxT.any() else np.nan

    missed = int(np.isnan(optimum_DxTxK).any(axis=2).sum())
    result: dict[str, Any] = {"distance": None, "missed": missed, "of": D * T}
    if D > 1:
        random = np.random.default_rng(2)
        drawn = [mean(random.integers(0, D, D), random.integers(0, T, T)) for _ in range(resamples)]
        result["distance"] = interval(mean(np.arange(D), np.arange(T)), np.array(drawn))
    return result


def of_correlation(spearman: float, runs: int) -> list[float]:
    """A rank correlation with 95 % by Fisher's z, of variance (1 + r^2 / 2) / (N - 3).

    The variance is that of Bonett and Wright (Psychometrika 65, 2000).
    """
    error = 1.96 * np.sqrt((1 + spearman**2 / 2) / (runs - 3))
    z = np.arctanh(spearman)
    return [spearman, float(np.tanh(z - error)), float(np.tanh(z + error))]


def of_deviation(value_GxS: Floats) -> list[float]:
    """Standard deviation within G groups of S values, with 95 % by chi-squared."""
    from scipy import stats

    degrees = value_GxS.size - len(value_GxS)
    value = float(np.sqrt(value_GxS.var(axis=1, ddof=1).mean()))
    return [value, *(value * np.sqrt(degrees / stats.chi2.ppf([0.975, 0.025], degrees))).tolist()]


def differences(
    cells: Mapping[str, Any],
    drawn: Mapping[str, Floats],
    config: Mapping[str, Any],
    targets: list[str],
) -> dict[str, Any]:
    """Paired differences of rank correlation that the page speaks of."""
    place = targets.index(config["headline"])
    fewest, *_, last = config["runs"]
    middle = config["runs"][1]
    law, trees = config["finders"]
    pairs = [((law, n), (trees, n)) for n in config["runs"]]
    pairs += [((law, middle), (trees, last)), ((law, last), (law, middle))]
    pairs += [((trees, last), (trees, middle)), ((law, middle), (law, fewest))]
    pairs += [((law, n), ("linear", n)) for n in (middle, last)]
    result = {}
    for (one, n), (other, m) in pairs:
        for test in config["tests"]:
            first, second = f"{one}|{n}|{test}", f"{other}|{m}|{test}"
            apart = drawn[first][:, 0] - drawn[second][:, 0]
            a, b = (cells[key]["spearman"] for key in (first, second))
            result[f"{one}|{n}|{other}|{m}|{test}"] = {
                target: interval(a[target][0] - b[target][0], drawn_B)
                for target, drawn_B in (
                    ("each", over_targets(apart)),
                    (MEAN, apart[:, -1]),
                    (config["headline"], apart[:, place]),
                )
            }
    return result


def direct(tests: Mapping[str, Swarm], resamples: int) -> dict[str, Any]:
    """Rank correlation of the losses themselves where two tests have the same mixtures."""
    result = {}
    for (a, one), (b, other) in itertools.combinations(tests.items(), 2):
        if not np.array_equal(one.weights_and_losses()[0], other.weights_and_losses()[0]):
            continue
        small, large = (by_target(swarm.weights_and_losses()[1]) for swarm in (one, other))
        values, drawn = judged([small], large, resamples)
        result[f"{a}|{b}"] = summary(values, drawn, [*one.losses, MEAN])
    return result
