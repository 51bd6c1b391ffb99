"""From a method's name and plain settings to the method itself."""

import importlib
from collections.abc import Mapping
from typing import Any, cast

from pipeline import settings
from pipeline.errors import InputError
from pipeline.mixing import METHODS
from pipeline.mixing.seams import Method


def kind(rule: str) -> type[Any]:
    """The settings dataclass of a rule.

    Raises:
        InputError: there is no such rule.
    """
    if rule not in METHODS:
        raise InputError(settings.unknown(rule, METHODS, "rule"))
    module, _, name = METHODS[rule].partition(":")
    return cast(type[Any], getattr(importlib.import_module(module), name))


def build(rule: str, values: Mapping[str, Any], where: str) -> Method:
    """The method of a rule with its settings.

    Raises:
        InputError: unknown rule, or settings that do not fit it; all of them in one message.
    """
    return cast(Method, settings.parse(kind(rule), values, where))
