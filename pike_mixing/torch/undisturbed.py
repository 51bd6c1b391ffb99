"""Passes of which nothing remains: gradients, buffers and random numbers are as they were."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn


@contextlib.contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Takes the parameters' gradients away for the block, and puts back what was there before it.

    Running statistics of BatchNorm and other buffers are copied meanwhile. Dropout draws what the
    next pass of the training will draw. The mode, training or evaluation, is the caller's.
    """
    gradients = [(p, p.grad) for p in model.parameters()]
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    places = {p.device for p, _ in gradients if p.device.type != "cpu"}
    kind = next((device.type for device in places), "cuda")
    with torch.random.fork_rng(devices=list(places), device_type=kind):
        try:
            for parameter, _ in gradients:
                parameter.grad = None
            yield
        finally:
            for parameter, gradient in gradients:
                parameter.grad = gradient
            with torch.no_grad():
                for module, name, buffer, before in buffers:
                    setattr(module, name, buffer)
                    if not _expanded(buffer):
                        buffer.copy_(before)


def _expanded(buffer: Tensor) -> bool:
    """Whether its numbers share memory (`expand`), so that nobody can write to it."""
    strides = buffer.stride() if buffer.layout == torch.strided else ()
    return any(size > 1 and not step for size, step in zip(buffer.shape, strides, strict=False))


@contextlib.contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """A model in training or evaluation mode, and each module as it was afterwards.

    Modules that a model in training mode keeps in evaluation, such as a frozen BatchNorm, stay so.
    """
    before = [(module, module.training) for module in model.modules()]
    if model.training != training:
        model.train(training)
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode
