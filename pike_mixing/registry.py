"""From a method's name and plain settings to the method itself."""

import dataclasses
import importlib
import inspect
from collections.abc import Mapping
from typing import Any, cast

from pike_mixing import RULES
from pike_mixing.errors import InputError
from pike_mixing.interface import Method
from pike_mixing.settings import parse, unknown


def kind(rule: str) -> type[Any]:
    """The settings dataclass of a rule: a name in `RULES`, or one's own `package.module:Class`.

    Raises:
        InputError: there is no such rule.
    """
    module, _, name = RULES.get(rule, rule).partition(":")
    if not name:
        raise InputError(unknown(rule, RULES, "rule"))
    try:
        found = getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise InputError(f"rule: {rule!r} cannot be imported: {error}") from error
    if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
        raise InputError(f"rule: {rule!r} is no dataclass of a method's settings (CONTRIBUTING.md)")
    hooks = (name for name, hook in vars(Method).items() if inspect.isfunction(hook))
    missing = [name for name in hooks if name[0] != "_" and not hasattr(found, name)]
    if missing:
        raise InputError(
            f"rule: {rule!r} is no mixing method: it has no {', '.join(missing)}: inherit "
            "pike_mixing.interface:MethodDefaults and define what is missing (CONTRIBUTING.md)"
        )
    return found


def build(rule: str, values: Mapping[str, Any], where: str) -> Method:
    """The method of a rule with its settings.

    Raises:
        InputError: unknown rule, or settings that do not fit it; all of them in one message.
    """
    return cast(Method, parse(kind(rule), values, where))
