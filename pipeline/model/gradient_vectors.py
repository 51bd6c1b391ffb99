"""Gradients of a whole model as vectors: lists with one tensor per trained parameter.

Gradients are float32, whatever precision the passes compute in.

Shapes: K domains.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from pike_mixing.arrays import Floats
from pike_mixing.torch.inner_products import products, total
from pipeline.runtime import chips, devices, distributed


def trained(model: nn.Module) -> list[Tensor]:
    """Parameters that get a gradient, in the order of the parts."""
    return [p for p in model.parameters() if p.requires_grad]


def clear(model: nn.Module) -> None:
    """Takes the parameters' gradients away; their memory stays with whoever holds them.

    Where the device compiles, zeros take their place: the first pass is then like all others.
    """
    parameters = trained(model)
    device = parameters[0].device
    for parameter in parameters:
        parameter.grad = chips.zeros_like(parameter) if devices.compiles(device) else None
    devices.mark_step(device)


def add(model: nn.Module, parts: Sequence[Tensor], coefficient: float) -> None:
    """Adds c g to the parameters' gradient; where there is none yet, g's own memory becomes it."""
    parameters = trained(model)
    c = devices.number(coefficient, parameters[0].device)
    for parameter, part in zip(parameters, parts, strict=True):
        if parameter.grad is None:
            parameter.grad = part.mul_(c)
        elif isinstance(c, Tensor):
            parameter.grad.add_(part * c)
        else:
            parameter.grad.add_(part, alpha=c)
    devices.mark_step(parameters[0].device)


def add_all(
    model: nn.Module, parts_K: Sequence[list[Tensor] | None], coefficient_K: Floats
) -> None:
    """Adds sum_k c_k g_k to the parameters' gradient, as `add` does; c_k is 0 without a g_k."""
    for coefficient, parts in zip(coefficient_K.tolist(), parts_K, strict=True):
        assert parts is not None or coefficient == 0, "a domain without rows has a coefficient"
        if parts is not None:
            add(model, parts, coefficient)


def squared(parts: Sequence[Tensor]) -> Tensor:
    """|g|^2 over all parts."""
    return inner(parts, parts)


def inner(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Inner product g . h over all parts; float32 within a piece of a part, float64 over them."""
    own = products(
        [distributed.local_shard(a) for a in first], [distributed.local_shard(b) for b in second]
    )
    return distributed.reduce_over_shards(total(own), first)
