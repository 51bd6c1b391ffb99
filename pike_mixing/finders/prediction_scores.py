"""How well predicted losses fit measured ones, with intervals over the runs.

A proxy's losses are on another scale than those of the model that the mixture is for. So what
counts is the order (rank correlation), what is lost by trusting it (regret), and how many nats of
the measured losses a predicted one is (slope).

Shapes: N runs, S resampled tables.
"""

from typing import Any

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError

FEWEST = 3
"""Runs below which nothing is judged."""


def score_predictions(
    predicted_N: Floats, actual_N: Floats, *, resamples: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Scores of predictions.

    Args:
        predicted_N: Predicted losses, nats per token, of any scale.
        actual_N: Measured losses of the same runs.
        resamples: How many times the runs are drawn with replacement.
        seed: Of the draws.

    Returns:
        `runs`; `regret_of_chance`, the regret of a run drawn at random; and, each as
        `value_with_interval` gives it: `spearman`, correlation of the ranks; `regret`, measured
        loss of the run with the lowest prediction minus the lowest, nats per token; `worth`, the
        mean loss minus that of the run with the lowest prediction; `slope`, nats of measured loss
        per nat of prediction (least squares): 1 is calibrated.

    Raises:
        InputError: too few runs, numbers that are not finite, or predictions or losses that do not
            vary.
    """
    N = len(actual_N)
    if N < FEWEST:
        raise InputError(f"{N} runs are too few to judge predictions: give {FEWEST} at least")
    if not (np.isfinite(predicted_N).all() and np.isfinite(actual_N).all()):
        raise InputError("a prediction, or a measured loss, is no finite number: nothing to judge")
    if np.ptp(predicted_N) == 0 or np.ptp(actual_N) == 0:
        raise InputError("all predictions, or all measured losses, are equal: nothing to judge")
    rows_SxN = np.random.default_rng(seed).integers(0, N, (resamples, N))
    measured = _scores_of_draws(predicted_N[None], actual_N[None])
    drawn = _scores_of_draws(predicted_N[rows_SxN], actual_N[rows_SxN])
    told = {
        name: value_with_interval(value_1[0], drawn[name]) for name, value_1 in measured.items()
    }
    return {"runs": N, "regret_of_chance": float(actual_N.mean() - actual_N.min()), **told}


def value_with_interval(value: float, drawn_S: Floats) -> dict[str, float]:
    """A value, and where it lies with 95 %: quantiles over runs drawn with replacement."""
    low, high = np.nanquantile(drawn_S, [0.025, 0.975]).tolist()
    return {"value": float(value), "low": low, "high": high}


def _scores_of_draws(predicted_SxN: Floats, actual_SxN: Floats) -> dict[str, Floats]:
    regret_S = regret_of_choice(predicted_SxN, actual_SxN)
    return {
        "spearman": correlations(ranks(predicted_SxN), ranks(actual_SxN)),
        "regret": regret_S,
        "worth": actual_SxN.mean(axis=1) - actual_SxN.min(axis=1) - regret_S,
        "slope": slopes(predicted_SxN, actual_SxN),
    }


def ranks(value_SxN: Floats) -> Floats:
    """Ranks within each row from 1 on; equal values share the mean of theirs."""
    from scipy import stats

    return np.asarray(stats.rankdata(value_SxN, axis=1))


@np.errstate(invalid="ignore", divide="ignore")
def correlations(one_SxN: Floats, other_SxN: Floats) -> Floats:
    """Pearson's correlation of each pair of rows; NaN where one is constant."""
    one_SxN = one_SxN - one_SxN.mean(axis=1, keepdims=True)
    other_SxN = other_SxN - other_SxN.mean(axis=1, keepdims=True)
    lengths_S = np.sqrt((one_SxN**2).sum(axis=1) * (other_SxN**2).sum(axis=1))
    return np.asarray((one_SxN * other_SxN).sum(axis=1) / lengths_S)


def regret_of_choice(predicted_SxN: Floats, actual_SxN: Floats) -> Floats:
    """What the choice by prediction costs in each row; of equal predictions their mean loss."""
    chosen_SxN = predicted_SxN == predicted_SxN.min(axis=1, keepdims=True)
    chosen_S = (actual_SxN * chosen_SxN).sum(axis=1) / chosen_SxN.sum(axis=1)
    return np.asarray(chosen_S - actual_SxN.min(axis=1))


@np.errstate(invalid="ignore", divide="ignore")
def slopes(predicted_SxN: Floats, actual_SxN: Floats) -> Floats:
    """Nats of measured loss per nat of prediction in each row, by least squares."""
    centred_SxN = predicted_SxN - predicted_SxN.mean(axis=1, keepdims=True)
    return np.asarray((centred_SxN * actual_SxN).sum(axis=1) / (centred_SxN**2).sum(axis=1))
