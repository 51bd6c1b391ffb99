"""The alarms of a run (`pike_mixing.alarms`)."""

import dataclasses

from pike_mixing.alarms import Watch
from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, Needs
from pike_mixing.movement import Movement, moves
from pipeline.settings import Run


def of_run(method: Method, work: Run, epoch_rows_K: Floats) -> Watch:
    """The alarms of a run.

    Args:
        method: Its method as it trains with it.
        work: The run.
        epoch_rows_K: Rows of each domain's corpus.
    """
    recipe = work.training
    limits = recipe.alarms
    movement = Movement(
        method,
        work.domains,
        work.seed,
        rows=recipe.rows,
        steps=recipe.steps,
        window=limits.window,
        name=work.method_name,
        rounding=recipe.rounding,
    )
    return Watch(
        domains=work.domains,
        epoch_rows=dict(zip(work.domains, epoch_rows_K.tolist(), strict=True)),
        adapts=method.needs() != Needs(),
        **dataclasses.asdict(limits),
        movement=movement if moves(method) else None,
    )
