"""Fitted predictors as JSON files: no pickle, and the same predictions to the last bit."""

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from pike_mixing import foreign_json
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import build_finder, fit
from pike_mixing.finders.interface import FinderResult, Inventory, Predictor, Swarm, SwarmFinder

FORMAT = "pike-mixing predictor 1"
"""First value of a file."""


@dataclass(frozen=True)
class SavedPredictor:
    """A predictor, and what tells how far to trust it."""

    swarm: Swarm
    """Its domains, losses and phases, without runs."""
    measured_NxK: Floats
    """Mixtures of the runs that it was fitted to."""
    optimum_K: Floats
    """The mixture that was found."""
    held_out_rmse: float
    """Of losses that no fit has seen, nats per token."""
    scale: float | None
    """That of `intervals`; None where the mixtures are too few."""
    held_out_rmse_by_loss: dict[str, float] | None
    """The same of each loss, of finders that predict each."""
    predictor: Predictor


def predictor_record(
    name: str, finder: SwarmFinder, swarm: Swarm, result: FinderResult
) -> dict[str, Any]:
    """JSON values of what a finder of this name has fitted, if it predicts losses."""
    if result.predictor is None or "held_out_rmse" not in result.diagnostics:
        raise InputError(f"the finder {name!r} predicts no losses: there is nothing to save")
    found, goal = fit.calibrate_intervals(finder, swarm, result), swarm.final_or_common_inventory()
    return {
        "format": FORMAT,
        "finder": name,
        "settings": dataclasses.asdict(cast(Any, finder)),
        "domains": list(swarm.domains),
        "losses": list(swarm.losses),
        "phases": list(swarm.phases),
        "inventory": goal and {"tokens": goal.tokens, "available": goal.available_K.tolist()},
        "measured": swarm.weights_and_losses()[0].tolist(),
        "optimum": dict(zip(swarm.domains, result.weights_K.tolist(), strict=True)),
        "held_out_rmse": result.diagnostics["held_out_rmse"],
        "interval_scale": None if found is None else found.scale,
        "held_out_rmse_by_loss": result.diagnostics.get("held_out_rmse_by_domain"),
        "predictor": result.predictor.record(),
    }


def load_predictor(path: Path) -> SavedPredictor:
    """The predictor of a file."""
    try:
        values = foreign_json.parse_json_or_value_error(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}: check the path") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{path} is no saved predictor ({FORMAT}): make it with `fit --save`")
    try:
        return _restore_predictor(values, str(path))
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not whole ({error}): make it anew with `fit --save`") from None


def _restore_predictor(values: dict[str, Any], place: str) -> SavedPredictor:
    """The predictor of a file's values; any error says that these do not fit together."""
    for name in ("domains", "losses"):
        texts = values[name]
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise TypeError(f"{name}: no list of names")
    finder = cast(
        SwarmFinder, build_finder.build_finder(values["finder"], values["settings"], place)
    )
    domains, phases = tuple(values["domains"]), tuple(map(float, values["phases"]))
    final = values["inventory"]
    if final is not None:
        final = Inventory(float(final["tokens"]), np.array(final["available"], dtype=np.float64))
    swarm = Swarm(domains, (), tuple(values["losses"]), phases, final)
    if not phases or len(domains) % len(phases):
        raise ValueError(f"phases: {len(domains)} domains in {len(phases)} phases")
    if not 0 < min(phases) <= max(phases) < math.inf:
        raise ValueError("phases: each share of the run must be a finite number above 0")
    by_loss = values["held_out_rmse_by_loss"]
    if by_loss is not None:
        by_loss = {loss: float(by_loss[loss]) for loss in swarm.losses}
    result = SavedPredictor(
        swarm=swarm,
        measured_NxK=np.array(values["measured"], dtype=np.float64).reshape(-1, len(domains)),
        optimum_K=np.array([values["optimum"][domain] for domain in domains], dtype=np.float64),
        held_out_rmse=float(values["held_out_rmse"]),
        scale=None if values["interval_scale"] is None else float(values["interval_scale"]),
        held_out_rmse_by_loss=by_loss,
        predictor=finder.restore(swarm, values["predictor"]),
    )
    losses = result.predictor.losses(result.optimum_K[np.newaxis])
    errors = [result.held_out_rmse, *(by_loss or {}).values()]
    numbers = (result.measured_NxK, result.optimum_K, errors, losses)
    if losses.shape != (1,) or not all(np.isfinite(one).all() for one in numbers):
        raise ValueError("predictor: no loss of the optimum")
    return result
