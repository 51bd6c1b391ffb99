"""The learning rate at each step (Table `tab:hyperparameters`)."""

import torch

from pipeline import settings
from pipeline.runtime import devices

LEAST_RATE = 1e-30
"""Where steps are counted on the device, AdamW divides by the rate: there it is not quite 0."""


def learning_rate_at_step(step: int, recipe: settings.Training) -> float:
    """Linear warm-up, then linear decay: 7e-6 -> 7e-4 -> 7e-6 in the paper.

    Step 0 has the initial rate, step `warmup_steps` the peak, the last step (`steps - 1`) the final
    rate if the warm-up ends before.
    """
    if step < recipe.warmup_steps:
        share = step / recipe.warmup_steps
        return (1 - share) * recipe.initial_learning_rate + share * recipe.peak_learning_rate
    share = (step - recipe.warmup_steps) / max(1, recipe.steps - 1 - recipe.warmup_steps)
    return (1 - share) * recipe.peak_learning_rate + share * recipe.final_learning_rate


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        device = group["params"][0].device
        least = LEAST_RATE if devices.is_xla(device) else 0.0
        group["lr"] = devices.number_on_device(max(rate, least), device)
