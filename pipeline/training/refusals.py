"""Runs that cannot be trained as they are wanted, refused before their first step.

What is wrong with settings or files alone is said where they are read.
"""

import torch

from pike_mixing.errors import InputError
from pike_mixing.interface import Method
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
