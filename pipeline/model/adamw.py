"""AdamW and its schedule (Table `tab:hyperparameters`)."""

import inspect

import torch
from torch import Tensor, nn

from pipeline import settings
from pipeline.runtime import devices, distributed

LEAST_RATE = 1e-30
"""Where steps are counted on the device, AdamW divides by the rate: there it is not quite 0."""


class Uncompiled(torch.optim.Optimizer):
    """An optimizer that is no part of a compiled program.

    Torch keeps these methods out of one at their first call and imports its compiler to do so, for
    two seconds and 90 MB of every process. Here they are without that.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


class AdamW(Uncompiled, torch.optim.AdamW):
    """Torch's own."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


def adamw(model: nn.Module, recipe: settings.Training) -> AdamW:
    """AdamW that decays every matrix; gains of norms are not pulled to zero."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    gains = [p for p in model.parameters() if p.ndim < 2]
    # A program that is compiled once counts its steps itself.
    compiled = devices.compiles(matrices[0].device)
    return AdamW(
        [
            {"params": matrices, "weight_decay": recipe.weight_decay},
            {"params": gains, "weight_decay": 0.0},
        ],
        lr=recipe.initial_learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.epsilon,
        fused=not compiled,
        capturable=compiled,
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of all parameters for the next step."""
    for group in optimizer.param_groups:
        device = group["params"][0].device
        least = LEAST_RATE if devices.compiles(device) else 0.0
        group["lr"] = devices.number(max(rate, least), device)


def clip_(model: nn.Module, longest: float) -> Tensor:
    """Shortens the whole gradient to at most `longest`; returns its norm before."""
    return distributed.full_tensor(torch.nn.utils.clip_grad_norm_(model.parameters(), longest))
