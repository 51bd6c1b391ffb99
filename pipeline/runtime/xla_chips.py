"""All chips of a machine as one XLA device: which of them holds which part of a tensor.

XLA compiles one program for all of them (SPMD). It is told here how rows and, if wanted, weights
are divided; it finds out itself what the chips have to exchange.
"""

import contextlib
import functools
import importlib
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pike_mixing.errors import InputError


def import_xla(module: str = "") -> Any:
    """torch_xla, which not every environment has, or a module of it."""
    return importlib.import_module(f"torch_xla{module}")


def use_all_chips() -> None:
    """Has the chips work as one device, if there are several; before any tensor is on one."""
    runtime = import_xla(".runtime")
    refuse_several_hosts(runtime.process_count())
    if runtime.global_runtime_device_count() > 1 and not runtime.is_spmd():
        runtime.use_spmd()


def refuse_slice_of_hosts() -> None:
    """The same, before the TPU's library starts, which waits until all hosts have started it."""
    tpu = import_xla("._internal.tpu")
    # Whoever names the bounds of the processes may use the chips of one host of a slice alone.
    # Where nobody knows the hosts, the library's own count in `use_all_chips` judges.
    with contextlib.suppress(OSError):
        refuse_several_hosts(tpu.process_bounds_size() or tpu.num_tpu_workers())


def refuse_several_hosts(number: int) -> None:
    """Refuses a TPU whose chips are of several hosts, on which no run was ever tried."""
    if number > 1:
        raise InputError(
            f"this TPU is a slice of {number} hosts, and a run takes the chips of one host: use a "
            "TPU VM with a single host (such as v5litepod-8, v4-8)"
        )


def chip_count(device: torch.device) -> int:
    """Chips that work as this device."""
    if device.type != "xla":
        return 1
    runtime = import_xla(".runtime")
    return int(runtime.global_runtime_device_count()) if runtime.is_spmd() else 1


def round_up_rows(rows: int, device: torch.device) -> int:
    """The least number of rows, from `rows` on, that the chips of a device share evenly."""
    return -(-rows // chip_count(device)) * chip_count(device)


@functools.cache
def _chip_mesh() -> Any:
    n = chip_count(torch.device("xla"))
    return import_xla(".distributed.spmd").Mesh(np.arange(n), (n,), ("chips",))


def shard_tensor(tensor: Tensor) -> Tensor:
    """The same tensor, whose first dimension is divided over the chips of its device."""
    return _mark_sharding(tensor, "chips")


def zeros_divided_like(parameter: Tensor) -> Tensor:
    """Zeros of a parameter's shape, divided as it is."""
    zeros = torch.zeros_like(parameter)
    if chip_count(parameter.device) == 1:
        return zeros
    divided = "devices" in import_xla()._XLAC._get_xla_sharding_spec(parameter)
    return shard_tensor(zeros) if divided else zeros


def replicate_on_chips(tensor: Tensor) -> Tensor:
    """The same tensor, whole on each chip: to read one in parts, a program would be compiled."""
    return _mark_sharding(tensor, None)


def _mark_sharding(tensor: Tensor, first: str | None) -> Tensor:
    if chip_count(tensor.device) > 1:
        others = [None] * (tensor.ndim - 1)
        places = (first, *others) if tensor.ndim else ()
        import_xla(".distributed.spmd").mark_sharding(tensor, _chip_mesh(), places)
    return tensor


def divide_matrices_over_chips(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Divides matrices, and what an optimizer keeps of them, over the chips.

    Gains of norms stay whole: they are small.
    """
    for parameter in model.parameters():
        if parameter.ndim > 1:
            for held in (parameter, *optimizer.state[parameter].values()):
                if held.shape == parameter.shape:
                    shard_tensor(held.data)
