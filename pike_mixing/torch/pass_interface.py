"""How passes over a model are made: what differs from one training to another.

`Passes` serves any torch model. A training that makes losses in another way (in chunks, fused),
needs passes of one shape, or keeps a clock, overrides the methods that it changes. The pipeline's
is `pipeline.model.pipeline_passes`.

Shapes: K domains, R rows over all processes, B rows of one pass.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from pike_mixing.errors import InputError
from pike_mixing.torch import parallel, rows
from pike_mixing.torch.losses import RowLosses, checked_losses
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.rows import Rows

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


@contextlib.contextmanager
def preserving_gradients_buffers_random_state(model: nn.Module) -> Iterator[None]:
    """Takes the parameters' gradients away for the block, and puts back what was there before it.

    Running statistics of BatchNorm and other buffers are copied meanwhile. Dropout draws what the
    next pass of the training will draw. The mode, training or evaluation, is the caller's.
    """
    gradients = [(p, p.grad) for p in model.parameters()]
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    places = {p.device for p, _ in gradients if p.device.type != "cpu"}
    kind = next((device.type for device in places), "cuda")
    with torch.random.fork_rng(devices=list(places), device_type=kind):
        try:
            for parameter, _ in gradients:
                parameter.grad = None
            yield
        finally:
            for parameter, gradient in gradients:
                parameter.grad = gradient
            with torch.no_grad():
                for module, name, buffer, before in buffers:
                    setattr(module, name, buffer)
                    if not _is_expanded(buffer):
                        buffer.copy_(before)


def _is_expanded(buffer: Tensor) -> bool:
    """Whether its numbers share memory (`expand`), so that nobody can write to it."""
    strides = buffer.stride() if buffer.layout == torch.strided else ()
    return any(size > 1 and not step for size, step in zip(buffer.shape, strides, strict=False))


@contextlib.contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """A model in training or evaluation mode, and each module as it was afterwards.

    Modules that a model in training mode keeps in evaluation, such as a frozen BatchNorm, stay so.
    """
    before = [(module, module.training) for module in model.modules()]
    if model.training != training:
        model.train(training)
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode


Timed = Callable[[str], AbstractContextManager[object]]
"""`with timed("data"): ...` counts the block's seconds to a phase."""


class Piece(NamedTuple):
    """The rows of one pass."""

    rows: Rows
    weight_B: Tensor
    """What each row counts: 0 for one that fills up, or stands in for a process without rows."""
    size: int
    """Rows without those that fill it up; they come first."""
    counts: float
    """1, or 0 where the rows stand in: every process makes the same number of passes."""


class DomainRows(NamedTuple):
    """The rows of one domain."""

    pieces: Iterable[Piece]
    """The passes of this process."""
    rows: int
    """Rows over all processes."""
    passes: int
    """Micro-batches over all processes."""


