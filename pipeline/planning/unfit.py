"""Which runs of a plan have a method that could not train them, said before any of them starts.

Names and types of settings are checked by their source (`planning.method_docs`); their ranges, and
what depends on the domains, only the methods know.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pike_mixing import registry
from pike_mixing.errors import InputError
from pike_mixing.interface import Facts
from pike_mixing.settings import parse
from pipeline import settings


def refuse(runs: Iterable[Mapping[str, Any]], origin: str = "") -> None:
    """Builds the method of every run and its first state.

    Args:
        runs: Contents of `run.json`.
        origin: Where the methods were set, for messages: "config.yaml: ".

    Raises:
        InputError: every reason against every method in every scenario, each once.
    """
    found = dict.fromkeys(problem for run in runs for problem in problems(run))
    if found:
        raise InputError("\n".join(origin + problem for problem in found))


def problems(run: Mapping[str, Any]) -> list[str]:
    """Every reason why a run's method cannot train it."""
    where = f"methods.{run['method_name']} in scenario {run['scenario']}"
    recipe = parse(settings.Training, run["training"], f"{where}: training")
    domains = tuple(run["domains"])
    try:
        method = registry.build(run["rule"], run["method"], where)
        method = method.informed(_placeholders(domains, recipe))
        method.init(domains, run["seed"])
    except InputError as error:
        lines = str(error).splitlines()
        return [line if line.startswith(where) else f"{where}: {line}" for line in lines]
    unmeasurable = recipe.unmeasurable(method.needs().statistics, len(domains))
    return [f"{where}: {problem}" for problem in unmeasurable]


def _placeholders(domains: tuple[str, ...], recipe: settings.Training) -> Facts:
    """Facts as if all corpora were of one size and other runs had found equal weights."""
    equal = dict.fromkeys(domains, 1 / len(domains))
    return Facts(equal, budget_tokens=recipe.rows * recipe.length * recipe.steps, mixture=equal)
