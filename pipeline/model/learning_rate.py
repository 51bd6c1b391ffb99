"""The learning-rate schedule."""

from pipeline import settings


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
