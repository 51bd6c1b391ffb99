"""From a method's name and plain settings to the method itself."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, cast

from pipeline import settings
from pipeline.errors import InputError
from pipeline.mixing import METHODS
from pipeline.mixing.seams import Method, StatisticsNeed


def kind(rule: str) -> type[Any]:
    """The settings dataclass of a rule: a name in `METHODS`, or one's own `package.module:Class`.

    Raises:
        InputError: there is no such rule.
    """
    module, _, name = METHODS.get(rule, rule).partition(":")
    if not name:
        raise InputError(settings.unknown(rule, METHODS, "rule"))
    try:
        found = getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise InputError(f"rule: {rule!r} cannot be imported: {error}") from error
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise InputError(f"rule: {rule!r} is no dataclass of a method's settings (CONTRIBUTING.md)")
    return found


def build(rule: str, values: Mapping[str, Any], where: str) -> Method:
    """The method of a rule with its settings.

    Raises:
        InputError: unknown rule, or settings that do not fit it; all of them in one message.
    """
    return cast(Method, settings.parse(kind(rule), values, where))


def unmeasurable(need: StatisticsNeed | None, K: int, recipe: settings.Training) -> list[str]:
    """Reasons why a recipe's batches give no variance of every domain's gradient."""
    if need is None:
        return []
    found = []
    rows, setting = (need.rows, "rows") if need.fresh else (recipe.rows, "training.rows")
    if rows <= recipe.statistics_microbatch:
        found.append(
            f"it measures {rows} rows of a domain ({setting}) in micro-batches of "
            f"{recipe.statistics_microbatch} (training.statistics_microbatch), but a variance "
            "needs two: lower the latter"
        )
    if not need.fresh and recipe.rows < need.rows * K:
        found.append(
            f"batch: training measures the {recipe.rows} rows of a batch (training.rows), too few "
            f"for {need.rows} (rows) of each of {K} domains: raise training.rows, lower rows, or "
            "take batch: fresh"
        )
    return found
