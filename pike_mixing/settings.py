"""Settings as frozen dataclasses: parsed once, checked when they are made, all mistakes told.

A field is the one definition of its setting: name, type, limits (`pike_mixing.limits`), default,
and the docstring below it.
"""

import dataclasses
import difflib
import functools
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pike_mixing.errors import InputError
from pike_mixing.limits import Limits
from pike_mixing.settings_text import default, is_required, meanings

T = TypeVar("T")

WIDEST = 2**63 - 1
"""The greatest whole number that a setting can be: the database has 64 bits for it."""


def mapping(values: Any, where: str) -> Mapping[str, Any]:
    """The values themselves, where their names are looked up before they are parsed.

    Raises:
        InputError: they are a list, a text or nothing.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"{where}: {unfit(values, Mapping)}")
    return values


def parse(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Builds the frozen dataclass `kind` from plain values.

    Args:
        kind: A dataclass; a `problems(self) -> list[str]` method may check values further.
        values: Plain JSON values by field name.
        where: Where the values were set, for messages: "config.yaml: methods.pike".

    Raises:
        InputError: unknown, missing, ill-typed or unreasonable values: all of them in one message.
    """
    values = plain(values)
    problems = check(kind, values, where)
    if problems:
        raise InputError("\n".join(problems))
    return _build(kind, values)


def plain(value: Any) -> Any:
    """The value with Python's own numbers and lists in the place of NumPy's and torch's."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(map(plain, value))
    return value.tolist() if hasattr(value, "tolist") else value


def check(kind: Any, values: Mapping[str, Any], where: str) -> list[str]:
    """Every reason why `values` do not make a `kind`; an empty list when they do.

    Values beyond their limits hide nothing of what `problems` of the class says; those of a wrong
    type do, as it could not be asked.
    """
    return _judged(kind, values, where, lambda: _unjudged(kind, values))


def _judged(kind: Any, values: Mapping[str, Any], where: str, made: Callable[[], Any]) -> list[str]:
    found = mismatches(kind, values, where)
    if hasattr(kind, "problems") and not (found and mismatches(kind, values, where, limits=False)):
        found += [f"{where}.{problem}" for problem in made().problems()]
    return found


def mismatches(
    kind: Any, values: Mapping[str, Any], where: str, *, limits: bool = True, own: bool = True
) -> list[str]:
    """Every unknown, missing or wrong value by itself; `problems` of the class is not asked.

    Args:
        kind: A dataclass.
        values: Plain JSON values by field name.
        where: Where the values were set, for messages.
        limits: Whether values beyond their limits are wrong, or those of a wrong type alone.
        own: Whether `problems` of dataclasses within it is asked.
    """
    if not isinstance(values, Mapping):
        return [f"{where}: {unfit(values, Mapping)}"]
    fields = {f.name: f for f in dataclasses.fields(kind)}
    hints = _hints(kind, limits)
    problems = [unknown(name, fields, where) for name in values if name not in fields]
    for name, field in fields.items():
        if name in values:
            problems += mismatch(values[name], hints[name], f"{where}.{name}", own)
        elif is_required(field):
            meant = field.metadata.get("meaning") or meanings(kind).get(name)
            meant = None if dataclasses.is_dataclass(hints[name]) else meant
            problems.append(f"{where}: {name} is missing: {meant or _described(hints[name])}")
    return problems


class CheckedSettings:
    """A dataclass whose settings are judged when it is made, whoever makes it."""

    def problems(self) -> list[str]:
        """Reasons why the settings are unreasonable, each beginning with the setting's name."""
        return []

    def __post_init__(self) -> None:
        """Judges types and limits, and what `problems` says.

        Raises:
            InputError: a setting is of the wrong type or unreasonable: all of them in one message.
        """
        kind = type(self)
        vars(self).update(plain(vars(self)))
        if found := _judged(kind, vars(self), kind.__name__, lambda: self):
            raise InputError("\n".join(found))


