"""The configuration's JSON Schema, and its violations in words."""

import functools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import jsonschema
import yaml

from pipeline.settings import unknown

PATH = Path(__file__).resolve().parents[1] / "workflow" / "schemas" / "config.schema.yaml"


def problems(config: Mapping[str, Any], origin: str) -> list[str]:
    """Every violation of the schema, each with its path and, for names, the nearest valid one."""
    return _described(_validator(None), config, f"{origin}: ")


def method_problems(values: Mapping[str, Any], where: str) -> list[str]:
    """Every reason why these are not the settings of a mixing method."""
    return _described(_validator("method"), values, f"{where}.")


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
def _validator(definition: str | None) -> Any:
    root = document()
    if definition is not None:
        root = {"$defs": root["$defs"], "$ref": f"#/$defs/{definition}"}
    return _Validator(root)


def _described(validator: Any, values: Mapping[str, Any], prefix: str) -> list[str]:
    found = [text for error in validator.iter_errors(values) for text in _texts(error, prefix)]
    return sorted(set(found))


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
    elif error.validator == "type" and error.schema["type"] == "number" and _exponent(error):
        yield f"{where}: {error.instance!r} is a text in YAML: write {_exponent(error)}"
    else:
        described = error.schema.get("description")
        yield f"{where}: {error.message}" + (f" ({described})" if described else "")


def _exponent(error: Any) -> str | None:
    """How YAML wants a number like 1e-2, which it takes for a text: 1.0e-2."""
    parts = re.fullmatch(r"([+-]?\d+)(\.\d*)?[eE]([+-]?)(\d+)", str(error.instance))
    if parts is None:
        return None
    whole, fraction, sign, power = parts.groups()
    return f"{whole}{fraction or '.0'}e{sign or '+'}{power}"


def _path(error: Any) -> str:
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path
