"""From a method's name and plain settings to its class and the method itself."""

import dataclasses
import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pike_mixing import RULES
from pike_mixing.errors import InputError
from pike_mixing.interface import Method
from pike_mixing.settings import parse_settings, unknown_name_message


def unknown_rule_message(rule: str) -> str:
    """That there is no such rule, with the nearest name, and how a class of one's own is named."""
    return (
        f"{unknown_name_message(rule, RULES, 'rule')} (a class of your own is named MODULE:CLASS, "
        "as mine:Proportional)"
    )


def rule_class(rule: str) -> type[Any]:
    """The settings dataclass of a rule: a name in `RULES`, or one's own `package.module:Class`.

    Raises:
        InputError: there is no such rule.
    """
    module, _, name = RULES.get(rule, rule).partition(":")
    if not name:
        raise InputError(unknown_rule_message(rule))
    if not module or module.startswith("."):
        raise InputError(f"rule: {rule!r} cannot be imported: name its module in full")
    try:
        result = getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == module
        remedy = ": put the folder that holds it on PYTHONPATH" if missing else ""
        raise InputError(f"rule: {rule!r} cannot be imported: {error}{remedy}") from error
    if not (isinstance(result, type) and dataclasses.is_dataclass(result)):
        raise InputError(
            f"rule: {rule!r} is no dataclass of a method's settings (docs/your-method.md)"
        )
    if not issubclass(result, Method) or inspect.isabstract(result):
        raise InputError(
            f"rule: {rule!r} is no mixing method: inherit pike_mixing.interface:Method and define "
            "`init` (docs/your-method.md)"
        )
    return result


def build_method(rule: str, values: Mapping[str, Any], place: str) -> Method:
    """The method of a rule with its settings.

    Args:
        rule: A name of `RULES`.
        values: Plain JSON values by setting.
        place: Where they were set, for messages.

    Raises:
        InputError: unknown rule, or settings that do not fit it; all of them in one message.
    """
    return cast(Method, parse_settings(rule_class(rule), values, place))


class _Methods(Mapping[str, type[Any]]):
    """From a rule's name to its class, which is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Any]:
        if name not in RULES:
            raise KeyError(name)
        return rule_class(name)

    def __iter__(self) -> Iterator[str]:
        return iter(RULES)

    def __len__(self) -> int:
        return len(RULES)


METHODS = _Methods()
"""The classes of all rules by name: `METHODS["pike"] is PiKE`."""


def make(rule: str, /, **settings: Any) -> Method:
    """The method of a rule in `METHODS`, or of one's own `package.module:Class`.

    `make("pike", zeta1=0.05, zeta2=0.005)`.

    Raises:
        InputError: unknown rule, or settings that do not fit it, with the nearest names.
    """
    return build_method(rule, settings, rule)
