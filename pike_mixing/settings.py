"""Settings as frozen dataclasses, checked when they are made: all mistakes are told at once.

A field is the one definition of its setting: name, type, limits (`pike_mixing.setting_limits`),
default, and the docstring below it.
"""

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pike_mixing.errors import refuse
from pike_mixing.setting_fields import default_value, is_of_scalar_type, is_required, type_hints
from pike_mixing.setting_limits import Limits
from pike_mixing.setting_messages import (
    missing_setting_message,
    unknown_name_message,
    wrong_type_message,
)

T = TypeVar("T")


def parse_settings(kind: type[T], values: Mapping[str, Any], place: str) -> T:
    """Builds the frozen dataclass `kind` from plain values.

    Args:
        kind: A dataclass that inherits `CheckedSettings`.
        values: Plain JSON values by field name.
        place: Where the values were set, for messages: "config.yaml: methods.pike".

    Raises:
        InputError: unknown, missing, ill-typed or unreasonable values: all of them in one message.
    """
    values = arrays_to_python(values)
    refuse(settings_problems(kind, values, place))
    return kind(**values)


def arrays_to_python(value: Any) -> Any:
    """The value with Python's own numbers and lists in the place of NumPy's and torch's."""
    if isinstance(value, Mapping):
        return {name: arrays_to_python(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(arrays_to_python, value))
    return value.tolist() if hasattr(value, "tolist") else value


def settings_problems(kind: Any, values: Mapping[str, Any], place: str) -> list[str]:
    """Every reason why `values` do not make a `kind`; an empty list when they do.

    Values beyond their limits hide nothing of what `problems` of the class says; those of a wrong
    type do, as it could not be asked. Messages begin with the place where the values were set.
    """
    problems = field_problems(kind, values, place)
    if problems and field_problems(kind, values, place, with_limits=False):
        return problems
    made = object.__new__(kind)  # `__post_init__` has not run.
    vars(made).update({field.name: default_value(field) for field in dataclasses.fields(kind)})
    vars(made).update(values)
    return problems + [f"{place}.{problem}" for problem in made.problems()]


def field_problems(
    kind: Any, values: Mapping[str, Any], place: str, *, with_limits: bool = True
) -> list[str]:
    """Every unknown, missing or wrong value by itself; `problems` of the class is not asked.

    Unless `with_limits`, values of a wrong type alone are wrong, not those beyond their limits.
    """
    if not isinstance(values, Mapping):
        return [f"{place}: {wrong_type_message(values, Mapping)}"]
    fields, hints = {f.name: f for f in dataclasses.fields(kind)}, type_hints(kind, with_limits)
    problems = [unknown_name_message(name, fields, place) for name in values if name not in fields]
    for name, field in fields.items():
        if name in values:
            problems += value_problems(values[name], hints[name], f"{place}.{name}")
        elif is_required(field):
            problems.append(missing_setting_message(kind, name, place))
    return problems


class CheckedSettings:
    """A dataclass whose settings are checked when it is made, whoever makes it."""

    def problems(self) -> list[str]:
        """Reasons why the settings are unreasonable, each beginning with the setting's name."""
        return []

    def __post_init__(self) -> None:
        """Checks types and limits, and what `problems` says.

        Raises:
            InputError: a setting is of the wrong type or unreasonable: all of them in one message.
        """
        kind = type(self)
        vars(self).update(arrays_to_python(vars(self)))
        refuse(settings_problems(kind, vars(self), kind.__name__))


def value_problems(value: Any, hint: Any, place: str) -> list[str]:
    """What is wrong with a plain value of a type, an annotation that may say limits."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or (value is None and type(None) in inner):
        return []
    if origin is Annotated:
        problems = value_problems(value, inner[0], place)
        limits = [note for note in inner[1:] if isinstance(note, Limits) and not problems]
        return problems + [f"{place}: {problem}" for n in limits if (problem := n.problem(value))]
    if origin in (Union, types.UnionType):
        return value_problems(value, next(one for one in inner if one is not type(None)), place)
    if origin is tuple and isinstance(value, list | tuple):
        return [
            p for n, v in enumerate(value) for p in value_problems(v, inner[0], f"{place}[{n}]")
        ]
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        names = [p for name in value for p in value_problems(name, inner[0], f"{place}: the name")]
        return names + [
            p for k, v in value.items() for p in value_problems(v, inner[1], f"{place}.{k}")
        ]
    return [] if is_of_scalar_type(value, hint) else [f"{place}: {wrong_type_message(value, hint)}"]
