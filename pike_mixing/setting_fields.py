"""What the fields of a dataclass of settings say: types, defaults and docstrings."""

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    cast,
    get_args,
    get_origin,
)

from pike_mixing.setting_limits import WIDEST


@functools.cache
def type_hints(kind: Any, with_limits: bool = True) -> dict[str, Any]:
    """Types of a dataclass's settings by name, with their limits or without."""
    return typing.get_type_hints(kind, include_extras=with_limits)


def bare_type(hint: Any) -> Any:
    """A type without its limits and None."""
    if get_origin(hint) in (Annotated, NotRequired):
        return bare_type(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return next(bare_type(one) for one in get_args(hint) if one is not type(None))
    return hint


def is_of_scalar_type(value: object, hint: Any) -> bool:
    """Whether a value is of a type: no 8.0 is an int, no bool a number, no NaN a float."""
    if get_origin(hint) is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(hint))
    if hint in (int, float) and type(value) is int:
        return abs(value) <= WIDEST
    if hint in (int, float):
        return hint is type(value) and abs(cast(float, value)) <= sys.float_info.max
    return isinstance(hint, type) and isinstance(value, hint)


def default_value(field: dataclasses.Field[Any]) -> Any:
    """What a setting is where it is not set; `dataclasses.MISSING` where it must be."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether a setting has no default."""
    return default_value(field) is dataclasses.MISSING


def setting_docstrings(kind: type[Any]) -> dict[str, str]:
    """What the settings of a dataclass mean: the docstring below each field, by its name."""
    result: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if "__dataclass_fields__" not in vars(base):
            continue
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            # A class that was made while the program runs.
            continue
        body = cast(ast.ClassDef, ast.parse(textwrap.dedent(source)).body[0]).body
        for field, below in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                words = str(getattr(below.value, "value", ""))
                result[ast.unparse(field.target)] = " ".join(words.split())
    return result


class SettingDescription(NamedTuple):
    """One setting of a dataclass."""

    name: str
    default: str | None
    """As one would write it in a configuration; None where it must be given."""
    meaning: str


def setting_descriptions(kind: type[Any]) -> Iterator[SettingDescription]:
    """Each setting of a dataclass."""
    meant = setting_docstrings(kind)
    for field in dataclasses.fields(kind):
        shown = None if is_required(field) else _text_for_display(default_value(field))
        yield SettingDescription(field.name, shown, meant.get(field.name, ""))


def setting_lines(kind: type[Any]) -> list[str]:
    """A line for each setting, and its meaning below."""
    lines = []
    for name, shown, meaning in setting_descriptions(kind):
        value = "(required)" if shown is None else f"= {shown}"
        lines += [f"    {name} {value}", *wrap_text(meaning, " " * 8)]
    return lines


def wrap_text(text: str, indent: str, first: str | None = None) -> list[str]:
    """A paragraph in lines of 96 characters at most; `first` or the indent begins the first."""
    begin = indent if first is None else first
    return textwrap.wrap(text, 96, initial_indent=begin, subsequent_indent=indent)


def _text_for_display(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{value:.4g}" if isinstance(value, float) and len(repr(value)) > 8 else str(value)
