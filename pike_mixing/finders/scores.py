"""How well predicted losses fit measured ones, with intervals over the runs.

A proxy's losses are on another scale than those of the model that the mixture is for. So what
counts is the order (rank correlation), what is lost by trusting it (regret), and how many nats of
the measured losses a predicted one is (slope).

Shapes: N runs, S resampled tables.
"""

from dataclasses import dataclass

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError

FEWEST = 3
"""Runs below which nothing is judged."""


@dataclass(frozen=True)
class Interval:
    """A number, and where it lies with 95 %: quantiles over runs drawn with replacement."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, drawn_S: Floats) -> "Interval":
        """The value with the 2.5 % and 97.5 % quantiles of what was drawn."""
        return cls(float(value), *(float(q) for q in np.nanquantile(drawn_S, [0.025, 0.975])))


@dataclass(frozen=True)
class Scores:
    """Predictions judged by measurements."""

    runs: int
    spearman: Interval
    """Correlation of the ranks."""
    regret: Interval
    """Measured loss of the run with the lowest prediction, minus the lowest, nats per token."""
    regret_of_chance: float
    """The same of a run drawn at random."""
    slope: Interval
    """Nats of measured loss per nat of prediction (least squares): 1 is calibrated."""


def judge(predicted_N: Floats, actual_N: Floats, *, resamples: int = 1000, seed: int = 0) -> Scores:
    """Scores of predictions.

    Args:
        predicted_N: Predicted losses, nats per token, of any scale.
        actual_N: Measured losses of the same runs.
        resamples: How many times the runs are drawn with replacement.
        seed: Of the draws.

    Raises:
        InputError: too few runs, or predictions or losses that do not vary.
    """
    N = len(actual_N)
    if N < FEWEST:
        raise InputError(f"{N} runs are too few to judge predictions: give {FEWEST} at least")
    if np.ptp(predicted_N) == 0 or np.ptp(actual_N) == 0:
        raise InputError("all predictions, or all measured losses, are equal: nothing to judge")
    rows_SxN = np.random.default_rng(seed).integers(0, N, (resamples, N))
    predicted_SxN, actual_SxN = predicted_N[rows_SxN], actual_N[rows_SxN]
    return Scores(
        runs=N,
        spearman=Interval.of(
            correlations(ranks(predicted_N[None]), ranks(actual_N[None]))[0],
            correlations(ranks(predicted_SxN), ranks(actual_SxN)),
        ),
        regret=Interval.of(
            regrets(predicted_N[None], actual_N[None])[0], regrets(predicted_SxN, actual_SxN)
        ),
        regret_of_chance=float(actual_N.mean() - actual_N.min()),
        slope=Interval.of(
            slopes(predicted_N[None], actual_N[None])[0], slopes(predicted_SxN, actual_SxN)
        ),
    )


def ranks(value_SxN: Floats) -> Floats:
    """Ranks within each row from 1 on; equal values share the mean of theirs."""
    order_SxN = value_SxN.argsort(axis=1, kind="stable")
    sorted_SxN = np.take_along_axis(value_SxN, order_SxN, axis=1)
    first_SxN = np.ones_like(sorted_SxN, dtype=bool)
    first_SxN[:, 1:] = sorted_SxN[:, 1:] != sorted_SxN[:, :-1]
    group_SxN = first_SxN.cumsum(axis=1) - 1
    N = value_SxN.shape[1]
    place_N = np.arange(1, N + 1, dtype=np.float64)
    result = np.empty(value_SxN.shape)
    for s, group_N in enumerate(group_SxN):
        result[s, order_SxN[s]] = (np.bincount(group_N, place_N) / np.bincount(group_N))[group_N]
    return result


@np.errstate(invalid="ignore", divide="ignore")
def correlations(one_SxN: Floats, other_SxN: Floats) -> Floats:
    """Pearson's correlation of each pair of rows; NaN where one is constant."""
    one_SxN = one_SxN - one_SxN.mean(axis=1, keepdims=True)
    other_SxN = other_SxN - other_SxN.mean(axis=1, keepdims=True)
    lengths_S = np.sqrt((one_SxN**2).sum(axis=1) * (other_SxN**2).sum(axis=1))
    return np.asarray((one_SxN * other_SxN).sum(axis=1) / lengths_S)


def regrets(predicted_SxN: Floats, actual_SxN: Floats) -> Floats:
    """What the choice by prediction costs in each row; of equal predictions their mean loss."""
    chosen_SxN = predicted_SxN == predicted_SxN.min(axis=1, keepdims=True)
    chosen_S = (actual_SxN * chosen_SxN).sum(axis=1) / chosen_SxN.sum(axis=1)
    return np.asarray(chosen_S - actual_SxN.min(axis=1))


@np.errstate(invalid="ignore", divide="ignore")
def slopes(predicted_SxN: Floats, actual_SxN: Floats) -> Floats:
    """Nats of measured loss per nat of prediction in each row, by least squares."""
    centred_SxN = predicted_SxN - predicted_SxN.mean(axis=1, keepdims=True)
    return np.asarray((centred_SxN * actual_SxN).sum(axis=1) / (centred_SxN**2).sum(axis=1))
