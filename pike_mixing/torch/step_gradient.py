"""From the rows of one step to the gradient that the method wants, left in the parameters.

There are three ways, and a method's needs choose one: a single backward pass over weighted losses,
all K gradients combined by coefficients, or K gradients for an optimizer with K moments. Where
gradient statistics of the batch are due, each of them takes the rows domain by domain and measures
on its way, so that no other pass is made.

Shapes: K domains, B rows of a step.
"""

import contextlib
import copy
import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Signals, State, Statistics
from pike_mixing.torch import gradient_moments, parallel
from pike_mixing.torch.domain_gradient import backpropagate_and_return_losses
from pike_mixing.torch.pass_interface import (
    DomainRows,
    Passes,
    Piece,
    Target,
    free_gathered_weights,
)
from pike_mixing.torch.rows import Rows, with_is_last


@dataclasses.dataclass(frozen=True)
class StepResult:
    """What a backward pass leaves beside the gradient.

    Its numbers are on their way from the device: the first that is read is waited for.
    """

    read: Callable[[], tuple[Signals, float]]
    """Waits for what `signals` and `gradient_norm` are."""
    coefficient_K: Floats | None
    """Weights of the domains' losses, or of their gradients, where the method chose them."""

    @functools.cached_property
    def _signals_and_norm(self) -> tuple[Signals, float]:
        return self.read()

    @property
    def signals(self) -> Signals:
        """What was measured on the way."""
        return self._signals_and_norm[0]

    @property
    def gradient_norm(self) -> float:
        """The gradient's norm before clipping, with moments per domain the mean of theirs by share.

        NaN where none was left.
        """
        return self._signals_and_norm[1]

    def with_losses_or_without(self, loss_K: Floats | None) -> "StepResult":
        """The same with other losses of the domains, or without any."""

        def read() -> tuple[Signals, float]:
            return dataclasses.replace(self.signals, loss_K=loss_K), self.gradient_norm

        return dataclasses.replace(self, read=read)

    @property
    def losses(self) -> Floats:
        """Mean loss of each domain's rows; NaN for a domain without rows."""
        assert self.signals.loss_K is not None
        return self.signals.loss_K


class GradientStatistics(NamedTuple):
    """What rows of their own say of the domains' gradients."""

    statistics: Statistics
    gram_KxK: Floats | None
    """Inner products of the domains' gradients; None where they are not wanted."""


class StepRows(Protocol):
    """The rows of a step, or of a measurement: which of them this process passes."""

    count_K: Ints
    """Rows of each domain over all processes."""

    def pieces(self, share_K: Floats | None = None) -> Iterator[Piece]:
        """The passes over all rows, of which each of domain k counts share_k / b_k, or 1."""

    def rows_by_domain(self, size: int, *, whole_micro_batches: bool) -> list[DomainRows]:
        """The rows by domain, in micro-batches of a size.

        Where rows are still to be dealt, `whole_micro_batches` deals those of a domain with several
        whole, as their variance wants it.
        """

    def gather_for_domain_means(self, parts: Sequence[tuple[Piece, Tensor]]) -> Tensor:
        """What `domain_means_of_gathered` needs of numbers of each row, over all processes."""

    def domain_means_of_gathered(self, gathered: Tensor) -> Floats:
        """Mean of each domain's rows, of `gathered` on the host; NaN for a domain without rows."""


def domain_shares(rows: StepRows) -> Floats:
    """b_k / b of equation `eq: mix_framework`."""
    share_K: Floats = rows.count_K / rows.count_K.sum()
    return share_K


