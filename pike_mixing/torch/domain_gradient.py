"""Backward passes over one domain's rows: its mean gradient, and what they tell of it.

`pike_mixing.numerics.moments` has the estimates. Micro-batches add up in place, and the
norm of each is read as its gradient arrives: one gradient is all the memory.

Shapes: R rows of the domain over all processes, n micro-batches, B rows of one.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pike_mixing.errors import InputError
from pike_mixing.numerics.moments import variance_of_rows
from pike_mixing.torch import parallel
from pike_mixing.torch.pass_interface import DomainRows, Target
from pike_mixing.torch.rows import Rows, with_is_last

PIECE_NUMBERS = 2**18
"""Products that a CPU adds up in float32 at a time: 10^8 of them at once are off by 0.4 %."""


class MeasuredGradient(NamedTuple):
    """A domain's gradient, and what was measured of it, still on the device."""

    parts: list[Tensor]
    """One tensor for each trained parameter."""
    numbers_3: Tensor
    """Squared norm, variance and mean loss, float64. The variance is NaN where it is not wanted, or
    of a single micro-batch."""


def measure_domain_gradient(
    model: nn.Module, target: Target, rows: DomainRows, *, with_variance: bool
) -> MeasuredGradient:
    """The gradient of the mean loss of a domain's rows over all processes; at least one row.

    `model` is the target's without its DistributedDataParallel; the parameters' gradients stay as
    they are.
    """
    R, n, passes = rows.rows, rows.passes, target.passes
    number = passes.device_number
    # A program that measures one micro-batch, and finds NaN, is the one that measures several.
    listens = with_variance and (n > 1 or passes.fixed)
    count, freedom = number(R), number(n - 1 if n > 1 else math.nan)
    loss = torch.zeros((), dtype=torch.float64, device=target.device)
    weighted_squares = torch.zeros_like(loss)
    with _squared_norm_reader(target, listens) as squares, _set_gradients_aside(target):
        for piece, last in with_is_last(rows.pieces):
            with target.accumulating(last=last):
                loss_B = backpropagate_and_return_losses(
                    model, target, piece.rows, piece.weight_B / count
                )
            own = (loss_B.double() * piece.weight_B.to(loss_B.device)).sum() / count
            loss += own.to(loss.device)
            if listens:
                # What arrives is s / R of the micro-batch's mean gradient.
                weighted_squares += squares() * number(R**2 / piece.size / target.divisor**2)
            passes.launch_recorded_operations()
        parts = [_dense_gradient(p) for p in target.parameters]
    # Shards have been added up by their passes.
    parallel.sum_in_place([part for part in parts if not parallel.is_sharded(part)], target.group)
    parallel.sum_in_place([loss, weighted_squares], target.group)
    with passes.timed("statistics"):
        squared_norm, variance = inner_product(parts, parts), torch.full_like(loss, math.nan)
    if listens:
        variance = variance_of_rows(weighted_squares, squared_norm, count, freedom)
    passes.launch_recorded_operations()
    return MeasuredGradient(parts, torch.stack([squared_norm, variance, loss]))


def backpropagate_and_return_losses(
    model: nn.Module, target: Target, batch: Rows, weight_B: Tensor
) -> Tensor:
    """Adds the gradient of B rows' weighted losses to the parameters'; the losses, no graph."""
    scaled_B = weight_B if target.divisor == 1 else weight_B * target.divisor
    with target.passes.timed("forward"):
        weighted, loss_B = target.passes.weighted_sum_with_graph_and_losses(model, batch, scaled_B)
    if not weighted.requires_grad:
        raise InputError(
            "the loss has no graph to the model's parameters: is loss_fn under torch.no_grad, or "
            "does it detach?"
        )
    with target.passes.timed("backward"):
        weighted.backward()
    return loss_B


def _dense_gradient(parameter: Tensor) -> Tensor:
    """A parameter's gradient: zero for one that takes no part in the loss."""
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    return parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad


@contextlib.contextmanager
def _set_gradients_aside(target: Target) -> Iterator[None]:
    """Takes the parameters' gradients away for the block, and puts them back."""
    kept = [p.grad for p in target.parameters]
    target.passes.clear_gradients(target.parameters)
    try:
        yield
    finally:
        for p, before in zip(target.parameters, kept, strict=True):
            p.grad = before


@contextlib.contextmanager
def _squared_norm_reader(target: Target, enabled: bool) -> Iterator[Callable[[], Tensor]]:
    """A function that gives the squared norm of what a pass has brought, before it adds up.

    No gradient is copied: each is read where the pass has made it.
    """
    watched = target.arriving if enabled else []
    # Terms that are kept one by one would lie between gradients and break up a CPU's memory.
    terms = torch.zeros(sum(1 + p.numel() // PIECE_NUMBERS for p in watched), device=target.device)
    slots = terms.unbind()
    arrived: set[int] = set()
    written = 0

    def add_squared_norm(number: int, gradient: Tensor) -> None:
        nonlocal written
        if number in arrived:
            raise InputError(
                "a parameter's gradient comes in several parts, whose norms do not add up: it is "
                "used within and without reentrant checkpointing, or in two checkpoints; set "
                "use_reentrant=False"
            )
        arrived.add(number)
        with target.passes.timed("statistics"):
            dense = gradient.detach()
            if dense.is_sparse:
                dense = dense.coalesce().values()
            for piece in _flat_pieces(dense.float()):
                torch.dot(piece, piece, out=slots[written])
                written += 1

    def take_squared_norm() -> Tensor:
        nonlocal written
        squared_norm = terms[:written].double().sum()
        arrived.clear()
        written = 0
        return squared_norm

    with contextlib.ExitStack() as hooks:
        for number, p in enumerate(watched):
            hooks.enter_context(p.register_hook(functools.partial(add_squared_norm, number)))
        yield take_squared_norm


def inner_product(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Inner product over all parts in float64; those in shards are summed over the processes.

    Copies of a shard, as in hybrid sharding, count once.
    """
    device = first[0].device
    by_place: dict[Any, list[Tensor]] = {}
    for a, b in zip(first, second, strict=True):
        place = parallel.shard_placement(a)
        of_a, of_b = (_flat_pieces(parallel.local_part(part).float()) for part in (a, b))
        by_place.setdefault(place, []).extend(
            torch.dot(x, y).to(device) for x, y in zip(of_a, of_b, strict=True)
        )
    sums = []
    for place, terms in by_place.items():
        sums.append(torch.stack(terms).double().sum())
        if place is not None:
            mesh, placements = place
            for dimension, placement in enumerate(placements):
                if placement.is_shard():
                    dist.all_reduce(sums[-1], group=mesh.get_group(dimension))
    return sums[0] if len(sums) == 1 else torch.stack(sums).sum()


def _flat_pieces(tensor: Tensor) -> tuple[Tensor, ...]:
    """A tensor's numbers in a row, in pieces that float32 adds up well."""
    flat = tensor.flatten()
    # Accelerators add up in a tree, and a piece of this size would not fill them.
    whole = len(flat) <= PIECE_NUMBERS or not flat.is_cpu
    return (flat,) if whole else flat.split(PIECE_NUMBERS)
