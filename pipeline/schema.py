"""The configuration's JSON Schema, and its violations in words."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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


@functools.cache
def _validator(definition: str | None) -> jsonschema.Draft202012Validator:
    root = document()
    if definition is not None:
        root = {"$defs": root["$defs"], "$ref": f"#/$defs/{definition}"}
    return jsonschema.Draft202012Validator(root)


def _described(
    validator: jsonschema.Draft202012Validator, values: Mapping[str, Any], prefix: str
) -> list[str]:
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
    else:
        described = error.schema.get("description")
        yield f"{where}: {error.message}" + (f" ({described})" if described else "")


def _path(error: Any) -> str:
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path
