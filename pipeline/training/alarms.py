"""The alarms of a run (`pike_mixing.alarms`): their state, and their place in the log."""

import dataclasses
import logging

from pike_mixing.alarms import Alarm, Watch
from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Method, Needs, Statistics
from pike_mixing.movement import Movement, moves
from pipeline.settings import Run

log = logging.getLogger("pike")


class Alarms:
    """Watches one run. All that it remembers is `state`, which belongs into the checkpoint."""

    def __init__(self, watch: Watch) -> None:
        """Begins before step 0; assign `state` to go on from a checkpoint."""
        self.watch, self.state = watch, watch.init()

    def after_step(
        self,
        step: int,
        weights_K: Floats,
        count_K: Ints,
        positions_K: Ints,
        coefficient_K: Floats | None = None,
    ) -> list[Alarm]:
        """The alarms that one step raises; they are logged too.

        Args:
            step: The step.
            weights_K: Sampling weights.
            count_K: Rows of the step by domain.
            positions_K: Rows of each domain read so far.
            coefficient_K: Coefficients of the domains' gradients; None: equal.
        """
        self.state, result = self.watch.after_step(
            self.state, step, weights_K, count_K, positions_K, coefficient_K
        )
        return _logged(result)

    def of_statistics(self, step: int, measured: Statistics) -> list[Alarm]:
        """The alarms that gradient statistics raise; they are logged too."""
        self.state, result = self.watch.after_statistics(self.state, step, measured)
        return _logged(result)

    def of_validation(self, step: int, loss_K: Floats) -> list[Alarm]:
        """The alarms that losses of held-out rows raise; they are logged too."""
        self.state, result = self.watch.after_validation(self.state, step, loss_K)
        return _logged(result)


def of_run(method: Method, work: Run, epoch_rows_K: Floats) -> Alarms:
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
    return Alarms(
        Watch(
            domains=work.domains,
            epoch_rows=dict(zip(work.domains, epoch_rows_K.tolist(), strict=True)),
            adapts=method.needs() != Needs(),
            **dataclasses.asdict(limits),
            movement=movement if moves(method) else None,
        )
    )


def _logged(alarms: list[Alarm]) -> list[Alarm]:
    for alarm in alarms:
        log.warning("step %d: %s", alarm.step, alarm.message)
    return alarms
