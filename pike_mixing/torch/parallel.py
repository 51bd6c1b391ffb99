"""Several processes: each has its own rows; sums over all of them are the same on each."""

import contextlib
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pike_mixing.errors import InputError

Group = dist.ProcessGroup | None
"""The processes that share the work; None: all of them."""


def world_size(group: Group = None) -> int:
    """Processes that work together; 1 without `torch.distributed`."""
    return dist.get_world_size(group) if _together() else 1


def rank(group: Group = None) -> int:
    """Which of them this is, from 0."""
    return dist.get_rank(group) if _together() else 0


def _together() -> bool:
    return dist.is_available() and dist.is_initialized()


def sum_(tensors: Sequence[Tensor], group: Group = None) -> None:
    """Puts the sum over the processes in the place of each tensor."""
    if world_size(group) > 1:
        for work in [dist.all_reduce(t, group=group, async_op=True) for t in tensors]:
            work.wait()


def device(group: Group = None) -> torch.device:
    """Where numbers must lie to travel: NCCL takes those of the GPU alone."""
    if _together() and "nccl" in str(dist.get_backend_config(group)):
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def gathered(numbers: Sequence[float], group: Group = None) -> Tensor:
    """The numbers of every process, W x N in float64 on the CPU."""
    mine = torch.tensor(list(numbers), dtype=torch.float64)
    if world_size(group) == 1:
        return mine[None]
    mine = mine.to(device(group))
    found = [torch.empty_like(mine) for _ in range(world_size(group))]
    dist.all_gather(found, mine, group=group)
    return torch.stack(found).cpu()


def sharded_units(model: nn.Module) -> list[nn.Module]:
    """The modules that `fully_shard` has cut into shards (FSDP2).

    Raises:
        InputError: the model is wrapped in something whose gradients cannot be measured.
    """
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
    if not _together():
        return []
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def whole_parameters(model: nn.Module, units: Sequence[nn.Module]) -> list[Tensor]:
    """Where the gradients of this process's own rows arrive, before they become shards.

    Raises:
        InputError: parameters are cut in another way as well.
    """
    found = {id(p): p for p in model.parameters() if not in_shards(p)}
    for unit in units:
        unit.unshard()  # type: ignore[operator]
        found |= {id(p): p for p in model.parameters() if not in_shards(p)}
        unit.reshard()  # type: ignore[operator]
    if len([p for p in found.values() if p.requires_grad]) != len(trained(model)):
        raise InputError(
            "the model's parameters are DTensors even where fully_shard has put them together "
            "(tensor parallelism): gradient statistics are not measured of such a model"
        )
    return [p for p in found.values() if p.requires_grad]


def divisor(units: Sequence[nn.Module], group: Group) -> float:
    """By what FSDP2 divides the sum of the processes' gradients: their number where not set.

    Raises:
        InputError: its units divide by different numbers.
    """
    states = [unit._get_fsdp_state() for unit in units]  # type: ignore[operator]
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


def trained(model: nn.Module) -> list[Tensor]:
    """Parameters that get a gradient; each once, however many modules share it."""
    return [p for p in model.parameters() if p.requires_grad]


def in_shards(tensor: Tensor) -> bool:
    """Whether each process has a part of it (DTensor)."""
    return hasattr(tensor, "to_local")


def local(tensor: Tensor) -> Tensor:
    """This process's part of a tensor in shards; any other as it is."""
    return tensor.to_local() if in_shards(tensor) else tensor  # type: ignore[attr-defined]


def sum_over_shards(numbers: Sequence[Tensor], parts: Sequence[Tensor]) -> Tensor:
    """The sum of a number per part, where each process made those of its own shards.

    Copies of a shard, as in hybrid sharding, count once.
    """
    whole = [n for n, part in zip(numbers, parts, strict=True) if not in_shards(part)]
    result = torch.stack(whole).sum() if whole else torch.zeros_like(numbers[0])
    cut: dict[tuple[object, ...], list[Tensor]] = {}
    for number, part in zip(numbers, parts, strict=True):
        if in_shards(part):
            key = (part.device_mesh, tuple(part.placements))  # type: ignore[attr-defined]
            cut.setdefault(key, []).append(number)
    for (mesh, placements), own in cut.items():
        found = torch.stack(own).sum()
        for dimension, placement in enumerate(placements):  # type: ignore[arg-type, var-annotated]
            if placement.is_shard():
                dist.all_reduce(found, group=mesh.get_group(dimension))  # type: ignore[attr-defined]
        result = result + found
    return result


@contextlib.contextmanager
def unsynchronized(model: nn.Module) -> Iterator[nn.Module]:
    """The model without its DistributedDataParallel, which does not reduce in the block."""
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, DistributedDataParallel):
                stack.enter_context(module.no_sync())
        yield model.module if isinstance(model, DistributedDataParallel) else model
