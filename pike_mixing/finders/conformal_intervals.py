"""Intervals for the loss of one run, calibrated on blocks of runs that fits have not seen.

Split conformal prediction (Vovk et al. 2005) over blocks of mixtures, each of which is predicted by
a fit of the others (Barber et al. 2021, the jackknife). Of n scores

    |measured - predicted| / uncalibrated uncertainty

the ceil(LEVEL (n + 1))-th smallest, times the uncertainty of a new mixture, is the half width. It
holds a new run with at least this probability where new mixtures come as the old ones did, whatever
is fitted. Runs of another size, and mixtures far from all others, come otherwise.

Shapes: N runs, S mixtures.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pike_mixing.arrays import Floats, Ints

LEVEL = 0.9


@dataclass(frozen=True)
class HeldOut:
    """Runs as fits of other blocks predict them."""

    predicted_N: Floats
    actual_N: Floats
    block_N: Ints
    """Which block a run is of."""
    mixtures: int
    """How many different ones: repeats of a mixture tell of noise alone."""
    uncertainty_N: Floats
    """How unsure the fit was of each, in any unit; 1 where a finder tells nothing of it."""

    @property
    def scores(self) -> Floats:
        """Errors over uncalibrated uncertainties."""
        return np.abs(self.actual_N - self.predicted_N) / self.uncertainty_N


@dataclass(frozen=True)
class Intervals:
    """Half widths of intervals: of a mixture `scale` times its uncalibrated uncertainty."""

    scale: float
    coverage: float
    """Share of the held-out runs within the intervals that the other blocks calibrate."""
    runs: int

    def half_widths(self, predictor: Any, weights_SxK: Floats) -> Floats:
        """Of the predicted losses of mixtures [S], nats per token."""
        return self.scale * uncalibrated_uncertainty_or_ones(predictor, weights_SxK)


def uncalibrated_uncertainty_or_ones(predictor: Any, weights_SxK: Floats) -> Floats:
    """How unsure a predictor is of each mixture [S], in its own unit; 1 where it does not tell."""
    tell = getattr(predictor, "uncalibrated_uncertainty_or_ones", None)
    return np.ones(len(weights_SxK)) if tell is None else np.asarray(tell(weights_SxK))


def intervals_of_held_out_runs(held_out: HeldOut) -> Intervals | None:
    """The intervals of held-out runs; None where the mixtures are too few for `LEVEL`."""
    scale = score_quantile(held_out.scores, held_out.mixtures)
    if not math.isfinite(scale):
        return None
    within = []
    for block in np.unique(held_out.block_N):
        out_N = held_out.block_N == block
        share = 1 - out_N.mean()
        rest = score_quantile(held_out.scores[~out_N], round(held_out.mixtures * share))
        within += (held_out.scores[out_N] <= rest).tolist()
    return Intervals(scale, float(np.mean(within)), len(within))


def score_quantile(score_N: Floats, mixture_count: int) -> float:
    """The ceil(LEVEL (n + 1))-th of n mixtures' scores; infinite where n is too small."""
    rank = math.ceil(round(LEVEL * (mixture_count + 1), 9))
    if rank > mixture_count:
        return math.inf
    place = math.ceil(round(rank / mixture_count * len(score_N), 9))
    return float(np.sort(score_N)[place - 1])
