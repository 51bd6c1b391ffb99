"""What finders share whose prediction is one smooth function of weights and epochs.

The lowest point is searched by SLSQP from several mixtures, with slopes by differences; a cap on
epochs bounds the weights.

Shapes: K domains, M losses, N proxy runs, S mixtures.
"""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import cross_validation, slsqp
from pike_mixing.finders.interface import FinderResult, Inventory, Reads, Swarm
from pike_mixing.setting_limits import (
    Limits,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Proportions,
)
from pike_mixing.settings import CheckedSettings

STEP = 1e-6
"""Of weights, for slopes."""
FEWEST = 10
"""Mixtures below which nothing is fitted."""


class LossModel(Protocol):
    """A fitted formula for every loss."""

    def losses(self, weights_SxK: Floats, epochs_SxK: Floats | None) -> Floats:
        """Losses of S mixtures [S, M], nats per token."""

    def record(self) -> dict[str, Any]:
        """JSON values from which the finder's `restore_model` makes it again."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SurfaceFinder(CheckedSettings, abc.ABC):
    """argmin_w sum_i u_i L_i(w) over mixtures, L as the subclass's `model` fits it."""

    reads: ClassVar[Reads] = "losses"
    packages: ClassVar[tuple[str, ...]] = ("scipy",)

    target: Proportions | None = None
    """Weight u of each domain's loss in the objective, divided by their sum; 1/K when absent."""
    epochs: PositiveFloat | None = None
    """No domain is read more than this many times; the runs' table tells how much text there is."""
    starts: PositiveInt = 4
    """Mixtures from which the search begins: the runs' of the lowest predictions, equal weights."""
    folds: Annotated[int, Limits(at_least=2)] = 10
    """Parts of the cross-validation."""
    seed: NonNegativeInt = 0
    """Seed of the parts."""

    @abc.abstractmethod
    def fit_model(
        self, weights_NxK: Floats, epochs_NxK: Floats | None, loss_NxM: Floats
    ) -> LossModel:
        """Fits every loss."""

    @abc.abstractmethod
    def restore_model(self, record: Mapping[str, Any]) -> LossModel:
        """The model of a record."""

    def find(self, swarm: Swarm) -> FinderResult:
        """The mixture of the lowest prediction."""
        surface = self.fit(swarm)
        (weights_NxK, loss_NxM), epochs_NxK = swarm.weights_and_losses(), swarm.epochs_of_runs()
        held_out_NxM, uncertainty_N = np.empty_like(loss_NxM), np.ones(len(loss_NxM))
        parts = cross_validation.make_folds(weights_NxK, self.folds, self.seed)
        for rest, part in parts:
            model = self.fit_model(
                weights_NxK[rest], _select_rows(epochs_NxK, rest), loss_NxM[rest]
            )
            held_out_NxM[part] = model.losses(weights_NxK[part], _select_rows(epochs_NxK, part))
            of_rest = dataclasses.replace(surface, model=model)
            uncertainty_N[part] = of_rest.uncalibrated_uncertainty_or_ones(weights_NxK[part])
        predicted_N = held_out_NxM @ surface.target_M
        target_N = loss_NxM @ surface.target_M
        weights_K = surface.optimum()
        predicted_2 = surface.losses(np.stack([weights_K, swarm.uniform_weights()]))
        diagnostics = cross_validation.fit_diagnostics(
            predicted_N, target_N, weights_K, predicted_2
        )
        diagnostics["held_out_rmse_by_domain"] = {
            name: cross_validation.rmse(*pair)
            for name, *pair in zip(swarm.losses, held_out_NxM.T, loss_NxM.T, strict=True)
        }
        blocks = cross_validation.held_out_of_folds(
            predicted_N, target_N, weights_NxK, parts, uncertainty_N
        )
        return FinderResult(weights_K, diagnostics, surface, blocks)

    def fit(self, swarm: Swarm, same_way_as: FinderResult | None = None) -> "Surface":
        """The formulas alone, without errors on held-out runs."""
        if len(swarm.phases) > 1:
            raise InputError("this finder knows no phases: use 'mixing-law'")
        weights_NxK, loss_NxM = swarm.weights_and_losses(
            FEWEST, "a formula of all domains is fitted"
        )
        epochs_NxK = swarm.epochs_of_runs()
        model = self.fit_model(weights_NxK, epochs_NxK, loss_NxM)
        order = (
            model.losses(weights_NxK, epochs_NxK) @ swarm.target_weights(self.target)
        ).argsort()
        return self._build_surface(swarm, model, weights_NxK[order[: self.starts]])

    def restore(self, swarm: Swarm, record: dict[str, Any]) -> "Surface":
        """The surface of a record, with these settings."""
        return self._build_surface(
            swarm, self.restore_model(record["model"]), np.array(record["starts"])
        )

    def _build_surface(self, swarm: Swarm, model: LossModel, start_SxK: Floats) -> "Surface":
        cap_K = np.minimum(swarm.required_weight_caps(self.epochs), 1)
        goal = swarm.final_or_common_inventory()
        return Surface(model, swarm.target_weights(self.target), goal, cap_K, start_SxK)


def _select_rows(values_NxK: Floats | None, rows: Any) -> Floats | None:
    return None if values_NxK is None else values_NxK[rows]


@dataclasses.dataclass(frozen=True)
class Surface:
    """A model's loss of the target, and the search for its lowest point."""

    model: LossModel
    target_M: Floats
    goal: Inventory | None
    """Of the training that the mixture is for."""
    cap_K: Floats
    start_SxK: Floats

    def losses(self, weights_SxK: Floats, epochs_SxK: Floats | None = None) -> Floats:
        """The prediction for each mixture [S], nats per token."""
        if epochs_SxK is None and self.goal is not None:
            epochs_SxK = self.goal.epochs(weights_SxK)
        return self.model.losses(weights_SxK, epochs_SxK) @ self.target_M

    def uncalibrated_uncertainty_or_ones(self, weights_SxK: Floats) -> Floats:
        """Standard deviations by the model's own account [S], nats; 1 where it tells none."""
        tell = getattr(self.model, "standard_deviations", None)
        if tell is None:
            return np.ones(len(weights_SxK))
        return np.asarray(tell(weights_SxK) @ self.target_M)

    def slope(self, weights_K: Floats) -> Floats:
        """Change of the prediction per weight of each domain."""
        near_SxK = np.vstack([weights_K, weights_K + STEP * np.eye(len(weights_K))])
        at, *beside = self.losses(near_SxK)
        return (np.array(beside) - at) / STEP

    def optimum(self) -> Floats:
        """The lowest of what the searches reach, each from its start within the caps."""
        K = len(self.cap_K)
        found = []
        for start_K in [*self.start_SxK, np.full(K, 1 / K)]:
            bounds = [(0.0, float(cap)) for cap in self.cap_K]
            begin_K = np.minimum(start_K, self.cap_K)
            done = slsqp.minimise_over_simplex(
                lambda w: float(self.losses(w[None])[0]), begin_K, self.slope, bounds, steps=200
            )
            at_K = np.clip(done.x, 0, self.cap_K)
            if np.isfinite(at_K).all() and abs(at_K.sum() - 1) < 1e-6:
                found.append(at_K / at_K.sum())
        if not found:
            raise InputError("the search for the mixture ends outside of all mixtures: add runs")
        return np.asarray(found[int(self.losses(np.stack(found)).argmin())])

    def record(self) -> dict[str, Any]:
        """The model's, and where searches begin."""
        return {"model": self.model.record(), "starts": self.start_SxK.tolist()}
