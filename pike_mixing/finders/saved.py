"""Fitted predictors as JSON files: no pickle, and the same predictions to the last bit."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import registry
from pike_mixing.finders.interface import FinderResult, Predictor, Swarm, SwarmFinder

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
    held_out_rmse: float | None
    """Of losses that no fit has seen, nats per token."""
    held_out_rmse_by_loss: dict[str, float] | None
    """The same of each loss, of finders that predict each."""
    predictor: Predictor


def record(name: str, finder: SwarmFinder, swarm: Swarm, result: FinderResult) -> dict[str, Any]:
    """JSON values of what a finder has fitted.

    Args:
        name: The finder's, in `FINDERS`.
        finder: It, with its settings.
        swarm: What it was fitted to.
        result: What it found.

    Raises:
        InputError: it fitted nothing.
    """
    if result.predictor is None or "held_out_rmse" not in result.diagnostics:
        raise InputError(f"the finder {name!r} predicts no losses: there is nothing to save")
    return {
        "format": FORMAT,
        "finder": name,
        "settings": dataclasses.asdict(cast(Any, finder)),
        "domains": list(swarm.domains),
        "losses": list(swarm.losses),
        "phases": list(swarm.phases),
        "measured": swarm.arrays()[0].tolist(),
        "optimum": dict(zip(swarm.domains, result.weights_K.tolist(), strict=True)),
        "held_out_rmse": result.diagnostics["held_out_rmse"],
        "held_out_rmse_by_loss": result.diagnostics.get("held_out_rmse_by_domain"),
        "predictor": result.predictor.record(),
    }


def load(path: Path) -> SavedPredictor:
    """The predictor of a file.

    Raises:
        InputError: it cannot be read, or is no predictor that this version knows.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}: check the path") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InputError(f"{path} is no saved predictor ({FORMAT}): make it with `fit --save`")
    errors = ("held_out_rmse", "held_out_rmse_by_loss")
    keys = ("finder", "settings", "domains", "losses", "phases", "measured", "optimum")
    if missing := [key for key in (*keys, *errors, "predictor") if key not in values]:
        raise InputError(f"{path} lacks {', '.join(missing)}: make it anew with `fit --save`")
    finder = cast(SwarmFinder, registry.build(values["finder"], values["settings"], str(path)))
    domains = tuple(values["domains"])
    swarm = Swarm(domains, (), tuple(values["losses"]), tuple(values["phases"]))
    return SavedPredictor(
        swarm=swarm,
        measured_NxK=np.array(values["measured"]),
        optimum_K=np.array([values["optimum"][domain] for domain in domains]),
        held_out_rmse=values["held_out_rmse"],
        held_out_rmse_by_loss=values["held_out_rmse_by_loss"],
        predictor=finder.restore(swarm, values["predictor"]),
    )
