"""One run on several processes, as torchrun starts them; a process alone is the first of one.

Every process holds the whole mixture, method and batch, and makes the gradients of some of the
rows: all numbers that a decision hangs on are sums over the processes, and the same on each. So
each of them decides for itself, and only the first writes anything.

Rows are dealt in their order: the first to the first process, the second to the second, and so on.
Where the numbers depend on which rows pass together, whole micro-batches are dealt. A process that
has none left passes the first row once more, with weight 0: all make the same number of passes.

Sums are in float32 for gradients and in float64 for what is measured. Two processes add up in
another order than one, so that the last bits differ with the number of processes.

Shapes: R rows.
"""

import contextlib
import logging
import math
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from pike_mixing.errors import InputError
from pipeline.runtime.signal_handler import STOPPED, Interrupted

log = logging.getLogger("pike")

T = TypeVar("T")

BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
"""By kind of device; numbers on the CPU always travel through gloo."""


def launched_world_size() -> int:
    """Processes that were started for this run: torchrun tells each of them."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "MASTER_ADDR" in os.environ else 1


def world_size() -> int:
    """Processes that train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_main_process() -> bool:
    """Whether this is the first, who alone writes."""
    return rank() == 0


@contextlib.contextmanager
def fail_together() -> Iterator[None]:
    """What goes wrong inside the block ends all processes, and the first to know says what it is.

    The others notice when they next want to hear of it, and end without a word. A signal ends all
    in the same way, once the first has written what is to be kept.
    """
    if launched_world_size() == 1:
        yield
        return
    store, _, _ = next(rendezvous("env://"))
    try:
        yield
    except Interrupted:
        first = is_main_process()
        _await_all()
        if not first:
            raise SystemExit(STOPPED) from None
        raise
    except BaseException:
        if not _first_to_fail(store):
            raise SystemExit(1) from None
        raise
    if dist.is_initialized():
        dist.destroy_process_group()


def _await_all() -> None:
    """Waits until all are here: torchrun soon kills the others when one has ended by itself."""
    # One that failed at the last does not come.
    with contextlib.suppress(RuntimeError):
        all_reduce_max(0)
    dist.destroy_process_group()


def _first_to_fail(store: Any) -> bool:
    try:
        return bool(store.add("failures", 1) == 1)
    except dist.DistError:
        # Without torchrun the first process keeps the store, and has ended before.
        return False


def join(device: torch.device) -> None:
    """Waits for the other processes, and has them work together from here on.

    Raises:
        InputError: several processes cannot work on such a device.
    """
    if launched_world_size() == 1:
        return
    if device.type not in BACKENDS:
        raise InputError(f"several processes cannot train on {device.type}: start the run alone")
    dist.init_process_group(BACKENDS[device.type])
    if not is_main_process():
        log.setLevel(logging.ERROR)


def all_reduce_max(number: int) -> int:
    """The highest of the processes' numbers."""
    if world_size() == 1:
        return number
    found = torch.tensor(number)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return int(found)


def broadcast_from_main(make: Callable[[], T]) -> T:
    """What the first process makes; the others wait for it."""
    if world_size() == 1:
        return make()
    told: list[Any] = [make() if is_main_process() else None]
    dist.broadcast_object_list(told)
    return told[0]


def all_reduce_sum(tensors: Sequence[Tensor]) -> None:
    """Puts the sum over the processes in the place of each tensor."""
    if world_size() > 1:
        sums = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for found in sums:
            found.wait()


def all_reduce_gradients(gradients: Sequence[Tensor]) -> None:
    """The same for gradients, but for those in shards: their passes have added them up."""
    all_reduce_sum([g for g in gradients if not _in_shards(g)])


def reduce_over_shards(number: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """The sum over the processes of what each made of its shards; whole parts say it all."""
    if parts and _in_shards(parts[0]):
        all_reduce_sum([number])
    return number


def shard_microbatches(
    rows: Tensor, microbatch: int, *, whole: bool = False
) -> list[tuple[Tensor, float]]:
    """The micro-batches that this process passes, and whether each counts: 1 or 0.

    Args:
        rows: Rows R x ... of all processes; at least one.
        microbatch: Rows of a pass.
        whole: Whether micro-batches are dealt as one process would make them, rather than rows.
    """
    n, own = world_size(), slice(rank(), None, world_size())
    if whole:
        pieces = list(rows.split(microbatch))
        most, mine = math.ceil(len(pieces) / n), pieces[own]
    else:
        most = math.ceil(math.ceil(len(rows) / n) / microbatch)
        mine = [piece for piece in rows[own].split(microbatch) if len(piece)]
    return [(piece, 1.0) for piece in mine] + [(rows[:1], 0.0)] * (most - len(mine))


def gather_rows(own: Sequence[tuple[Tensor, float]], R: int) -> Tensor:
    """Numbers of all rows, from those of the rows that were dealt to each process.

    Args:
        own: For each micro-batch of this process a number per row, and whether it counts.
        R: Rows of all processes.
    """
    mine = torch.cat([numbers if counts else numbers[:0] for numbers, counts in own])
    if world_size() == 1:
        return mine
    all_R = torch.zeros(R, dtype=mine.dtype, device=mine.device)
    all_R[rank() :: world_size()] = mine
    all_reduce_sum([all_R])
    return all_R


def local_shard(tensor: Tensor) -> Tensor:
    """This process's shard of a tensor in shards; any other as it is."""
    # The class itself takes seconds to import, and one process never needs it.
    return tensor.to_local() if _in_shards(tensor) else tensor  # type: ignore[attr-defined]


def full_tensor(tensor: Tensor) -> Tensor:
    """A tensor in shards put together, on every process; any other as it is."""
    return tensor.full_tensor() if _in_shards(tensor) else tensor  # type: ignore[attr-defined]


def distribute_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor, cut into shards as a parameter of its shape is."""
    if not _in_shards(parameter) or tensor.shape != parameter.shape:
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(parameter, DTensor)
    mesh, placements = parameter.device_mesh, parameter.placements
    # Everybody has the whole tensor: nothing need be sent.
    return distribute_tensor(tensor.to(mesh.device_type), mesh, placements, src_data_rank=None)


def _in_shards(tensor: Tensor) -> bool:
    return hasattr(tensor, "to_local")
