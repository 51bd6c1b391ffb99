"""Values of a data set's record, checked: a wrong schema is named with its place."""

from collections.abc import Mapping
from typing import Any

from pike_mixing.errors import InputError


def value(record: Mapping[str, Any], name: str, place: str) -> Any:
    """A field that must be there.

    Raises:
        InputError: it is not.
    """
    if not isinstance(record, Mapping) or name not in record:
        known = ", ".join(map(repr, record)) if isinstance(record, Mapping) else "none"
        raise InputError(f"{place}: no field {name!r} (fields: {known}): {_ADVICE}")
    return record[name]


def text(record: Mapping[str, Any], name: str, place: str) -> str:
    """A text with something in it, without surrounding blanks."""
    result = maybe_text(record, name, place)
    if not result:
        raise InputError(f"{place}: {name!r} is blank: {_ADVICE}")
    return result


def maybe_text(record: Mapping[str, Any], name: str, place: str) -> str:
    """A text that may be blank, without surrounding blanks."""
    result = value(record, name, place)
    if not isinstance(result, str):
        raise InputError(f"{place}: {name!r} is {result!r:.80}, not a text: {_ADVICE}")
    return result.strip()


def texts(record: Mapping[str, Any], name: str, place: str) -> tuple[str, ...]:
    """A list of at least two texts, none of them blank."""
    result = value(record, name, place)
    if not isinstance(result, list) or len(result) < 2:
        raise InputError(f"{place}: {name!r} is {result!r:.80}, not a list of options: {_ADVICE}")
    named = dict(enumerate(result))
    return tuple(text({f"{name}[{n}]": named[n]}, f"{name}[{n}]", place) for n in named)


def index(record: Mapping[str, Any], name: str, place: str, options: int) -> int:
    """An index of the right option, a number or the text of one (HellaSwag stores texts).

    Raises:
        InputError: the split has no labels, or there is no such option.
    """
    result = value(record, name, place)
    if result in ("", -1, "-1"):
        raise InputError(f"{place}: {name!r} is hidden: this split has no labels, take another")
    number = int(result) if str(result).strip().isdecimal() and not isinstance(result, bool) else -1
    if not 0 <= number < options:
        raise InputError(
            f"{place}: {name!r} is {result!r}, but there are options 0 to {options - 1}: {_ADVICE}"
        )
    return number


def number(record: Mapping[str, Any], name: str, place: str) -> int:
    """A whole number."""
    result = value(record, name, place)
    if not isinstance(result, int) or isinstance(result, bool):
        raise InputError(f"{place}: {name!r} is {result!r:.80}, not a whole number: {_ADVICE}")
    return result


_ADVICE = "this is not the task's data set, fetch it with `pike fetch`"
