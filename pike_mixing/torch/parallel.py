"""Several processes: each has its own rows; sums over all of them are the same on each."""

import contextlib
import functools
import math
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pike_mixing.errors import InputError

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

Group = dist.ProcessGroup | None
"""The processes that share the work; None: all of them."""


def world_size(group: Group = None) -> int:
    """Processes that work together; 1 without `torch.distributed`."""
    return dist.get_world_size(group) if _is_distributed() else 1


def rank(group: Group = None) -> int:
    """Which of them this is, from 0."""
    return dist.get_rank(group) if _is_distributed() else 0


def _is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


DEALERS = ("IterableDatasetShard", "DataLoaderDispatcher", "_InOrder")
"""Classes that deal out the rows of an iterable themselves: those of Accelerate, which prepared
loaders and the Trainer of transformers use, and a domain of a mixed data set."""


def is_caller_dealing_rows() -> bool:
    """Whether one of the `DEALERS` asks for rows, or for their number, in this call.

    They read an iterable whole, and say so nowhere.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_qualname.partition(".")[0] in DEALERS:
            return True
        frame = frame.f_back
    return False


def gather_texts(text: str, group: Group = None) -> list[str]:
    """The text of every process, by rank."""
    result = [text] * world_size(group)
    dist.all_gather_object(result, text, group=group)
    return result


def publish_and_read_texts(key: str, text: str) -> dict[int, str]:
    """The texts of this key by rank, of this process and those that were here before.

    A process that alone looks at its rows need not wait for the others.
    """
    store = dist.distributed_c10d._get_default_store() if _is_distributed() else None
    if store is None:  # MPI has none.
        return {rank(): text}
    keys = [f"pike_mixing/{key}/{one}" for one in range(world_size())]
    store.set(keys[rank()], text)
    return {one: store.get(name).decode() for one, name in enumerate(keys) if store.check([name])}


BUCKET_BYTES = 25 * 2**20
"""Tensors that are summed over the processes together have so many bytes, or are one tensor: the
least that uses a network fully (Li et al. 2020, arXiv 2006.15704, Section 4.2)."""


def sum_in_place(tensors: Sequence[Tensor], group: Group = None) -> None:
    """Puts the sum over the processes in the place of each tensor."""
    if world_size(group) > 1:
        for bucket in [_SumInProgress(part, group) for part in _buckets_of_tensors(tensors)]:
            bucket.finish()


class _SumInProgress:
    """Tensors whose sum is under way."""

    def __init__(self, tensors: Sequence[Tensor], group: Group) -> None:
        self._tensors = tensors
        self._flat = tensors[0] if len(tensors) == 1 else torch.cat([t.flatten() for t in tensors])
        self._work = dist.all_reduce(self._flat, group=group, async_op=True)

    def finish(self) -> None:
        """Waits for the sum, and puts it in place."""
        self._work.wait()
        if len(self._tensors) > 1:
            sums = self._flat.split([t.numel() for t in self._tensors])
            for tensor, own in zip(self._tensors, sums, strict=True):
                tensor.copy_(own.view_as(tensor))


def _buckets_of_tensors(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """The tensors in their order, cut where bytes or kind of number tell buckets apart."""
    result: list[list[Tensor]] = []
    size = 0
    for tensor in tensors:
        size += tensor.nbytes
        if not result or size > BUCKET_BYTES or tensor.dtype != result[-1][0].dtype:
            result.append([])
            size = tensor.nbytes
        result[-1].append(tensor)
    return result


@contextlib.contextmanager
def summing_gradients(parameters: Sequence[Tensor], group: Group = None) -> Iterator[None]:
    """A backward pass after which the gradients of these parameters are the sums over all.

    A bucket's sum begins as soon as its last gradient is there, while the pass goes on; the order
    of buckets is that of the parameters backwards, the same on each process. A parameter without
    a gradient, such as an expert that got no tokens here, adds zeros; they stay where no process
    has one.
    """
    buckets = _buckets_of_tensors([*parameters][::-1])
    missing = [{id(p) for p in bucket} for bucket in buckets]
    begun: list[_SumInProgress] = []

    def begin_next_sum() -> None:
        for p in (bucket := buckets[len(begun)]):
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        begun.append(_SumInProgress([p.grad for p in bucket if p.grad is not None], group))

    def count_arrival(bucket: int, parameter: Tensor) -> None:
        if id(parameter) not in missing[bucket]:
            raise InputError(
                "a parameter's gradient comes in several parts: it is used within and without "
                "reentrant checkpointing, or in two checkpoints; set use_reentrant=False"
            )
        missing[bucket].remove(id(parameter))
        while len(begun) < len(buckets) and not missing[len(begun)]:
            begin_next_sum()

    with contextlib.ExitStack() as hooks:
        for number, own in enumerate(buckets):
            listen = functools.partial(count_arrival, number)
            for p in own:
                hooks.enter_context(p.register_post_accumulate_grad_hook(listen))
        yield
    while len(begun) < len(buckets):
        begin_next_sum()
    for bucket in begun:
        bucket.finish()


def communication_device(group: Group = None) -> torch.device:
    """Where numbers must lie to travel: NCCL takes those of the GPU alone."""
    if _is_distributed() and "nccl" in str(dist.get_backend_config(group)):
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def gather_numbers(numbers: Sequence[float], group: Group = None) -> Tensor:
    """The numbers of every process, W x N in float64 on the CPU."""
    mine = torch.tensor(list(numbers), dtype=torch.float64)
    if world_size(group) == 1:
        return mine[None]
    mine = mine.to(communication_device(group))
    result = [torch.empty_like(mine) for _ in range(world_size(group))]
    dist.all_gather(result, mine, group=group)
    return torch.stack(result).cpu()


def fsdp2_modules_or_refuse(model: nn.Module) -> list["FSDPModule"]:
    """The modules that `fully_shard` has cut into shards (FSDP2)."""
    kinds = {type(module).__name__ for module in model.modules()}
    if "FullyShardedDataParallel" in kinds:
        raise InputError(
            "the model is wrapped in FullyShardedDataParallel (FSDP1), whose flat parameters have "
            "no gradients of their own: shard it with torch.distributed.fsdp.fully_shard (FSDP2)"
        )
    if any(hasattr(p, "ds_id") for p in model.parameters()) or "DeepSpeedEngine" in kinds:
        raise InputError(
            "the model belongs to DeepSpeed, which hides the gradients of single micro-batches: "
            "train with DistributedDataParallel or fully_shard, or with a rule that needs no "
            "gradient statistics (ado, odm, fixed)"
        )
    return _fsdp_modules(model)


def _fsdp_modules(model: nn.Module) -> list["FSDPModule"]:
    # Its import takes seconds, which a model that is not cut need not spend.
    if not _is_distributed() or "torch.distributed.fsdp" not in sys.modules:
        return []
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def parameters_where_gradients_arrive(
    model: nn.Module, units: Sequence["FSDPModule"]
) -> list[Tensor]:
    """Where the gradients of this process's own rows arrive, before they become shards."""
    result = {id(p): p for p in model.parameters() if not is_sharded(p)}
    for unit in units:
        unit.unshard()
        result |= {id(p): p for p in model.parameters() if not is_sharded(p)}
        unit.reshard()
    if len([p for p in result.values() if p.requires_grad]) != len(trainable_parameters(model)):
        raise InputError(
            "the model's parameters are DTensors even where fully_shard has put them together "
            "(tensor parallelism): gradient statistics are not measured of such a model"
        )
    return [p for p in result.values() if p.requires_grad]


