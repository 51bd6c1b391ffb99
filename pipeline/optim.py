"""AdamW and its schedule (Table `tab:hyperparameters`)."""

import torch
from torch import Tensor, nn

from pipeline import processes, settings


def learning_rate(step: int, recipe: settings.Training) -> float:
    """Linear warm-up, then linear decay: 7e-6 -> 7e-4 -> 7e-6 in the paper.

    Args:
        step: 0-based optimizer step; step 0 has the initial rate, step `warmup_steps` the peak,
            the last step (`steps - 1`) the final rate.
        recipe: The training recipe.
    """
    if step < recipe.warmup_steps:
        share = step / recipe.warmup_steps
        return (1 - share) * recipe.initial_learning_rate + share * recipe.peak_learning_rate
    share = (step - recipe.warmup_steps) / max(1, recipe.steps - 1 - recipe.warmup_steps)
    return (1 - share) * recipe.peak_learning_rate + share * recipe.final_learning_rate


def adamw(model: nn.Module, recipe: settings.Training) -> torch.optim.AdamW:
    """AdamW that decays every matrix; gains of norms are not pulled to zero."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    gains = [p for p in model.parameters() if p.ndim < 2]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": recipe.weight_decay},
            {"params": gains, "weight_decay": 0.0},
        ],
        lr=recipe.initial_learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.epsilon,
        fused=True,
    )


def clip_(model: nn.Module, longest: float) -> Tensor:
    """Shortens the whole gradient to at most `longest`; returns its norm before."""
    return processes.full(torch.nn.utils.clip_grad_norm_(model.parameters(), longest))
