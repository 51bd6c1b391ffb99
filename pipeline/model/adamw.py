"""AdamW as the paper sets it (Table `tab:hyperparameters`)."""

import inspect
from typing import Any

import torch
from torch import nn

from pike_mixing.torch.per_domain_adamw import (
    ParameterMoments,
    PerDomainAdamW,
    UncompiledOptimizer,
)
from pipeline import settings
from pipeline.runtime import devices


class AdamW(UncompiledOptimizer, torch.optim.AdamW):
    """Torch's own."""

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


def build_adamw(model: nn.Module, recipe: settings.Training) -> AdamW:
    """AdamW that decays every matrix, and gains of norms where the recipe says so."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    gains = [p for p in model.parameters() if p.ndim < 2]
    # A program that is compiled once counts its steps itself.
    compiled = devices.is_xla(matrices[0].device)
    return AdamW(
        [
            {"params": matrices, "weight_decay": recipe.weight_decay},
            {"params": gains, "weight_decay": recipe.weight_decay * (recipe.decayed == "all")},
        ],
        lr=recipe.initial_learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.epsilon,
        fused=not compiled,
        capturable=compiled,
    )


class CompiledPerDomainAdamW(PerDomainAdamW):
    """`PerDomainAdamW` for a device that compiles: one program, whichever domains had rows.

    Every domain moves the parameters in every step; one without rows has a coefficient of 0. What
    depends on the domain's number of gradients is a datum of the program.
    """

    steps_all_domains = True

    def _update_parameters(
        self,
        group: dict[str, Any],
        moments: list[ParameterMoments],
        domain_gradients_so_far: int,
        step_coefficient: float,
    ) -> None:
        beta1, beta2 = group["betas"]
        n, device = max(domain_gradients_so_far, 1), moments[0].parameter.device
        rate = group["lr"] * devices.number_on_device(step_coefficient / (1 - beta1**n), device)
        root = devices.number_on_device((1 - beta2**n) ** 0.5, device)
        for parameter, mean, square in moments:
            parameter.sub_(mean / (square.sqrt() / root + group["eps"]) * rate)


def build_per_domain_adamw(
    model: nn.Module, recipe: settings.Training, domains: int
) -> PerDomainAdamW:
    """`PerDomainAdamW` in place of the recipe's AdamW: the same rates and the same decay."""
    plain = build_adamw(model, recipe)
    compiled = devices.is_xla(plain.param_groups[0]["params"][0].device)
    kind = CompiledPerDomainAdamW if compiled else PerDomainAdamW
    groups = [{n: group[n] for n in ("params", "weight_decay")} for group in plain.param_groups]
    return kind(groups, domains, **{n: plain.defaults[n] for n in ("lr", "betas", "eps")})
