"""The configuration's JSON Schema, and its violations in words."""

import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import jsonschema
import yaml

from pike_mixing.errors import InputError, install
from pike_mixing.settings import fits, unfit, unknown
from pipeline import settings
from pipeline.planning import methods

PATH = Path(__file__).resolve().parents[2] / "workflow" / "schemas" / "config.schema.yaml"


def problems(config: Mapping[str, Any], origin: str) -> list[str]:
    """Every violation of the schema, each with its path and, for names, the nearest valid one.

    The settings of a mixing method are those of its rule's class, which the schema does not repeat.
    """
    return sorted({*_described(config, f"{origin}: "), *_of_methods(config, origin)})


def _of_methods(config: Mapping[str, Any], origin: str) -> Iterator[str]:
    named = config.get("methods")
    for name, values in named.items() if isinstance(named, Mapping) else ():
        if isinstance(values, Mapping) and isinstance(values.get("rule"), str):
            yield from methods.problems(values, f"{origin}: methods.{name}")


@functools.cache
def document() -> dict[str, Any]:
    """The schema itself.

    Raises:
        InputError: this package is a copy without the clone, where the schema lies.
    """
    if not PATH.is_file():
        # With an extra, make installs anew whatever is there.
        raise InputError(
            f"the workflow needs the clone of its repository, but this `pike` is a copy in "
            f"{PATH.parents[2]}: in the clone, run `{install('hub')}`, and then .venv/bin/pike"
        )
    return yaml.safe_load(PATH.read_text(encoding="utf-8"))


_TYPES: dict[str, Any] = {
    "integer": int,
    "number": float,
    "string": str,
    "boolean": bool,
    "array": list,
    "object": Mapping,
    "null": type(None),
}
"""What the schema calls a type, and what `pipeline.settings` does."""


def _pattern(_: Any, pattern: str, value: object, __: Any) -> Iterator[jsonschema.ValidationError]:
    """The whole text must fit: to JSON Schema, `$` stands in front of a last line break, too."""
    if isinstance(value, str) and not re.fullmatch(pattern, value):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def _enum(_: Any, known: list[Any], value: object, __: Any) -> Iterator[jsonschema.ValidationError]:
    """The type must fit as well: to JSON Schema, 1.0 is 1."""
    if not any(value == one and type(value) is type(one) for one in known):
        yield jsonschema.ValidationError(f"{value!r} is not one of {known!r}")


def _format(_: Any, name: str, value: object, __: Any) -> Iterator[jsonschema.ValidationError]:
    """The one format that the schema has is an id on the Hub."""
    assert name == "hub-id", name
    if isinstance(value, str) and (problem := settings.not_on_hub(value)):
        yield jsonschema.ValidationError(problem)


def _typed(hint: Any) -> Any:
    return lambda _, value: fits(value, hint)


_Validator = cast(Any, jsonschema.validators).extend(
    jsonschema.Draft202012Validator,
    {"pattern": _pattern, "enum": _enum, "format": _format},
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {name: _typed(hint) for name, hint in _TYPES.items()}
    ),
)


@functools.cache
def _validator() -> Any:
    return _Validator(document())


def _described(config: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for error in _validator().iter_errors(config):
        yield from _texts(error, prefix)


def _texts(error: Any, prefix: str) -> Iterator[str]:
    path = _path(error)
    where = (prefix + path).rstrip(".: ")
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        for name in error.instance:
            if name not in known:
                yield unknown(name, known, where)
    elif error.validator == "required":
        missing = next(n for n in error.validator_value if error.message.startswith(f"{n!r} "))
        described = error.schema.get("properties", {}).get(missing, {}).get("description")
        yield f"{where}: {missing!r} is missing" + (f": {described}" if described else "")
    elif error.validator == "enum" and isinstance(error.instance, str):
        yield unknown(error.instance, [str(v) for v in error.validator_value], where)
    elif error.validator in ("oneOf", "anyOf") and (meant := _meant(error)):
        for inner in meant:
            yield from _texts(inner, prefix)
    else:
        described = error.schema.get("description")
        yield f"{where}: {_said(error)}" + (f" ({described})" if described else "")


def _said(error: Any) -> str:
    if error.validator in ("oneOf", "anyOf"):
        return ", or ".join(dict.fromkeys(map(_said, error.context)))
    if error.validator != "type":
        return str(error.message)
    first, *_ = [wanted] if isinstance(wanted := error.validator_value, str) else wanted
    return unfit(error.instance, _TYPES[first])


def _meant(error: Any) -> list[Any]:
    """What is wrong with the one of several forms that a value was meant to have, by its type."""
    forms: dict[int, list[Any]] = defaultdict(list)
    for inner in error.context:
        forms[inner.relative_schema_path[0]].append(inner)
    typed = [
        inner
        for inner in forms.values()
        if not any(e.validator == "type" and not e.relative_path for e in inner)
    ]
    return typed[0] if len(typed) == 1 else []


def _path(error: Any) -> str:
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path