@dataclasses.dataclass(eq=False)
class Passes:
    """Passes over any torch model."""

    loss_fn: RowLosses
    """The loss of each row (B), or the mean loss of all, with a graph."""
    excess_fn: RowLosses | None = None
    """The excess of each row over a reference model, for methods with one: the mean over the row's
    tokens of max(l - l_reference, 0)."""
    group: Group = None
    """The data-parallel processes; all of them when absent."""
    timed: Timed = contextlib.nullcontext
    """A clock of the phases forward, backward, statistics, validation, data, gradient."""

    fixed = False
    """Whether all passes have the same shape, for a device that compiles each."""
    modes = True
    """Whether losses in training mode may differ from those in evaluation mode, as by dropout."""
    accumulates_whole = False
    """Whether gradients of a model in shards stay whole on each process until the last of several
    passes, which then makes the only sum over the processes (FSDP2)."""

    def weighted_sum_with_graph_and_losses(
        self, model: nn.Module, batch: Rows, weight_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The sum of the rows' losses by weight, with its graph, and the losses (B) without."""
        # Torch 2.9 keeps a weight that was cast without a gradient, and so hides it.
        torch.clear_autocast_cache()
        loss = self.loss_fn(model, batch)
        loss_B = checked_losses(loss, len(weight_B)) if loss.ndim else loss.expand(len(weight_B))
        return (loss_B * weight_B.to(loss.device)).sum(), loss_B.detach()

    def losses(self, model: nn.Module, batch: Rows) -> Tensor:
        """The loss of each row (B), without a graph."""
        return self._forward_without_graph(self.loss_fn, model, batch)

    def clipped_excess_losses(self, model: nn.Module, batch: Rows) -> Tensor:
        """The excess of each row over the reference (B), see `excess_fn`, without a graph."""
        assert self.excess_fn is not None, "refused where it is needed"
        return self._forward_without_graph(self.excess_fn, model, batch)

    def _forward_without_graph(self, of_rows: RowLosses, model: nn.Module, batch: Rows) -> Tensor:
        with torch.no_grad():
            torch.clear_autocast_cache()
            return checked_losses(of_rows(model, batch), rows.row_count(batch))

    def pieces_of_this_process(
        self, batch: Rows, weight_R: Tensor, size: int, *, whole_micro_batches: bool = False
    ) -> Iterator[Piece]:
        """The passes of this process over rows that all know, see `parallel.deal_micro_batches`.

        Args:
            batch: The R rows; at least one.
            weight_R: What each row counts.
            size: Rows of a pass.
            whole_micro_batches: Whether micro-batches are dealt as one process would make them,
                rather than rows.
        """
        deal_by: parallel.DealBy = "micro-batch" if whole_micro_batches else "row"
        dealt = parallel.deal_micro_batches(len(weight_R), size, self.group, deal_by=deal_by)
        for own, counts in dealt:
            weight_B = weight_R[own] * counts
            yield Piece(
                rows.read_if_unread(rows.select(batch, own)), weight_B, len(weight_B), counts
            )

    def device_number(self, value: float) -> float | Tensor:
        """A number that changes between passes, as the device computes with it."""
        return value

    def clear_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Takes the parameters' gradients away; their memory stays with whoever holds them."""
        for parameter in parameters:
            parameter.grad = None

    def launch_recorded_operations(self) -> None:
        """Has a device that compiles run what was recorded for it; others have begun already."""

    def begin_fetch(self, tensor: Tensor) -> Callable[[], Tensor]:
        """Begins to bring a tensor to the CPU's memory; the function waits for it."""
        if tensor.device.type != "cuda":
            return tensor.cpu
        host, here = tensor.to("cpu", non_blocking=True), torch.cuda.Event()
        here.record(torch.cuda.current_stream(tensor.device))

        def wait() -> Tensor:
            here.synchronize()
            return host

        return wait

    def leave_no_trace(self, model: nn.Module, *, training: bool) -> AbstractContextManager[object]:
        """Around passes, in training mode or not, beside the training: nothing of them remains."""
        stack = contextlib.ExitStack()
        stack.enter_context(in_mode(model, training))
        stack.enter_context(preserving_gradients_buffers_random_state(model))
        stack.callback(torch.clear_autocast_cache)
        return stack


def current_mode_losses_without_trace(model: nn.Module, loss_fn: RowLosses, batch: Rows) -> Tensor:
    """Losses of the rows of a batch, in a pass of which nothing remains."""
    preserving = preserving_gradients_buffers_random_state(model)
    with preserving, parallel.without_ddp_synchronization(model) as plain:
        loss_B = Passes(loss_fn).losses(plain, batch)
        torch.clear_autocast_cache()
    free_gathered_weights(parallel.fsdp2_modules_or_refuse(model))
    return loss_B


def free_gathered_weights(units: Sequence["FSDPModule"]) -> None:
    """Frees what passes without gradients leave behind of a model in shards.

    Weights that stay put together would be the old ones after the optimizer's update.
    """
    for unit in units:
        unit.reshard()


class Target:
    """A model with its passes: the parameters that get gradients, and how these come together."""

    def __init__(self, model: nn.Module, passes: Passes) -> None:
        """Reads a model, wrapped or not."""
        self.model, self.passes, self.group = model, passes, passes.group
        self.units = parallel.fsdp2_modules_or_refuse(model)
        self.parameters = parallel.trainable_parameters(model)
        if not self.parameters:
            raise InputError("the model has no trainable parameter: nothing to measure")
        if any(getattr(p, "_post_accumulate_grad_hooks", None) for p in self.parameters):
            raise InputError(
                "the model's parameters have hooks that run when a gradient is there, such as an "
                "optimizer that steps within the backward pass: measuring would run them too; "
                "remove them around the call"
            )
        self.arriving = parallel.parameters_where_gradients_arrive(model, self.units)
        """Where the gradients of this process's own rows arrive, before they become shards."""
        self.divisor = parallel.fsdp2_gradient_divisor(self.units, self.group)
        """By what the sum over the processes is divided where gradients are in shards."""
        self.device = self.parameters[0].device

    @contextlib.contextmanager
    def accumulating(self, *, last: bool) -> Iterator[None]:
        """A backward pass over a part of a batch.

        Before the `last` one, shards may wait with their sum (`accumulates_whole`).
        """
        units = self.units if self.passes.accumulates_whole and not last else []
        for unit in units:
            unit.set_requires_gradient_sync(False, recurse=False)
        try:
            yield
        finally:
            for unit in units:
                unit.set_requires_gradient_sync(True, recurse=False)

    @contextlib.contextmanager
    def summing_over_processes(self, *, last: bool) -> Iterator[None]:
        """The same; after the last, the parameters' gradients are the sums over the processes."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.accumulating(last=last))
            if last and parallel.world_size(self.group) > 1:
                whole = [p for p in self.parameters if not parallel.is_sharded(p)]
                # They begin as the gradients arrive.
                stack.enter_context(parallel.summing_gradients(whole, self.group))
            yield

    def add_to_gradient(self, consumed_parts: Sequence[Tensor], coefficient: float) -> None:
        """Adds c g to the parameters' gradient; where there is none, g's own memory becomes it."""
        c = self.passes.device_number(coefficient)
        for parameter, part in zip(self.parameters, consumed_parts, strict=True):
            if parameter.grad is None:
                parameter.grad = part.mul_(c)
            elif isinstance(c, Tensor):
                parameter.grad.add_(part * c)
            else:
                parameter.grad.add_(part, alpha=c)
        self.passes.launch_recorded_operations()
