"""Proxy runs as arrays.

Shapes: K domains, N proxy runs.
"""

from collections.abc import Sequence

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders.interface import Proxy


def arrays(
    runs: Sequence[Proxy], *, at_least: int = 1, because: str = "there is nothing to choose from"
) -> tuple[Floats, Floats]:
    """Mixtures and losses, [N, K] each.

    Raises:
        InputError: fewer runs than `at_least`; the message gives `because` as the reason. Or a
            run without a static mixture, or whose loss is no finite number.
    """
    if len(runs) < at_least:
        raise InputError(
            f"{len(runs)} proxy run(s) are too few, at least {at_least} are needed: {because}; "
            "add proxy runs"
        )
    for run in runs:
        if run.weights_K is None:
            raise InputError(
                f"proxy {run.name} has no static mixture: only runs whose weights never change "
                "can be compared by their weights; leave it out"
            )
        assert run.loss_K is not None, "the stage reads the losses of every proxy"
        if not np.isfinite(run.loss_K).all():
            raise InputError(
                f"proxy {run.name} has a loss that is no finite number: the run has diverged; "
                "leave it out, or train it again with a lower training.peak_learning_rate"
            )
    weights = [run.weights_K for run in runs if run.weights_K is not None]
    losses = [run.loss_K for run in runs if run.loss_K is not None]
    return np.stack(weights).astype(np.float64), np.stack(losses).astype(np.float64)
