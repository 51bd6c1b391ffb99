"""What is written down of a step, and what is warned of.

Shapes: K domains.
"""

import math

from pike_mixing.alarms import Alarm
from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Statistics
from pike_mixing.torch.step_gradient import StepResult
from pipeline.model.checkpoint import TrainState
from pipeline.settings import Training
from pipeline.training.alarms import Alarms
from pipeline.training.metric_log import Records
from pipeline.training.throughput import Meter


class StepLog:
    """Adds rows to a run's records, those of the alarms that they raise too."""

    def __init__(self, recipe: Training, records: Records, watch: Alarms, meter: Meter) -> None:
        self._recipe, self._records, self._watch, self._meter = recipe, records, watch, meter

    def add_step(
        self,
        state: TrainState,
        result: StepResult,
        weights_K: Floats,
        count_K: Ints,
        *,
        loss: float,
        rate: float,
        seconds: float,
    ) -> None:
        """Adds a step.

        Args:
            state: Where the run stands; its number of steps is not raised yet.
            result: What the backward pass gave.
            weights_K: Sampling weights of the batch.
            count_K: Its rows by domain.
            loss: Its loss.
            rate: The learning rate.
            seconds: What the step took.
        """
        step, records, chosen_K = state.step, self._records, result.coefficient_K
        records.add(
            "steps",
            step=step,
            tokens=(step + 1) * self._recipe.rows * self._recipe.length,
            loss=loss,
            learning_rate=rate,
            gradient_norm=result.norm,
            seconds=seconds,
            **self._meter.of(seconds)._asdict(),
        )
        records.add_domains("domain_losses", step, loss=result.losses)
        records.add_domains("weights", step, weight=weights_K, count=count_K)
        if chosen_K is not None:
            records.add_domains("coefficients", step, coefficient=chosen_K)
        self._warn(self._watch.after_step(step, weights_K, count_K, state.positions_K, chosen_K))
        if result.seen.statistics is not None:
            # Their time is the pass's own.
            self.add_statistics(step, result.seen.statistics, math.nan)
        records.stream.after_step()

    def add_statistics(self, step: int, measured: Statistics, seconds: float) -> None:
        """Adds gradient statistics and the seconds that they took; NaN for those of the batch.

        Args:
            step: The step.
            measured: Statistics of the domains' gradients.
            seconds: What measuring took; NaN for statistics of the batch.
        """
        self._records.add_statistics(step, measured, seconds)
        self._warn(self._watch.of_statistics(step, measured))

    def add_validation(self, step: int, loss_K: Floats) -> None:
        """Warns of domains whose held-out loss has risen."""
        self._warn(self._watch.of_validation(step, loss_K))

    def _warn(self, raised: list[Alarm]) -> None:
        for alarm in raised:
            self._records.add("alarms", **alarm._asdict())
