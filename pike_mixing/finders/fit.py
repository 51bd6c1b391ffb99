"""A mixture from a swarm, and how far to trust it: error by resampling, correlation held out."""

import dataclasses
from typing import Any

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders.interface import FinderResult, RefittableFinder, Swarm

CHANCE = 1.645
"""Of losses that are noise, one fit in twenty is correlated by more than this over sqrt(N - 1)."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """A mixture with its uncertainty."""

    result: FinderResult
    """The finder's mixture from all rows."""
    standard_error_K: Floats
    """Standard deviation of the weights over resampled rows; NaN where they could not be fitted."""
    low_K: Floats
    """5 % of the resampled weights are lower."""
    high_K: Floats
    """5 % of them are higher."""
    resamples: int
    """How many of the resampled tables could be fitted."""
    warnings: tuple[str, ...]
    """Why not to trust the mixture."""


def fit(finder: RefittableFinder, swarm: Swarm, *, resamples: int = 100, seed: int = 0) -> Fit:
    """The finder's mixture, and the spread of the mixtures of rows drawn with replacement.

    Args:
        finder: Of mixtures from losses.
        swarm: The runs.
        resamples: How many tables of N rows are drawn from the N rows; 0 for no uncertainty.
        seed: Of the draws.

    Raises:
        InputError: the rows do not suffice.
    """
    result = finder.find(swarm)
    random, drawn = np.random.default_rng(seed), []
    for _ in range(resamples):
        rows = random.integers(0, len(swarm.runs), len(swarm.runs))
        runs = [dataclasses.replace(swarm.runs[n], name=f"{i:05}") for i, n in enumerate(rows)]
        try:
            drawn.append(finder.refit(dataclasses.replace(swarm, runs=runs), result))
        except InputError:
            # A draw can miss a direction that all rows span: the warning counts such draws.
            continue
    drawn_SxK = np.array(drawn).reshape(len(drawn), len(swarm.domains))
    spread = len(drawn) > 1
    nothing_K = np.full(len(swarm.domains), np.nan)
    return Fit(
        result=result,
        standard_error_K=drawn_SxK.std(axis=0, ddof=1) if spread else nothing_K,
        low_K=np.quantile(drawn_SxK, 0.05, axis=0) if spread else nothing_K,
        high_K=np.quantile(drawn_SxK, 0.95, axis=0) if spread else nothing_K,
        resamples=len(drawn),
        warnings=tuple(_warnings(result.diagnostics, len(swarm.runs), len(drawn), resamples)),
    )


def _warnings(diagnostics: dict[str, Any], rows: int, fitted: int, resamples: int) -> list[str]:
    result = []
    if "held_out_spearman" in diagnostics:
        correlation, explained = diagnostics["held_out_spearman"], diagnostics["held_out_r_squared"]
        by_chance = CHANCE / np.sqrt(rows - 1)
        if correlation is None or correlation < by_chance or explained <= 0:
            scores = ["none" if v is None else f"{v:.2f}" for v in (correlation, explained)]
            result.append(
                f"the fit explains nothing: on held-out rows its rank correlation is {scores[0]} "
                f"(noise gives up to {by_chance:.2f} with {rows} rows) and its R2 {scores[1]}; do "
                "not use the mixture: add rows, train them for longer, or choose another target"
            )
    else:
        result.append("nothing was fitted: the mixture is that of one row, with its noise")
    if diagnostics.get("outside_proxies"):
        result.append("the mixture lies outside of all averages of the rows: it is extrapolated")
    if fitted < resamples / 2:
        result.append(
            f"only {fitted} of {resamples} resampled tables could be fitted: the uncertainty is "
            "too small; add rows"
        )
    return result
