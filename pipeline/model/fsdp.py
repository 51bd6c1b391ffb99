"""A model in shards: each process keeps a part of every weight, gradient and moment (FSDP2)."""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from pike_mixing.torch import parallel
from pipeline.model.transformer import Transformer


def shard(model: Transformer, device: torch.device) -> None:
    """Cuts a model's parameters into one shard per process, block by block.

    A block's weights are put together for its passes alone, in the precision of the model's matrix
    products; what is left of its gradients is each process's shard of their sum, in float32.
    Shards of weights are float32. An optimizer is to be made afterwards.
    """
    mesh = init_device_mesh(device.type, (parallel.world_size(),))
    units: list[nn.Module] = [*model.blocks, model]
    # The stream between the blocks stays float32.
    of_blocks = MixedPrecisionPolicy(
        param_dtype=model.precision, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=of_blocks)
    # A piece's gradient is a sum over all its tokens, which bfloat16 would round: it is in float32.
    fully_shard(model, mesh=mesh)
    register_fsdp_forward_method(model, "hidden")
    for unit in units:
        assert isinstance(unit, FSDPModule)
        # Weights of the rows make the sum a mean.
        unit.set_gradient_divide_factor(1.0)
        unit.set_force_sum_reduction_for_comms(True)
