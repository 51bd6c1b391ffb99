"""The model that a shape describes: the paper's decoder, or one of transformers."""

import importlib
from types import ModuleType

import torch
from torch import nn

from pike_mixing.torch import parallel
from pipeline import settings
from pipeline.model import transformer
from pipeline.model.transformer import Transformer


def initial_or_pretrained_model(shape: settings.Model, vocabulary: int, seed: int) -> Transformer:
    if not shape.architecture:
        return transformer.initial_model(shape, vocabulary, seed)
    other = _import_transformers_model()
    return other.initial_or_pretrained_model(shape, vocabulary, seed)


def model_for_loading_weights(shape: settings.Model, vocabulary: int) -> Transformer:
    """A model whose weights are yet to be given; the decoder's have no memory."""
    if not shape.architecture:
        with torch.device("meta"):
            return Transformer(shape, vocabulary)
    # Buffers that no file holds are made with a model of transformers.
    return _import_transformers_model().TransformersModel(shape, vocabulary)


def _import_transformers_model() -> ModuleType:
    # Its package takes seconds to import and may not be installed.
    return importlib.import_module("pipeline.model.transformers_model")


def shard_model(model: Transformer, device: torch.device) -> None:
    """Cuts a model's parameters into one shard per process, block by block.

    A block's weights are put together for its passes alone, in the precision of the model's matrix
    products; what is left of its gradients is each process's shard of their sum, in float32.
    Shards of weights are float32. An optimizer is to be made afterwards.
    """
    # These take seconds to import, and one process never needs them.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import (
        FSDPModule,
        MixedPrecisionPolicy,
        fully_shard,
        register_fsdp_forward_method,
    )

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
    register_fsdp_forward_method(model, "hidden_states")
    for unit in units:
        assert isinstance(unit, FSDPModule)
        # Weights of the rows make the sum a mean.
        unit.set_gradient_divide_factor(1.0)
        unit.set_force_sum_reduction_for_comms(True)