def fsdp2_gradient_divisor(units: Sequence["FSDPModule"], group: Group) -> float:
    """By what FSDP2 divides the sum of the processes' gradients: their number where not set."""
    states = [unit._get_fsdp_state() for unit in units]
    factors = {
        part.gradient_divide_factor or float(world_size(group))
        for state in states
        # Torch has no reader for what `set_gradient_divide_factor` writes.
        for part in getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
        if part is not None
    }
    if len(factors) > 1:
        raise InputError(
            f"set_gradient_divide_factor: units divide by {sorted(factors)}: set one number for all"
        )
    return factors.pop() if factors else 1.0


def fsdp2_divisor_or_world_size(model: nn.Module | None, group: Group = None) -> float:
    """By what a training divides the sum of the processes' gradients: their number if not set."""
    units = [] if model is None else _fsdp_modules(model)
    return fsdp2_gradient_divisor(units, group) if units else float(world_size(group))


def trainable_parameters(model: nn.Module) -> list[Tensor]:
    """Parameters that get a gradient; each once, however many modules share it."""
    return [p for p in model.parameters() if p.requires_grad]


def is_sharded(tensor: Tensor) -> bool:
    """Whether each process has a part of it (DTensor)."""
    return hasattr(tensor, "to_local")


def shard_placement(tensor: Tensor) -> tuple[Any, tuple[Any, ...]] | None:
    """The mesh and placements of a tensor in shards; None of any other."""
    shards: Any = tensor
    return (shards.device_mesh, tuple(shards.placements)) if is_sharded(tensor) else None


