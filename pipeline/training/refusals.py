"""Runs that cannot be trained as they are wanted, refused before their first step, or diverged.

What is wrong with settings or files alone is said where they are read.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Signals
from pike_mixing.torch import parallel
from pipeline import settings
from pipeline.runtime import chips, devices


def refuse_untrainable(
    work: settings.Run, method: Method, device: torch.device, *, shard: bool = False
) -> None:
    """Makes sure that this recipe, these processes and this device can train the run.

    Args:
        work: The run.
        method: Its method.
        device: Where it would train.
        shard: Whether each process or chip keeps a part of the model only.

    Raises:
        InputError: they cannot; all that is wrong, and what to do instead.
    """
    recipe, needs, n = work.training, method.needs(), parallel.world_size()
    named = f"method {work.method_name!r}"
    problems = [
        f"{named} in scenario {work.scenario!r}: {problem}"
        for problem in recipe.unmeasurable(needs.statistics, len(work.domains))
    ]
    if shard and n == chips.count(device) == 1:
        problems.append(
            "--shard is for several processes or chips: start them with --processes, or leave it"
        )
    if n > recipe.rows:
        problems.append(f"{n} processes, but training.rows of {recipe.rows}: start fewer")
    if problems:
        raise InputError("\n".join(problems))


def refuse_few(requested: int, device: torch.device) -> None:
    """Makes sure that as many processes or chips are here as were asked for.

    Raises:
        InputError: there are fewer.
    """
    result = parallel.world_size() * chips.count(device)
    if result < requested:
        raise InputError(
            f"{requested} processes or chips were asked for (--processes, or `processes` under "
            f"set-resources of pretrain), and {devices.describe(device)} is {result}: ask for "
            f"{result}"
        )


def refuse_nan(seen: Signals, norm: float, domains: Sequence[str], folder: Path) -> None:
    """Makes sure that a step's losses and norm are numbers.

    Args:
        seen: What the backward pass measured.
        norm: The gradient's norm.
        domains: Names of the domains.
        folder: The run's folder, for the message.

    Raises:
        InputError: one is not.
    """
    count_K, loss_K = seen.count_K, seen.loss_K
    assert count_K is not None
    assert loss_K is not None
    bad_K = ~np.isfinite(loss_K) & (count_K > 0)
    bad = [domain for domain, is_bad in zip(domains, bad_K.tolist(), strict=True) if is_bad]
    if bad or not math.isfinite(norm):
        what = f"the loss of {', '.join(bad)}" if bad else "the gradient's norm"
        raise InputError(
            f"{folder}: {what} is not a finite number at step {seen.step}: lower "
            "training.peak_learning_rate or lengthen training.warmup_steps; the checkpoints "
            "before this step are sound"
        )
