"""Runs that cannot be trained as they are wanted, refused before their first step.

What is wrong with settings or files alone is said where they are read.
"""

from pike_mixing.errors import InputError
from pike_mixing.interface import Method
from pipeline import settings
from pipeline.runtime import distributed


def check_variance_measurable(work: settings.Run, method: Method) -> None:
    """Makes sure that the recipe's batches give the variances that the method wants.

    Raises:
        InputError: they would not, and the method would never see one.
    """
    need = method.needs().statistics
    found = work.training.unmeasurable(need, len(work.domains))
    if found:
        where = f"method {work.method_name!r} in scenario {work.scenario!r}"
        raise InputError("\n".join(f"{where}: {problem}" for problem in found))


def check_shardable(work: settings.Run, method: Method, shard: bool) -> None:
    """Makes sure that the processes can train the run together.

    Raises:
        InputError: they cannot; what to do instead is said.
    """
    n, problems = distributed.world_size(), []
    if shard and n == 1:
        problems.append("--shard is for several processes: start them with torchrun, or leave it")
    if n > work.training.rows:
        problems.append(f"{n} processes, but training.rows of {work.training.rows}: start fewer")
    if n > 1 and method.needs().moments_per_domain:
        problems.append(
            f"method {work.method_name!r} keeps moments for each domain, which one process alone "
            "can do: start it without torchrun"
        )
    if shard and work.training.compile:
        problems.append("--shard does not go with training.compile: leave one of them")
    if problems:
        raise InputError("\n".join(problems))


def check_compilable(work: settings.Run, method: Method, compiles: bool) -> None:
    """Makes sure that the device can train the run.

    Raises:
        InputError: it would compile anew whenever a domain is without rows.
    """
    if compiles and method.needs().moments_per_domain:
        raise InputError(
            f"method {work.method_name!r} keeps moments for each domain, which device 'xla' cannot "
            "do: train it on device: cpu or cuda"
        )
