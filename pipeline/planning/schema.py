"""The configuration's JSON Schema, and its violations in words."""

import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import jsonschema
import yaml

from pipeline.planning import rules
from pipeline.settings import exponent, unknown

PATH = Path(__file__).resolve().parents[2] / "workflow" / "schemas" / "config.schema.yaml"


def problems(config: Mapping[str, Any], origin: str) -> list[str]:
    """Every violation of the schema, each with its path and, for names, the nearest valid one.

    The settings of a mixing method are those of its rule's class, which the schema does not repeat.
    """
    return sorted({*_described(config, f"{origin}: "), *_of_methods(config, origin)})


def _of_methods(config: Mapping[str, Any], origin: str) -> Iterator[str]:
    methods = config.get("methods")
    for name, values in methods.items() if isinstance(methods, Mapping) else ():
        if isinstance(values, Mapping) and isinstance(values.get("rule"), str):
            yield from rules.problems(values, f"{origin}: methods.{name}")


@functools.cache
def document() -> dict[str, Any]:
    """The schema itself."""
    return yaml.safe_load(PATH.read_text(encoding="utf-8"))


def _finite(_: Any, value: object) -> bool:
    """YAML has .inf and .nan, the JSON of `run.json` has not."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(cast(float, value)) < math.inf


_Validator = cast(Any, jsonschema.validators).extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("number", _finite),
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
    elif (
        error.validator == "type"
        and error.schema["type"] == "number"
        and (better := exponent(error.instance))
    ):
        yield f"{where}: {error.instance!r} is a text in YAML: write {better}"
    else:
        described = error.schema.get("description")
        yield f"{where}: {error.message}" + (f" ({described})" if described else "")


def _path(error: Any) -> str:
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path
