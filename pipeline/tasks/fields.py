"""Values of a data set's record, checked: a wrong schema is named with its place."""

from collections.abc import Mapping
from typing import Any

from pike_mixing.errors import InputError


def value(record: Mapping[str, Any], name: str, place: str) -> Any:
    """A field that must be there.

    Raises:
        InputError: it is not.
    """
    if name not in record:
        known = ", ".join(map(repr, record))
        raise InputError(f"{place}: no field {name!r} (fields: {known}): {_ADVICE}")
    return record[name]


def text(record: Mapping[str, Any], name: str, place: str) -> str:
    """A text with something in it, without surrounding blanks."""
    found = maybe_text(record, name, place)
    if not found:
        raise InputError(f"{place}: {name!r} is blank: {_ADVICE}")
    return found


def maybe_text(record: Mapping[str, Any], name: str, place: str) -> str:
    """A text that may be blank, without surrounding blanks."""
    found = value(record, name, place)
    if not isinstance(found, str):
        raise InputError(f"{place}: {name!r} is {found!r:.80}, not a text: {_ADVICE}")
    return found.strip()


def texts(record: Mapping[str, Any], name: str, place: str) -> tuple[str, ...]:
    """A list of at least two texts, none of them blank."""
    found = value(record, name, place)
    if not isinstance(found, list) or len(found) < 2:
        raise InputError(f"{place}: {name!r} is {found!r:.80}, not a list of options: {_ADVICE}")
    named = dict(enumerate(found))
    return tuple(text({f"{name}[{n}]": named[n]}, f"{name}[{n}]", place) for n in named)


def index(record: Mapping[str, Any], name: str, place: str, options: int) -> int:
    """An index of the right option, a number or the text of one (HellaSwag stores texts).

    Raises:
        InputError: the split has no labels, or there is no such option.
    """
    found = value(record, name, place)
    if found in ("", -1, "-1"):
        raise InputError(f"{place}: {name!r} is hidden: this split has no labels, take another")
    number = int(found) if str(found).strip().isdecimal() and not isinstance(found, bool) else -1
    if not 0 <= number < options:
        raise InputError(
            f"{place}: {name!r} is {found!r}, but there are options 0 to {options - 1}: {_ADVICE}"
        )
    return number


def number(record: Mapping[str, Any], name: str, place: str) -> int:
    """A whole number."""
    found = value(record, name, place)
    if not isinstance(found, int) or isinstance(found, bool):
        raise InputError(f"{place}: {name!r} is {found!r:.80}, not a whole number: {_ADVICE}")
    return found


_ADVICE = "this is not the task's data set, fetch it with `pike fetch`"
