"""One run on several processes, as torchrun starts them; a process alone is the first of one.

Every process holds the whole mixture, method and batch, and makes the gradients of some of the
rows: all numbers that a decision hangs on are sums over the processes, and the same on each. So
each of them decides for itself, and only the first writes anything.

`pike_mixing.torch.parallel` deals the rows and makes the sums.

Sums are in float32 for gradients and in float64 for what is measured. Two processes add up in
another order than one, so that the last bits differ with the number of processes.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from pike_mixing.errors import InputError
from pike_mixing.torch import parallel
from pipeline.runtime.signal_handler import STOPPED, Interrupted

log = logging.getLogger("pike")

T = TypeVar("T")

BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
"""By kind of device; numbers on the CPU always travel through gloo."""


def launched_world_size() -> int:
    """Processes that were started for this run: torchrun tells each of them."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "MASTER_ADDR" in os.environ else 1


def is_main_process() -> bool:
    """Whether this is the first, who alone writes."""
    return parallel.rank() == 0


def is_first_of_node() -> bool:
    """Whether this is the first process on its machine, who alone looks into large files."""
    return launched_world_size() == 1 or os.environ.get("LOCAL_RANK", "0") == "0"


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
        _await_all_and_leave_group()
        if not first:
            raise SystemExit(STOPPED) from None
        raise
    except BaseException:
        if not _is_first_to_fail(store):
            raise SystemExit(1) from None
        raise
    if dist.is_initialized():
        dist.destroy_process_group()


def _await_all_and_leave_group() -> None:
    """Waits until all are here, and leaves: torchrun soon kills others when one has ended."""
    # One that failed at the last does not come.
    with contextlib.suppress(RuntimeError):
        all_reduce_max(0)
    dist.destroy_process_group()


def _is_first_to_fail(store: Any) -> bool:
    try:
        return bool(store.add("failures", 1) == 1)
    except dist.DistError:
        # Without torchrun the first process keeps the store, and has ended before.
        return False


def join_processes(device: torch.device) -> None:
    """Waits for the other processes, and has them work together from here on."""
    if launched_world_size() == 1:
        return
    if device.type not in BACKENDS:
        raise InputError(f"several processes cannot train on {device.type}: start the run alone")
    dist.init_process_group(BACKENDS[device.type])
    if not is_main_process():
        log.setLevel(logging.ERROR)


def all_reduce_max(number: int) -> int:
    """The highest of the processes' numbers."""
    if parallel.world_size() == 1:
        return number
    result = torch.tensor(number)
    dist.all_reduce(result, dist.ReduceOp.MAX)
    return int(result)


def broadcast_from_main(make: Callable[[], T]) -> T:
    """What the first process makes; the others wait for it."""
    if parallel.world_size() == 1:
        return make()
    told: list[Any] = [make() if is_main_process() else None]
    dist.broadcast_object_list(told)
    return told[0]


def distribute_if_same_shape(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor, cut into shards as a parameter of its shape and type is."""
    same = (tensor.shape, tensor.dtype) == (parameter.shape, parameter.dtype)
    if not parallel.is_sharded(parameter) or not same:
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(parameter, DTensor)
    mesh, placements = parameter.device_mesh, parameter.placements
    # Everybody has the whole tensor: nothing need be sent.
    return distribute_tensor(tensor.to(mesh.device_type), mesh, placements, src_data_rank=None)
