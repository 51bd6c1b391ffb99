"""What a user reads of a wrong setting: one that is missing, unknown or of a wrong type."""

import dataclasses
import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any, Literal, get_args, get_origin

from pike_mixing.errors import shortened_repr
from pike_mixing.setting_fields import bare_type, is_required, setting_docstrings, type_hints
from pike_mixing.setting_limits import WIDEST


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


def domain_mismatch_problems(
    given: Iterable[str], domains: Collection[str], place: str, missing_text: str
) -> list[str]:
    """Messages for given domains that do not exist, and for domains that are not given.

    What is wrong with the latter is said by `missing_text`: "has no weight".
    """
    problems = [unknown_name_message(d, domains, place) for d in given if d not in domains]
    return problems + [f"{place}: domain {d!r} {missing_text}" for d in domains if d not in given]


def wrong_type_message(value: object, hint: Any) -> str:
    """Why a value does not fit a type, and how to write it where that is known."""
    hint, way_out = bare_type(hint), ""
    if hint in (int, float) and type(value) is int:
        return f"must lie between -{WIDEST} and {WIDEST}"
    whole = _parse_whole_number_or_bytes(value) if isinstance(value, str) else None
    if isinstance(value, str) and get_origin(hint) is Literal:
        near = _nearest_name_hint(value, map(str, get_args(hint)))
        way_out = f": {near}" if near else ""
    elif hint is int and isinstance(value, float) and value.is_integer():
        way_out = f": write {int(value)}"
    elif hint is int and whole is not None:
        way_out = f": write {whole}"
    elif hint is str and isinstance(value, bool | int | float):
        way_out = ": put it in quotes"
    return f"{shortened_repr(value)} is not {_type_text(hint)}{way_out}"


def _parse_whole_number_or_bytes(text: str) -> int | None:
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
