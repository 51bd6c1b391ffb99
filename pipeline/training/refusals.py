"""Runs that cannot be trained as they are wanted, refused before their first step.

What is wrong with settings or files alone is said where they are read.
"""

from pike_mixing.errors import InputError
from pike_mixing.interface import Method
from pipeline import settings
from pipeline.runtime import distributed


def refuse_untrainable(
    work: settings.Run, method: Method, *, shard: bool = False, compiles: bool = False
) -> None:
    """Makes sure that this recipe, these processes and this device can train the run.

    Args:
        work: The run.
        method: Its method.
        shard: Whether each process keeps a part of the model only.
        compiles: Whether the device compiles for every shape.

    Raises:
        InputError: they cannot; all that is wrong, and what to do instead.
    """
    recipe, needs, n = work.training, method.needs(), distributed.world_size()
    named = f"method {work.method_name!r}"
    problems = [
        f"{named} in scenario {work.scenario!r}: {problem}"
        for problem in recipe.unmeasurable(needs.statistics, len(work.domains))
    ]
    if shard and n == 1:
        problems.append("--shard is for several processes: start them with torchrun, or leave it")
    if n > recipe.rows:
        problems.append(f"{n} processes, but training.rows of {recipe.rows}: start fewer")
    if n > 1 and needs.moments_per_domain:
        problems.append(
            f"{named} keeps moments for each domain, which one process alone can do: start it "
            "without torchrun"
        )
    if shard and recipe.compile:
        problems.append("--shard does not go with training.compile: leave one of them")
    if compiles and needs.moments_per_domain:
        # It would compile anew whenever a domain is without rows.
        problems.append(
            f"{named} keeps moments for each domain, which device 'xla' cannot do: train it on "
            "device: cpu or cuda"
        )
    if problems:
        raise InputError("\n".join(problems))
