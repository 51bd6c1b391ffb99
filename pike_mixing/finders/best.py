"""The oracle by search: the best of the static mixtures that were trained.

Shapes: K domains, N proxy runs, M different mixtures.
"""

import dataclasses
from typing import Any, ClassVar

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders.interface import FinderResult, Reads, Swarm
from pike_mixing.limits import Proportions
from pike_mixing.numerics.effective import effective_domains
from pike_mixing.settings import CheckedSettings


@dataclasses.dataclass(frozen=True)
class Best(CheckedSettings):
    """No model of the loss: what was not trained cannot be found."""

    about: ClassVar[str] = "The mixture of the proxy run that ended with the lowest mean loss."
    reads: ClassVar[Reads] = "losses"
    packages: ClassVar[tuple[str, ...]] = ()

    target: Proportions | None = None
    """Weight of each domain's loss in the mean, divided by their sum; 1/K when absent."""

    def find(self, swarm: Swarm) -> FinderResult:
        """The mixture with the lowest sum_i u_i L_i.

        Runs of the same mixture (other seeds) count as one, with the mean of their losses: else
        the mixture with the luckiest seed would win. Of equal losses the first name wins.

        Raises:
            InputError: no runs, or one without a static mixture or with a loss that is not finite.
        """
        runs = sorted(swarm.runs, key=lambda run: run.name)
        weights_NxK, loss_NxM = dataclasses.replace(swarm, runs=runs).arrays()
        mixtures, first_M, place_N = np.unique(
            weights_NxK, axis=0, return_index=True, return_inverse=True
        )
        place_N = place_N.ravel()  # NumPy 2.0 alone gives a column.
        loss_M = np.bincount(place_N, loss_NxM @ swarm.target(self.target)) / np.bincount(place_N)
        name_M = [runs[n].name for n in first_M]
        order = sorted(range(len(mixtures)), key=lambda mixture: (loss_M[mixture], name_M[mixture]))
        first, second = order[0], order[1] if len(order) > 1 else None
        return FinderResult(
            mixtures[first],
            {
                "run": name_M[first],
                "loss": float(loss_M[first]),
                "runner_up": None if second is None else name_M[second],
                "runner_up_loss": None if second is None else float(loss_M[second]),
                "spread": float(np.ptp(loss_M)),
                "runs": len(runs),
                "mixtures": len(mixtures),
                "effective_domains": effective_domains(mixtures[first]),
            },
            BestRun(mixtures[first]),
        )

    def fit(self, swarm: Swarm, like: FinderResult | None = None) -> "BestRun":
        """The best of these runs."""
        return BestRun(self.find(swarm).weights_K)

    def restore(self, swarm: Swarm, record: dict[str, Any]) -> "BestRun":
        """The run of a record."""
        return BestRun(np.array(record["weights"]))


@dataclasses.dataclass(frozen=True)
class BestRun:
    """A mixture; no other one's loss is predicted."""

    weights_K: Floats

    def losses(self, weights_SxK: Floats) -> Floats:
        """Raises an InputError: there are none."""
        raise InputError("the finder 'best' predicts no losses: take another finder")

    def optimum(self) -> Floats:
        """The mixture."""
        return self.weights_K

    def record(self) -> dict[str, Any]:
        """Its weights."""
        return {"weights": self.weights_K.tolist()}
