"""What a file gives, validated by pydantic against dataclasses: all mistakes are told at once.

The dataclasses are the one definition: names, types, limits (`pike_mixing.limits`), defaults and
the docstring below each field.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from pike_mixing.errors import InputError, refuse
from pike_mixing.settings import hints_of, missing, type_message, unknown, without_limits

T = TypeVar("T")
Extra = Literal["forbid", "ignore"]
OrOne = BeforeValidator(
    lambda value: tuple(value) if isinstance(value, list) else (value,),
    json_schema_input_type=str | tuple[str, ...],
)
"""Annotates a list whose one entry may stand without it."""


def validate(
    kind: type[T], values: Any, where: str, *, together: bool = True, extra: Extra = "forbid"
) -> T:
    """The dataclass `kind` of plain values.

    Args:
        kind: A dataclass, or another type that may hold some.
        values: Plain JSON values, by field name.
        where: Where they were set, for messages: "config.yaml".
        together: Whether settings that do not go together are refused (`contradictions`).
        extra: Whether names that the dataclasses do not have are refused or left out.

    Raises:
        InputError: unknown, missing or wrong values: all of them in one message.
    """
    adapter = _adapter(cast(Any, kind), extra)
    try:
        # As JSON, where a list may become a tuple and 1 a float, but no text a number.
        (made,) = adapter.validate_json(to_json([values]))
    except ValidationError as error:
        told = [_told(one, kind, where) for one in error.errors(include_url=False)]
        raise InputError("\n".join(told)) from None
    except PydanticSerializationError as error:
        raise InputError(f"{where}: {error}") from None
    refuse(contradictions(made, where) if together else [])
    return made


def contradictions(made: Any, where: str) -> list[str]:
    """What `problems` of a dataclass and of those within it say, each with its place."""
    if isinstance(made, tuple):
        return [p for n, one in enumerate(made) for p in contradictions(one, f"{where}[{n}]")]
    is_settings = dataclasses.is_dataclass(made)
    own = made.problems() if is_settings and hasattr(made, "problems") else []
    within = vars(made) if is_settings else made if isinstance(made, dict) else {}
    problems = [p for name, one in within.items() for p in contradictions(one, f"{where}.{name}")]
    return [f"{where}.{problem}" for problem in own] + problems


@functools.cache
def _adapter(kind: Any, extra: Extra) -> TypeAdapter[Any]:
    config = ConfigDict(strict=True, extra=extra, allow_inf_nan=False)
    # Within a tuple: pydantic gives no configuration to a dataclass by itself.
    return TypeAdapter(tuple[kind], config=config)


def _told(error: Any, kind: Any, where: str) -> str:
    """A mistake that pydantic has found, in words, with its place."""
    _, *loc = error["loc"] or [0]
    told, cause = error["type"], error.get("ctx", {}).get("error")
    if told in ("missing", "unexpected_keyword_argument"):
        place, settings = _place(kind, loc[:-1], where)
        if told == "missing":
            return missing(without_limits(settings), loc[-1], place)
        return unknown(loc[-1], hints_of(without_limits(settings)), place)
    place, hint = _place(kind, loc, where)
    if told.startswith("union_tag"):
        kinds = _kinds(hint)
        if told == "union_tag_not_found":
            return f"{place}: kind is missing: one of {', '.join(kinds)}"
        return unknown(error["ctx"]["tag"], kinds, f"{place}.kind")
    if told == "json_invalid":
        return f"{place}: it holds a character that no text has: take it out ({cause})"
    return f"{place}: {cause or type_message(error['input'], Mapping if _kinds(hint) else hint)}"


def _place(kind: Any, loc: Sequence[Any], where: str) -> tuple[str, Any]:
    """A place as messages name it, and the type that is wanted there."""
    hint = kind
    for number, part in enumerate(loc):
        if kinds := _kinds(hint):
            hint = kinds[part]
            continue
        hint = without_limits(hint)
        if get_origin(hint) in (tuple, list):
            where, hint = f"{where}[{part}]", get_args(hint)[0]
        elif get_origin(hint) is None:
            where, hint = f"{where}.{part}", hints_of(hint)[part]
        elif loc[number + 1 :] == ["[key]"]:
            return f"{where}: the name", get_args(hint)[0]
        else:
            where, hint = f"{where}.{part}", get_args(hint)[1]
    return where, hint


def _kinds(hint: Any) -> dict[str, Any]:
    """The dataclasses of a union that `kind` chooses from; none of another type."""
    union = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return {one.kind: one for one in get_args(union) if hasattr(one, "kind")}
