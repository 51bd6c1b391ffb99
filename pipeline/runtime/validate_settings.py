"""What a user reads of a wrong key or value: pydantic makes dataclasses of what a file gives.

All mistakes are told at once. The dataclasses are the one definition: names, types, limits
(`pike_mixing.setting_limits`), defaults and the docstring below each field.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from pike_mixing.errors import InputError, refuse
from pike_mixing.setting_fields import bare_type, type_hints
from pike_mixing.setting_messages import (
    missing_setting_message,
    unknown_name_message,
    wrong_type_message,
)

T = TypeVar("T")
_TOLD = 150
"""Mistakes of one file in one message."""
Extra = Literal["forbid", "ignore"]
OrOne = BeforeValidator(
    lambda value: tuple(value) if isinstance(value, list) else (value,),
    json_schema_input_type=str | tuple[str, ...],
)
"""Annotates a list whose one entry may stand without it."""


def validate(
    kind: type[T],
    values: Any,
    place: str,
    *,
    allow_contradictions: bool = False,
    extra: Extra = "forbid",
) -> T:
    """The dataclass `kind` of plain values.

    Args:
        kind: A dataclass, or another type that may hold some.
        values: Plain JSON values, by field name.
        place: Where they were set, for messages: "config.yaml".
        allow_contradictions: Whether settings may be such as `settings_contradictions` names.
        extra: Whether names that the dataclasses do not have are refused or left out.

    Raises:
        InputError: unknown, missing or wrong values: all of them in one message.
    """
    adapter = _one_tuple_adapter(cast(Any, kind), extra)
    try:
        # As JSON, where a list may become a tuple and 1 a float, but no text a number.
        (made,) = adapter.validate_json(to_json([values]))
    except ValidationError as error:
        found = error.errors(include_url=False)
        # What is said of a name looks for others like it, and takes a while.
        told = [_explain_error(one, kind, place) for one in found[:_TOLD]]
        more = [f"{place}: and {len(found) - _TOLD:,} more mistakes"] if found[_TOLD:] else []
        refuse([*told, *more])
    except PydanticSerializationError as error:
        raise InputError(f"{place} holds what no JSON can ({error}): take it out") from None
    refuse([] if allow_contradictions else settings_contradictions(made, place))
    return made


def warm_up_validation(kind: Any, extra: Extra = "forbid") -> None:
    """Does once what `validate` of a type begins with, some hundredths of a second."""
    _one_tuple_adapter(kind, extra)


def settings_contradictions(made: Any, place: str) -> list[str]:
    """What `problems` of a dataclass and of those within it say, each with its place."""
    if isinstance(made, tuple):
        return [
            p for n, one in enumerate(made) for p in settings_contradictions(one, f"{place}[{n}]")
        ]
    is_settings = dataclasses.is_dataclass(made)
    own = made.problems() if is_settings and hasattr(made, "problems") else []
    within = vars(made) if is_settings else made if isinstance(made, dict) else {}
    problems = [
        p for name, one in within.items() for p in settings_contradictions(one, f"{place}.{name}")
    ]
    return [f"{place}.{problem}" for problem in own] + problems


@functools.cache
def _one_tuple_adapter(kind: Any, extra: Extra) -> TypeAdapter[tuple[Any]]:
    config = ConfigDict(strict=True, extra=extra, allow_inf_nan=False)
    # Within a tuple: pydantic gives no configuration to a dataclass by itself.
    return TypeAdapter(tuple[kind], config=config)


def _explain_error(error: Any, kind: Any, root: str) -> str:
    """A mistake that pydantic has found, in words, with its place."""
    _, *loc = error["loc"] or [0]
    told, cause = error["type"], error.get("ctx", {}).get("error")
    if told in ("missing", "unexpected_keyword_argument"):
        place, settings = _place_and_type(kind, loc[:-1], root)
        if told == "missing":
            return missing_setting_message(bare_type(settings), loc[-1], place)
        return unknown_name_message(loc[-1], type_hints(bare_type(settings)), place)
    place, hint = _place_and_type(kind, loc, root)
    if told.startswith("union_tag"):
        kinds = _classes_by_kind(hint)
        if told == "union_tag_not_found":
            return f"{place}: kind is missing: one of {', '.join(kinds)}"
        return unknown_name_message(error["ctx"]["tag"], kinds, f"{place}.kind")
    wanted = Mapping if _classes_by_kind(hint) else hint
    return f"{place}: {cause or wrong_type_message(error['input'], wanted)}"


def _place_and_type(kind: Any, loc: Sequence[Any], place: str) -> tuple[str, Any]:
    """A place as messages name it, and the type that is wanted there."""
    hint = kind
    for number, part in enumerate(loc):
        if kinds := _classes_by_kind(hint):
            hint = kinds[part]
            continue
        hint = bare_type(hint)
        if get_origin(hint) in (tuple, list):
            place, hint = f"{place}[{part}]", get_args(hint)[0]
        elif get_origin(hint) is None:
            place, hint = f"{place}.{part}", type_hints(hint)[part]
        elif loc[number + 1 :] == ["[key]"]:
            return f"{place}: the name", get_args(hint)[0]
        else:
            place, hint = f"{place}.{part}", get_args(hint)[1]
    return place, hint


def _classes_by_kind(hint: Any) -> dict[str, Any]:
    """The dataclasses of a union that `kind` chooses from; none of another type."""
    union = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return {one.kind: one for one in get_args(union) if hasattr(one, "kind")}
