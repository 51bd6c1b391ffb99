"""The oracle by search: the best of the static mixtures that were trained.

Shapes: K domains, N proxy runs, M different mixtures.
"""

import dataclasses
from typing import Any, ClassVar, NoReturn

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import cross_validation
from pike_mixing.finders.interface import FinderResult, Proxy, Reads, Swarm
from pike_mixing.numerics.simplex import effective_domains
from pike_mixing.setting_limits import PositiveFloat, Proportions
from pike_mixing.settings import CheckedSettings


@dataclasses.dataclass(frozen=True)
class Best(CheckedSettings):
    """No model of the loss: what was not trained cannot be found."""

    about: ClassVar[str] = "The mixture of the proxy run that ended with the lowest mean loss."
    reads: ClassVar[Reads] = "losses"
    packages: ClassVar[tuple[str, ...]] = ()

    target: Proportions | None = None
    """Weight of each domain's loss in the mean, divided by their sum; 1/K when absent."""
    epochs: PositiveFloat | None = None
    """No domain is read more than this many times; the runs' table tells how much text there is."""

    def find(self, swarm: Swarm) -> FinderResult:
        """The mixture with the lowest sum_i u_i L_i.

        Runs of the same mixture (other seeds) count as one, with the mean of their losses: else
        the mixture with the luckiest seed would win. Of equal losses the first name wins.

        Raises:
            InputError: no runs, or one without a static mixture or with a loss that is not finite;
                or none within the cap on epochs.
        """
        runs = self._runs_within_epochs(swarm)
        weights_NxK, loss_NxM = dataclasses.replace(swarm, runs=runs).weights_and_losses()
        # Mixtures are in the order of the first names of their runs.
        mixture_N = cross_validation.mixture_of_each_run(weights_NxK)
        _, first_M = np.unique(mixture_N, return_index=True)
        target_N = loss_NxM @ swarm.target_weights(self.target)
        loss_M = np.bincount(mixture_N, target_N) / np.bincount(mixture_N)
        order = loss_M.argsort(kind="stable")
        names = [runs[n].name for n in first_M[order]]
        best_K = weights_NxK[first_M[order[0]]]
        return FinderResult(
            best_K,
            {
                "run": names[0],
                "loss": float(loss_M.min()),
                "runner_up": names[1] if len(names) > 1 else None,
                "runner_up_loss": float(loss_M[order[1]]) if len(names) > 1 else None,
                "spread": float(np.ptp(loss_M)),
                "runs": len(runs),
                "mixtures": len(names),
                "effective_domains": effective_domains(best_K),
            },
            BestMixture(best_K),
        )

    def _runs_within_epochs(self, swarm: Swarm) -> list[Proxy]:
        """The runs whose mixtures read no text too often, by name."""
        weights_NxK, _ = swarm.weights_and_losses()
        cap_K = swarm.required_weight_caps(self.epochs)
        fits_N = np.all(weights_NxK <= cap_K + 1e-9, axis=1)
        if not fits_N.any():
            raise InputError(
                f"epochs: the mixture of every run reads a domain more than {self.epochs:g} times: "
                "raise epochs, add runs within it (`design --cap`), or take another finder"
            )
        fitting = [run for run, fits in zip(swarm.runs, fits_N, strict=True) if fits]
        return sorted(fitting, key=lambda run: run.name)

    def fit(self, swarm: Swarm, same_way_as: FinderResult | None = None) -> "BestMixture":
        """The best of these runs."""
        return BestMixture(self.find(swarm).weights_K)

    def restore(self, swarm: Swarm, record: dict[str, Any]) -> "BestMixture":
        """The run of a record."""
        return BestMixture(np.array(record["weights"]))


@dataclasses.dataclass(frozen=True)
class BestMixture:
    """A mixture; no other one's loss is predicted."""

    weights_K: Floats

    def losses(self, weights_SxK: Floats, epochs_SxK: Floats | None = None) -> NoReturn:
        """Raises an InputError: there are none."""
        raise InputError("the finder 'best' predicts no losses: take another finder")

    def optimum(self) -> Floats:
        """The mixture."""
        return self.weights_K

    def record(self) -> dict[str, Any]:
        """Its weights."""
        return {"weights": self.weights_K.tolist()}