def unknown(name: str, known: typing.Iterable[str], where: str) -> str:
    """Message for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    hint = _nearest(name, names) or f"known: {', '.join(names)}"
    return f"{where}: {name!r} is unknown: {hint}"


def _nearest(name: object, names: typing.Iterable[str]) -> str:
    lowered = {other.lower(): other for other in names}
    near = difflib.get_close_matches(str(name).lower(), lowered, n=1, cutoff=0.5)
    return f"did you mean {lowered[near[0]]!r}?" if near else ""


def misplaced(
    given: typing.Iterable[str], domains: typing.Collection[str], where: str, lacks: str
) -> list[str]:
    """Messages for values by domain that name no domain, and for domains without a value.

    Args:
        given: Domains that have a value.
        domains: Those that there are.
        where: Where the values were set.
        lacks: What is wrong with a domain without one: "has no weight".
    """
    found = [unknown(d, domains, where) for d in given if d not in domains]
    return found + [f"{where}: domain {d!r} {lacks}" for d in domains if d not in given]


@functools.cache
def _hints(kind: Any, limits: bool = True) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=limits)


def _build(kind: type[T], values: Mapping[str, Any]) -> T:
    return kind(**_parsed(kind, values))


def _unjudged(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """An instance whose `__post_init__` has not run."""
    made = object.__new__(kind)
    vars(made).update({field.name: default(field) for field in dataclasses.fields(kind)})
    vars(made).update(_parsed(kind, values))
    return made


def _parsed(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    hints = _hints(kind)
    return {name: _value(value, hints[name]) for name, value in values.items()}


def _value(value: Any, hint: Any) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, value)
    if hint is float:
        return float(value)
    if get_origin(hint) is Annotated:
        base, note = get_args(hint)
        return _value(_listed(value, note), base)
    if get_origin(hint) is tuple:
        return tuple(_value(item, get_args(hint)[0]) for item in value)
    if get_origin(hint) in (dict, Mapping):
        return {name: _value(item, get_args(hint)[1]) for name, item in value.items()}
    if get_origin(hint) in (Union, types.UnionType) and value is not None:
        return _value(value, next(h for h in get_args(hint) if h is not type(None)))
    return value


def mismatch(value: Any, hint: Any, where: str, own: bool = True) -> list[str]:
    """What is wrong with a value of a type, which may say limits."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return []
    if origin is Annotated:
        return _unlike(value, inner[0], inner[1], where, own)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return check(hint, value, where) if own else mismatches(hint, value, where, own=False)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return []
        return mismatch(value, next(h for h in inner if h is not type(None)), where, own)
    if origin is tuple and isinstance(value, list | tuple):
        numbered = enumerate(value)
        return [p for i, v in numbered for p in mismatch(v, inner[0], f"{where}[{i}]", own)]
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        names = [p for k in value for p in mismatch(k, inner[0], f"{where}: the name")]
        items = value.items()
        return names + [p for k, v in items for p in mismatch(v, inner[1], f"{where}.{k}", own)]
    return [] if fits(value, hint) else [f"{where}: {unfit(value, hint)}"]


def _listed(value: Any, note: Any) -> Any:
    alone = isinstance(note, Limits) and note.or_one and not isinstance(value, list | tuple)
    return [value] if alone else value


def _unlike(value: Any, hint: Any, note: Any, where: str, own: bool) -> list[str]:
    """What is wrong with a value of an annotated type."""
    if isinstance(note, Limits):
        value = _listed(value, note)
        problem = (found := mismatch(value, hint, where, own)) or note.problem(value)
        return found or ([f"{where}: {problem}"] if problem else [])
    if not isinstance(value, Mapping):
        return [f"{where}: {unfit(value, Mapping)}"]
    kinds: Mapping[str, Any] = note.types
    if "kind" not in value:
        return [f"{where}: kind is missing: one of {', '.join(kinds)}"]
    if not isinstance(value["kind"], str) or value["kind"] not in kinds:
        return [unknown(value["kind"], kinds, f"{where}.kind")]
    others = {name: given for name, given in value.items() if name != "kind"}
    return mismatch(others, kinds[value["kind"]], where, own)


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type: no 8.0 is an int, no bool a number, no NaN a float."""
    if get_origin(hint) is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(hint))
    if hint is int:
        return type(value) is int and -WIDEST <= value <= WIDEST
    if hint is float:
        return type(value) in (int, float) and abs(cast(float, value)) <= sys.float_info.max
    return isinstance(hint, type) and isinstance(value, hint)


def unfit(value: object, hint: Any) -> str:
    """Why a value is not of a type that it does not fit, and how to write it where that is known.

    Args:
        value: The value.
        hint: int, float, str, bool, a Literal, or a container.
    """
    if hint in (int, float) and isinstance(value, str) and (better := _unquoted(value, hint)):
        return f"{value!r} is a text in YAML: write {better}"
    if hint in (int, float) and type(value) is int:
        shown = value if abs(value) < 10**40 else "a number of more than 40 digits"
        return f"{shown} is out of range: whole numbers lie between -{WIDEST} and {WIDEST}"
    way_out = ""
    if isinstance(value, str) and get_origin(hint) is Literal:
        near = _nearest(value, map(str, get_args(hint)))
        way_out = f": {near}" if near else ""
    elif hint is int and isinstance(value, float) and value.is_integer():
        way_out = f": write {int(value)}"
    elif hint in (int, float) and isinstance(value, bool):
        way_out = " (YAML reads yes, no, on and off as true and false)"
    elif hint is str and not isinstance(value, Mapping | list | None):
        way_out = ": put it in quotes (YAML reads yes, no, on, off, numbers and dates as such)"
    return f"{value!r} is not {_described(hint)}{way_out}"


def _unquoted(value: str, hint: type) -> str | None:
    """How YAML wants a number that it takes for a text: 8 for "8", 1.0e-2 for 1e-2."""
    parts = re.fullmatch(r"([+-]?\d+)(\.\d*)?(?:[eE]([+-]?)(\d+))?", value.strip())
    number = float(value) if parts else math.inf
    if parts is None or not math.isfinite(number):
        return None
    if hint is int:
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else None
    whole, fraction, sign, power = parts.groups()
    if power is None:
        return value.strip()
    return f"{whole}{fraction or '.0'}e{sign or '+'}{power}"


def _described(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(repr(choice) for choice in get_args(hint))
    if get_origin(hint) is Annotated:
        return _described(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return _described(next(h for h in get_args(hint) if h is not type(None)))
    if dataclasses.is_dataclass(hint):
        needed = [field.name for field in dataclasses.fields(hint) if is_required(field)]
        return "a mapping" + (f" with {', '.join(needed)}" if needed else "")
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    names[type(None)] = "null"
    containers = {tuple: "a list", list: "a list", dict: "a mapping", Mapping: "a mapping"}
    plain = get_origin(hint) or hint
    return names.get(plain) or containers.get(plain) or f"of type {plain.__name__}"
