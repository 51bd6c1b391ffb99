"""How models are trained whose steps are measured."""

from typing import Any

from pipeline import settings

NEVER = 100_000
"""Steps that no measurement reaches."""


def steady(rows: int, length: int, rate: float, **how: Any) -> settings.Training:
    """A recipe whose learning rate never changes and that saves nothing.

    Args:
        rows: Of a batch.
        length: Tokens of a row.
        rate: The learning rate of every step.
        how: Other settings of `Training`.
    """
    return settings.Training(
        rows=rows,
        length=length,
        steps=NEVER,
        warmup_steps=0,
        peak_learning_rate=rate,
        initial_learning_rate=rate,
        final_learning_rate=rate,
        checkpoint_every=NEVER,
        resume_every=NEVER,
        **how,
    )
