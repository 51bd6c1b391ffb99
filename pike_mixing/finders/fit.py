"""A mixture from a swarm, and how far to trust it: error by resampling, correlation held out."""

import dataclasses

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError, names_text
from pike_mixing.finders import cross_validation
from pike_mixing.finders.conformal_intervals import Intervals, intervals_of_held_out_runs
from pike_mixing.finders.interface import FinderResult, Swarm, SwarmFinder

APART = 2.0
"""By more than this factor the epochs of runs say little about those of the training."""
MATTERS = 0.01
"""Weight from which on a domain's epochs matter."""
CHANCE = 1.645
"""Of M mixtures whose losses are noise, one fit in twenty is correlated by more than this over
sqrt(M - 1)."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """A mixture with its uncertainty; S resampled tables could be fitted."""

    result: FinderResult
    """The finder's mixture from all rows."""
    optimum_SxK: Floats
    """The mixtures of the resampled rows."""
    gain_S: Floats
    """How far below that of equal weights each of their fits predicts the loss of the result, nats
    per token; empty of a finder that predicts none."""
    warnings: tuple[str, ...]
    """Why not to trust the mixture."""
    intervals: Intervals | None
    """Of runs of mixtures; None of a finder that predicts none, or with too few mixtures."""

    @property
    def fitted_resamples(self) -> int:
        """How many of the resampled tables could be fitted."""
        return len(self.optimum_SxK)

    @property
    def standard_error(self) -> Floats:
        """Standard deviation of the weights over them; NaN where fewer than two were fitted."""
        return np.asarray(self._resampled_mixtures_or_nan().std(axis=0, ddof=1))

    def weight_quantile(self, share: float) -> Floats:
        """Weights [K] below which this share of the resampled ones lies; NaN as above."""
        return np.asarray(np.quantile(self._resampled_mixtures_or_nan(), share, axis=0))

    def _resampled_mixtures_or_nan(self) -> Floats:
        """The resampled mixtures; two of NaN where fewer were fitted."""
        if self.fitted_resamples > 1:
            return self.optimum_SxK
        return np.full((2, len(self.result.weights_K)), np.nan)


def fit(finder: SwarmFinder, swarm: Swarm, *, resamples: int = 100, seed: int = 0) -> Fit:
    """The finder's mixture, and its spread over tables drawn with replacement.

    Mixtures are drawn, each with all of its runs: repeats tell the noise of a run, not how losses
    depend on the mixture.

    Args:
        finder: Of mixtures from losses.
        swarm: Runs of M different mixtures.
        resamples: How many tables of M mixtures are drawn; 0 for no uncertainty.
        seed: Of the draws.

    Raises:
        InputError: the rows do not suffice.
    """
    result = finder.find(swarm)
    K, random = len(swarm.domains), np.random.default_rng(seed)
    two_2xK = np.stack([result.weights_K, swarm.uniform_weights()])
    mixture_N = cross_validation.mixture_of_each_run(swarm.weights_and_losses()[0])
    row_M = [np.flatnonzero(mixture_N == m) for m in range(mixture_N.max() + 1)]
    optima, gains = [], []
    for _ in range(resamples):
        drawn = random.integers(0, len(row_M), len(row_M))
        rows = np.concatenate([row_M[m] for m in drawn])
        runs = [dataclasses.replace(swarm.runs[n], name=f"{i:05}") for i, n in enumerate(rows)]
        try:
            predictor = finder.fit(dataclasses.replace(swarm, runs=runs), result)
            optima.append(predictor.optimum())
        except InputError:
            # A draw can miss a direction that all rows span: the warning counts such draws.
            continue
        if "held_out_rmse" in result.diagnostics:
            gains.append(float(np.diff(predictor.losses(two_2xK)).item()))
    return Fit(
        result=result,
        optimum_SxK=np.array(optima).reshape(len(optima), K),
        gain_S=np.array(gains),
        warnings=tuple(_fit_warnings(swarm, result, len(optima), resamples)),
        intervals=calibrate_intervals(finder, swarm, result),
    )


def calibrate_intervals(
    finder: SwarmFinder, swarm: Swarm, result: FinderResult
) -> Intervals | None:
    """Intervals of the finder's predictions; None where there are too few mixtures, or no losses.

    A finder of epochs predicts the training that the mixture is for: where that reads its text more
    or less often than the runs, no held-out run tells of it. Others predict runs like these.
    """
    goal, runs = swarm.final_or_common_inventory(), swarm.inventories_if_all_known()
    if finder.reads == "epochs" and goal is not None and runs is not None:
        had = np.array([run.tokens / run.available_K for run in runs])
        if not np.allclose(had, goal.tokens / goal.available_K):
            return None
    return None if result.held_out is None else intervals_of_held_out_runs(result.held_out)


def epoch_mismatch_warnings(swarm: Swarm, weights_K: Floats) -> list[str]:
    """Warns of domains whose text the runs read far more or less often than the training will.

    Args:
        swarm: The runs, with what is known of text.
        weights_K: The mixture that is trained on.
    """
    goal, runs = swarm.final_or_common_inventory(), swarm.inventories_if_all_known()
    if goal is None or runs is None:
        return []
    wanted_K = goal.epochs(weights_K)
    had_K = np.median([run.epochs(weights_K) for run in runs], axis=0)
    matter_K = weights_K >= MATTERS
    apart_K = matter_K & ((wanted_K > APART * had_K) | (had_K > APART * wanted_K))
    shown = [
        f"{swarm.domains[k]} {wanted_K[k]:.3g} times (the runs: {had_K[k]:.3g})"
        for k in np.flatnonzero(apart_K)
    ]
    if not shown:
        return []
    return [
        f"the training would read other epochs than the runs did: {names_text(shown, most=5)}: "
        "what they say of repeated text does not hold; train runs with as much less text"
    ]


def _fit_warnings(
    swarm: Swarm, result: FinderResult, fitted_resamples: int, resamples: int
) -> list[str]:
    diagnostics, weights_NxK = result.diagnostics, swarm.weights_and_losses()[0]
    mixtures = len(np.unique(weights_NxK, axis=0))
    problems = []
    if "held_out_spearman" in diagnostics:
        correlation, explained = diagnostics["held_out_spearman"], diagnostics["held_out_r_squared"]
        by_chance = CHANCE / np.sqrt(mixtures - 1)
        if correlation is None or correlation < by_chance or explained <= 0:
            scores = ["none" if v is None else f"{v:.2f}" for v in (correlation, explained)]
            problems.append(
                f"the fit explains nothing: on held-out rows its rank correlation is {scores[0]} "
                f"(noise gives up to {by_chance:.2f} with {mixtures} mixtures) and its R2 "
                f"{scores[1]}; do not use the mixture: add rows, train them for longer, or choose "
                "another target"
            )
        if cross_validation.is_outside_hull(result.weights_K, weights_NxK):
            problems.append(
                "the mixture lies outside of all averages of the rows: it is extrapolated; train "
                "it before you rely on it (`design` proposes runs)"
            )
    else:
        problems.append("nothing was fitted: the mixture is that of one row, with its noise")
    problems += epoch_mismatch_warnings(swarm, result.weights_K)
    if fitted_resamples < resamples / 2:
        problems.append(
            f"only {fitted_resamples} of {resamples} resampled tables could be fitted: the "
            "uncertainty is too small; add rows"
        )
    return problems
