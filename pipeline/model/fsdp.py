"""A model in shards: each process keeps a part of every weight, gradient and moment (FSDP2)."""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from pike_mixing.torch import parallel
from pipeline.model.transformer import Transformer


def shard(model: Transformer, device: torch.device) -> None:
    """Cuts a model's parameters into one shard per process, block by block.

    A block's weights are put together for its passes alone; what is left of its gradients is each
    process's shard of their sum. An optimizer is to be made afterwards.
    """
    mesh = init_device_mesh(device.type, (parallel.world_size(),))
    units: list[nn.Module] = [*model.blocks, model]
    for unit in units:
        fully_shard(unit, mesh=mesh)
    register_fsdp_forward_method(model, "hidden")
    for unit in units:
        assert isinstance(unit, FSDPModule)
        # Weights of the rows make the sum a mean.
        unit.set_gradient_divide_factor(1.0)
        unit.set_force_sum_reduction_for_comms(True)
