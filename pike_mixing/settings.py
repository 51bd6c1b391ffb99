"""Settings as frozen dataclasses, checked when they are made: all mistakes are told at once.

A field is the one definition of its setting: name, type, limits (`pike_mixing.setting_limits`),
default, and the docstring below it.
"""

import ast
import dataclasses
import difflib
import functools
import inspect
import itertools
import re
import sys
import textwrap
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from pike_mixing.errors import refuse, shortened_repr
from pike_mixing.setting_limits import WIDEST, Limits

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
    values = plain_value(values)
    refuse(settings_problems(kind, values, place))
    return kind(**values)


def plain_value(value: Any) -> Any:
    """The value with Python's own numbers and lists in the place of NumPy's and torch's."""
    if isinstance(value, Mapping):
        return {name: plain_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(plain_value, value))
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
        vars(self).update(plain_value(vars(self)))
        refuse(settings_problems(kind, vars(self), kind.__name__))


def missing_setting_message(kind: Any, field: str, place: str) -> str:
    """Message for a required setting that is not there, with what it means."""
    hint = type_hints(kind)[field]
    meant = None if dataclasses.is_dataclass(hint) else setting_docstrings(kind).get(field)
    return f"{place}: {field} is missing: {meant or _type_text(hint)}"


MOST_NEAR = 3
"""Names that a message suggests at most."""


def unknown_name_message(name: str, known: Iterable[str], place: str) -> str:
    """Message for a name that does not exist, with the nearest one of those that do."""
    names = sorted(known)
    hint = _nearest_name_hint(name, names) or f"known: {', '.join(names) or 'none'}"
    return f"{place}: {shortened_repr(name)} is unknown: {hint}"


def _nearest_name_hint(name: object, names: Iterable[str]) -> str:
    lowered: dict[str, list[str]] = {}
    for other in names:
        lowered.setdefault(other.lower(), []).append(other)
    written = str(name).lower()
    # a100 is the beginning of several, none of which is nearer than the other.
    near = [one for one in lowered if one == written]
    near = near or [one for one in lowered if one.startswith(f"{written}-")]
    near = near or difflib.get_close_matches(written, lowered, n=1, cutoff=0.5)
    found = " or ".join([repr(other) for one in near for other in lowered[one]][:MOST_NEAR])
    return f"did you mean {found}?" if near else ""


def domain_problems(
    given: Iterable[str], domains: Collection[str], place: str, missing_text: str
) -> list[str]:
    """Messages for given domains that do not exist, and for domains that are not given.

    What is wrong with the latter is said by `missing_text`: "has no weight".
    """
    problems = [unknown_name_message(d, domains, place) for d in given if d not in domains]
    return problems + [f"{place}: domain {d!r} {missing_text}" for d in domains if d not in given]


@functools.cache
def type_hints(kind: Any, with_limits: bool = True) -> dict[str, Any]:
    """Types of a dataclass's settings by name, with their limits or without."""
    return typing.get_type_hints(kind, include_extras=with_limits)


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
    return [] if is_of_type(value, hint) else [f"{place}: {wrong_type_message(value, hint)}"]


def bare_type(hint: Any) -> Any:
    """A type without its limits and None."""
    if get_origin(hint) in (Annotated, NotRequired):
        return bare_type(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return next(bare_type(one) for one in get_args(hint) if one is not type(None))
    return hint


def is_of_type(value: object, hint: Any) -> bool:
    """Whether a value is of a type: no 8.0 is an int, no bool a number, no NaN a float."""
    if get_origin(hint) is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(hint))
    if hint in (int, float) and type(value) is int:
        return abs(value) <= WIDEST
    if hint in (int, float):
        return hint is type(value) and abs(cast(float, value)) <= sys.float_info.max
    return isinstance(hint, type) and isinstance(value, hint)


def wrong_type_message(value: object, hint: Any) -> str:
    """Why a value does not fit a type, and how to write it where that is known."""
    hint, way_out = bare_type(hint), ""
    if hint in (int, float) and type(value) is int:
        return f"must lie between -{WIDEST} and {WIDEST}"
    if isinstance(value, str) and get_origin(hint) is Literal:
        near = _nearest_name_hint(value, map(str, get_args(hint)))
        way_out = f": {near}" if near else ""
    elif hint is int and isinstance(value, float) and value.is_integer():
        way_out = f": write {int(value)}"
    elif hint is int and isinstance(value, str) and (whole := _whole_number_of(value)) is not None:
        way_out = f": write {whole}"
    elif hint is str and isinstance(value, bool | int | float):
        way_out = ": put it in quotes"
    return f"{shortened_repr(value)} is not {_type_text(hint)}{way_out}"


def _whole_number_of(text: str) -> int | None:
    """The number that a text such as 30MB, 64 KiB, 2e6 or 30,000,000 means; None of any other."""
    plain = text.strip().replace(",", "").replace("_", "")
    found = re.fullmatch(
        r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)\s*(?:([kmgt])(i?)b?|b)?", plain, re.I
    )
    if found is None:
        return None
    power = " kmgt".index((found[2] or " ").lower())
    number = Fraction(found[1]) * (1024 if found[3] else 1000) ** power
    return int(number) if number.denominator == 1 and number <= WIDEST else None


def _type_text(hint: Any) -> str:
    hint = bare_type(hint)
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if dataclasses.is_dataclass(hint):
        needed = [field.name for field in dataclasses.fields(hint) if is_required(field)]
        return "a mapping" + (f" with {', '.join(needed)}" if needed else "")
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    names |= {tuple: "a list", list: "a list", dict: "a mapping", Mapping: "a mapping"}
    kind = get_origin(hint) or hint
    return names.get(kind) or f"of type {kind.__name__}"


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
        shown = None if is_required(field) else _yaml_text(default_value(field))
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


def _yaml_text(value: Any) -> str:
    plain = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return plain[value]
    return f"{value:.4g}" if isinstance(value, float) and len(repr(value)) > 8 else str(value)