@dataclasses.dataclass(eq=False)
class StepGradient:
    """The passes of a step over one model."""

    model: nn.Module | None
    """The model, wrapped or not; it may be set later."""
    passes: Passes
    """How they are made."""
    _: dataclasses.KW_ONLY
    micro_batch_rows: int
    """Rows of a pass."""
    statistics_micro_batch_rows: int
    """Rows of a pass that measures gradient statistics."""
    optimizer: Any = None
    """For methods with moments per domain: a `PerDomainAdamW`."""
    max_norm: float = math.inf
    """Longest gradient that is not shortened; with moments per domain, of each."""

    @functools.cached_property
    def target(self) -> Target:
        """The model's parameters, read once, and anew after `set_model`."""
        if self.model is None:
            raise InputError("Mixing has no model to measure: give it one, or set `mixing.model`")
        return Target(self.model, self.passes)

    def set_model(self, model: nn.Module | None) -> None:
        """Takes a model, or the same one again where others of its parameters train."""
        self.model = model
        vars(self).pop("target", None)

    def compute(
        self,
        method: Method,
        state: State,
        step: int,
        rows: StepRows,
        *,
        leave_gradient: bool = True,
    ) -> StepResult:
        """Leaves the clipped gradient in the parameters, or in the moments of each domain.

        Without `leave_gradient` no pass is made but those that measure: the training loss is the
        caller's own, by the result's coefficients.
        """
        needs, count_K = method.needs(), rows.count_K
        seen = Signals(step, int(count_K.sum()), count_K=count_K)
        measures = needs.has_batch_statistics(step)
        if leave_gradient or needs.moments_per_domain:
            # What a trainer left of the step before is no part of a domain's gradient.
            for p in self.target.parameters:
                p.grad = None
        compares = needs.losses and needs.losses_after and self.passes.modes
        if needs.weighs_losses or compares:
            seen = dataclasses.replace(seen, loss_K=self.domain_means(self.passes.losses, rows))
        if needs.moments_per_domain:
            c_K = method.gradient_coefficients(state, seen)
            result = self._move_moments(seen, rows, c_K, measures, leave_gradient)
        elif needs.gramian:
            result = self._combine_gradients(method, state, seen, rows, measures, leave_gradient)
        else:
            if needs.reference:
                excess_K = self.domain_means(self.passes.clipped_excess_losses, rows)
                seen = dataclasses.replace(seen, excess_K=excess_K)
            c_K = method.loss_weights(state, seen)
            if measures:
                result = self._measure_and_add_by_domain(seen, rows, c_K, leave_gradient)
            elif leave_gradient:
                result = self._compute_in_one_pass(seen, rows, c_K)
            else:
                result = self._begin_result_fetch(seen, None, [], [], c_K)
        # As those after the update, not as the training's passes, which may have dropout.
        return result.with_losses_or_without(seen.loss_K) if compares else result

    def _measure_and_add_by_domain(
        self,
        signals: Signals,
        rows: StepRows,
        c_K: Floats | None,
        leave_gradient: bool,
    ) -> StepResult:
        """Measures the domains' gradients, and adds them by weight where they are to be left."""
        chosen_K = domain_shares(rows) if c_K is None else c_K

        def add(k: int, parts: list[Tensor]) -> None:
            self.target.add_to_gradient(parts, float(chosen_K[k]))

        of_domains = self._rows_by_domain(rows, measures=True)
        with self._without_traces_unless_left(leave_gradient):
            measured = gradient_moments.measure_domains(
                self.target, of_domains, add if leave_gradient else None
            )
        norms = [self._clip_and_return_norm()] if leave_gradient else []
        return self._begin_result_fetch(signals, measured, norms, [1.0], c_K)

    def _begin_result_fetch(
        self,
        signals: Signals,
        measured: gradient_moments.DeviceStatistics | None,
        norms_before_clipping: Sequence[Tensor],
        norm_shares: Sequence[float],
        c_K: Floats | None,
    ) -> StepResult:
        """What was seen and measured, and the mean of the norms by share: begins one transfer."""
        numbers = measured.numbers if measured else []
        wait = self._begin_fetch([*numbers, *norms_before_clipping])

        def read() -> tuple[Signals, float]:
            host = wait()
            norm_N = host[3 * len(numbers) :].tolist()
            norm = sum(map(operator.mul, norm_shares, norm_N)) if norm_N else math.nan
            if measured is None:
                return signals, norm
            moments = measured.statistics(host[: 3 * len(numbers)])
            wanted = moments if measured.with_variance else None
            return dataclasses.replace(signals, loss_K=moments.loss_K, statistics=wanted), norm

        return StepResult(read, c_K)

    def _begin_fetch(self, numbers: Sequence[Tensor]) -> Callable[[], Tensor]:
        """Begins to bring numbers to the CPU, in a row; the function waits for them."""
        if not numbers:
            return lambda: torch.empty(0)
        # Wider once they are one: XLA gathers twice from its chips what is widened before.
        gathered = torch.cat([part.to(numbers[0].device).flatten() for part in numbers])
        return self.passes.begin_fetch(gathered.double())

    def _compute_in_one_pass(
        self, signals: Signals, rows: StepRows, c_K: Floats | None
    ) -> StepResult:
        """One pass over all rows, of weighted losses."""
        target, passes, result = self.target, self.passes, []
        share_K = domain_shares(rows) if c_K is None else c_K
        passes.clear_gradients(target.parameters)
        with parallel.without_ddp_synchronization(target.model) as plain:
            for piece, last in with_is_last(rows.pieces(share_K)):
                with target.summing_over_processes(last=last):
                    loss_B = backpropagate_and_return_losses(
                        plain, target, piece.rows, piece.weight_B
                    )
                passes.launch_recorded_operations()
                result.append((piece, loss_B))
        wait = self._begin_fetch(
            [rows.gather_for_domain_means(result), self._clip_and_return_norm()]
        )

        def read() -> tuple[Signals, float]:
            *_, norm = (host := wait()).tolist()
            return dataclasses.replace(
                signals, loss_K=rows.domain_means_of_gathered(host[:-1])
            ), norm

        return StepResult(read, c_K)

    def _move_moments(
        self,
        signals: Signals,
        rows: StepRows,
        c_K: Floats | None,
        measures: bool,
        leave_gradient: bool,
    ) -> StepResult:
        """Moves the moments of each domain by its clipped gradient."""
        self.optimizer.forget_taken_coefficients()
        share_K = domain_shares(rows)
        chosen_K = share_K if c_K is None else c_K
        norms: list[Tensor] = []
        share: list[float] = []

        def take(k: int, parts: list[Tensor]) -> None:
            self.target.add_to_gradient(parts, 1.0)
            norms.append(self._clip_and_return_norm())
            share.append(float(share_K[k]))
            self.optimizer.update_domain_moments(k, float(chosen_K[k]))
            self.optimizer.zero_grad()
            self.passes.launch_recorded_operations()

        of_domains = self._rows_by_domain(rows, measures)
        with self._without_traces_unless_left(leave_gradient):
            measured = gradient_moments.measure_domains(
                self.target, of_domains, take, with_variance=measures
            )
        return self._begin_result_fetch(signals, measured, norms, share, c_K)

    def domain_means(self, of_rows: Callable[[nn.Module, Rows], Tensor], rows: StepRows) -> Floats:
        """Means by domain of a number of each row, at the current weights and without gradients."""
        result = []
        with (
            self.passes.leave_no_trace(self.target.model, training=False),
            parallel.without_ddp_synchronization(self.target.model) as plain,
        ):
            for piece in rows.pieces():
                number_B = of_rows(plain, piece.rows)
                self.passes.launch_recorded_operations()
                result.append((piece, number_B))
        free_gathered_weights(self.target.units)
        return rows.domain_means_of_gathered(
            self.passes.begin_fetch(rows.gather_for_domain_means(result))()
        )

    def _without_traces_unless_left(self, leave_gradient: bool) -> AbstractContextManager[object]:
        """Around passes over the batch: where they are not the training's, nothing remains."""
        if leave_gradient:
            return contextlib.nullcontext()
        return self.passes.leave_no_trace(self.target.model, training=True)

    def measure_gradient_statistics(
        self, rows: StepRows, *, with_inner_products: bool
    ) -> GradientStatistics:
        """Statistics of rows of their own; with the inner products, where they are wanted."""
        of_domains, target = self._rows_by_domain(rows, True), copy.copy(self.target)
        # All of it is one phase.
        target.passes = copy.copy(self.passes)
        target.passes.timed = contextlib.nullcontext
        if with_inner_products:
            measured = gradient_moments.measure_and_fetch_gramian(target, of_domains)
            return GradientStatistics(measured.statistics, measured.gram_KxK)
        moments = gradient_moments.measure_domains(target, of_domains)
        return GradientStatistics(moments.fetch_statistics(self.passes), None)

    def _combine_gradients(
        self,
        method: Method,
        state: State,
        signals: Signals,
        rows: StepRows,
        measures: bool,
        leave_gradient: bool,
    ) -> StepResult:
        """All K gradients of the batch, combined by what their inner products say."""
        of_domains = self._rows_by_domain(rows, measures)
        with self._without_traces_unless_left(leave_gradient):
            measured = gradient_moments.measure_and_fetch_gramian(
                self.target, of_domains, with_variance=measures
            )
        signals = dataclasses.replace(
            signals,
            loss_K=measured.statistics.loss_K,
            gram_KxK=measured.gram_KxK,
            statistics=measured.statistics if measures else None,
        )
        loss_K = signals.loss_K if method.needs().losses else None
        c_K = method.gradient_coefficients(state, dataclasses.replace(signals, loss_K=loss_K))
        if leave_gradient:
            chosen_K = domain_shares(rows) if c_K is None else c_K
            for c, parts in zip(chosen_K.tolist(), measured.gradient_K, strict=True):
                if parts is not None:
                    self.target.add_to_gradient(parts, c)
        norms = [self._clip_and_return_norm()] if leave_gradient else []
        return self._begin_result_fetch(signals, None, norms, [1.0], c_K)

    def _rows_by_domain(self, rows: StepRows, measures: bool) -> list[DomainRows]:
        size = self.statistics_micro_batch_rows if measures else self.micro_batch_rows
        return rows.rows_by_domain(size, whole_micro_batches=measures)

    def _clip_and_return_norm(self) -> Tensor:
        """Shortens the gradient; its norm before, on the device."""
        parameters = self.target.parameters
        return parallel.full_tensor(nn.utils.clip_grad_norm_(parameters, self.max_norm))
