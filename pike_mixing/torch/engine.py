"""The steps of a training under a mixing method: what is measured, which rows, which gradient.

    engine = Engine(method, rows, StepGradient(model, passes, ...))
    for step in range(steps):
        engine.measure_and_observe_before_step()  # what is due before the step's rows are drawn
        result = engine.backward()                # the gradient that the method wants
        optimizer.step()
        engine.observe_and_end_step(result)       # the method sees the step

That is the pipeline's loop. `Mixing` serves the loops of others, which draw the rows or make the
backward passes themselves.

Shapes: K domains.
"""

import dataclasses
import time
from typing import NamedTuple, Protocol

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import (
    Method,
    Rounding,
    Signals,
    State,
    Statistics,
    StatisticsNeed,
    observes_step,
    rows_of_domains,
)
from pike_mixing.torch.step_gradient import StepGradient, StepResult, StepRows


class RowSource(Protocol):
    """Where rows come from."""

    domains: tuple[str, ...]
    """Names of the K domains."""
    batch_rows: int
    """Rows b of a step."""
    seed: int
    """Seed of the method's draws."""

    def draw_rows(self, purpose: str, positions_K: Ints, count_K: Ints) -> StepRows:
        """The `count_K` rows of each domain that follow the first `positions_K`.

        Each purpose has an order of its own: "train", "statistics" or "comparison".
        """


class FreshStatistics(NamedTuple):
    """Gradient statistics of rows of their own."""

    statistics: Statistics
    seconds: float
    """Wall seconds that they took."""


class Engine:
    """A method, its state, and the passes that it wants."""

    def __init__(
        self,
        method: Method,
        rows: RowSource,
        gradient: StepGradient,
        rounding: Rounding = "largest-remainder",
    ) -> None:
        """Begins before step 0 of a method that `for_run` has given what it asks for."""
        self.method, self.gradient, self.rounding = method, gradient, rounding
        self._source = rows
        self.step = 0
        self._rows: StepRows
        self.state: State = method.init(rows.domains, rows.seed)
        self.positions_K = np.zeros(len(rows.domains), dtype=np.int64)
        """Rows of each domain that the steps so far have read."""
        self.fresh_positions_K = self.positions_K.copy()
        """Rows of each domain that were read for statistics."""

    def resume(self, step: int, state: State, positions_K: Ints, fresh_positions_K: Ints) -> None:
        """Goes on before a step; positions count the rows read to train, and for statistics."""
        self.step, self.state = step, state
        self.positions_K, self.fresh_positions_K = positions_K, fresh_positions_K

    def counts_by_present_state(self, step: int) -> Ints:
        """Rows b_K of each domain in a step's batch, by the present state."""
        b, K = self._source.batch_rows, len(self._source.domains)
        return rows_of_domains(self.method, self.state, step, b, self.rounding, K)

    def measure_and_observe_before_step(self) -> FreshStatistics | None:
        """Measures what is due before the step's rows are drawn, and shows it to the method."""
        needs, result = self.method.needs(), None
        due, compare = needs.statistics, needs.validation
        timed = self.gradient.passes.timed
        if due is not None and due.fresh and due.is_due(self.step):
            with timed("statistics"):
                result = self._measure_fresh_and_observe(due)
        if compare is not None and compare.is_due(self.step):
            with timed("validation"):
                loss_K = self.measure_domain_losses("comparison", compare.rows)
                self._observe_signals(
                    Signals(self.step, self._source.batch_rows, validation_loss_K=loss_K)
                )
        return result

    def measure_domain_losses(self, purpose: str, first_rows_per_domain: int) -> Floats:
        """Mean loss of each domain over its first rows for a purpose, nats per token."""
        start_K = np.zeros_like(self.positions_K)
        count_K = np.full_like(start_K, first_rows_per_domain)
        read = self._source.draw_rows(purpose, start_K, count_K)
        return self.gradient.domain_means(self.gradient.passes.losses, read)

    def _measure_fresh_and_observe(self, due: StatisticsNeed) -> FreshStatistics:
        count_K = self.counts_by_present_state(self.step).clip(min=due.rows)
        began, result, gram_KxK = time.perf_counter(), [], None
        passes, model = self.gradient.passes, self.gradient.target.model
        with passes.leave_no_trace(model, training=True):
            for _ in range(due.estimates):
                rows = self._source.draw_rows("statistics", self.fresh_positions_K, count_K)
                self.fresh_positions_K = self.fresh_positions_K + count_K
                statistics, gram_KxK = self.gradient.measure_gradient_statistics(
                    rows, with_inner_products=due.inner_products
                )
                result.append(statistics)
        mean = Statistics.fieldwise_mean(result)
        b = self._source.batch_rows
        self._observe_signals(Signals(self.step, b, statistics=mean, gram_KxK=gram_KxK))
        return FreshStatistics(mean, time.perf_counter() - began)

    def _observe_signals(self, signals: Signals) -> None:
        self.state = self.method.observe(self.state, signals)

    def backward(self) -> StepResult:
        """Draws the step's rows and leaves the gradient that the method wants."""
        timed, count_K = self.gradient.passes.timed, self.counts_by_present_state(self.step)
        with timed("data"):
            self._rows = self._source.draw_rows("train", self.positions_K, count_K)
        with timed("gradient"):
            return self.gradient.compute(self.method, self.state, self.step, self._rows)

    @property
    def needs_to_observe(self) -> bool:
        """Whether the method sees what the present step measures: to show it is to wait for it."""
        return observes_step(self.method, self.step)

    def observe_and_end_step(self, result: StepResult) -> None:
        """After the optimizer's update: the method sees the step, which ends."""
        if self.needs_to_observe:
            needs, after_K = self.method.needs(), None
            if needs.losses_after:
                # What was measured before them has come when they have.
                after_K = self.gradient.domain_means(self.gradient.passes.losses, self._rows)
            # The loop has losses whatever the method needs, and not every trainer has.
            loss_K = result.signals.loss_K if needs.losses else None
            seen = dataclasses.replace(result.signals, loss_K=loss_K, loss_after_K=after_K)
            self._observe_signals(seen)
        self.positions_K = self.positions_K + self._rows.count_K
        self.step += 1