def local_part(tensor: Tensor) -> Tensor:
    """This process's part of a tensor in shards; any other as it is."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


class DealtMicroBatch(NamedTuple):
    """Rows of one pass of this process."""

    rows: slice
    counts: float
    """1, or 0 for a pass that is made only because the others make one."""


DealBy = Literal["row", "micro-batch"]
"""What goes to one process after the other."""


def deal_micro_batches(
    R: int, size: int, group: Group = None, *, deal_by: DealBy = "row"
) -> list[DealtMicroBatch]:
    """The micro-batches that this process passes of rows that all have, and whether each counts.

    Rows are dealt in their order: the first to the first process, the second to the second. A
    process that has none left passes the first row once more, without counting (0.0), so that all
    make the same number of passes. By micro-batch, those are dealt that one process would make.
    """
    n, first = world_size(group), rank(group)
    if deal_by == "micro-batch":
        most = math.ceil(math.ceil(R / size) / n)
        own = [slice(at, min(at + size, R)) for at in range(first * size, R, n * size)]
    else:
        most = math.ceil(math.ceil(R / n) / size)
        own = [slice(at, min(at + n * size, R), n) for at in range(first, R, n * size)]
    dealt = [DealtMicroBatch(rows, 1.0) for rows in own]
    return dealt + [DealtMicroBatch(slice(1), 0.0)] * (most - len(own))


def gather_numbers_of_rows(
    numbers_and_is_counted: Sequence[tuple[Tensor, float]], R: int, group: Group = None
) -> Tensor:
    """Numbers of all R rows, from those of the micro-batches that were dealt to this process."""
    parts = [numbers if counts else numbers[:0] for numbers, counts in numbers_and_is_counted]
    mine = torch.cat(parts)
    if world_size(group) == 1:
        return mine
    all_R = torch.zeros(R, dtype=mine.dtype, device=mine.device)
    all_R[rank(group) :: world_size(group)] = mine
    sum_in_place([all_R], group)
    return all_R


def full_tensor(tensor: Tensor) -> Tensor:
    """A tensor in shards put together, on every process; any other as it is."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


@contextlib.contextmanager
def without_ddp_synchronization(model: nn.Module) -> Iterator[nn.Module]:
    """The model without its DistributedDataParallel, which does not reduce in the block."""
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, DistributedDataParallel):
                stack.enter_context(module.no_sync())
        yield model.module if isinstance(model, DistributedDataParallel) else model
