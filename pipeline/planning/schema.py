"""What the dataclasses of settings say of a configuration: its mistakes, and its JSON Schema.

`python -m pipeline.planning.schema` writes the schema, for editors.
"""

import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from pike_mixing.errors import InputError, install
from pike_mixing.limits import Kinds
from pike_mixing.settings import mismatches
from pike_mixing.settings_text import is_required, meanings
from pipeline.planning import methods
from pipeline.planning.configuration import Experiment
from pipeline.settings import not_on_hub

PATH = Path(__file__).resolve().parents[2] / "workflow" / "schemas" / "config.schema.yaml"
HEAD = """\
# Written from the dataclasses of settings by `make schema`: change it there
# (pipeline/planning/configuration.py names them).
"""
TYPES: dict[str, Any] = {"integer": int, "number": float, "string": str, "boolean": bool}
NUMBERS = {
    "at_least": "minimum",
    "above": "exclusiveMinimum",
    "at_most": "maximum",
    "below": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "distinct": "uniqueItems",
    "means": "patternErrorMessage",
}
"""Limits by the keyword that says the same; editors know the last, which JSON Schema does not."""
FILLED = {"string": "minLength", "array": "minItems", "object": "minProperties"}
HUB_ID = "hub-id"
Node = dict[str, Any]


def problems(config: Mapping[str, Any], origin: str, *, own: bool = False) -> list[str]:
    """Every value that is not as the dataclasses want it, with its path and the nearest valid name.

    The settings of a mixing method are those of its rule's class, which the schema does not repeat.

    Args:
        config: The configuration.
        origin: Where it was set, for messages.
        own: Whether settings that do not go together count, too.

    Raises:
        InputError: this package is a copy without the clone, where the workflow lies.
    """
    if not PATH.is_file():
        # With an extra, make installs anew whatever is there.
        raise InputError(
            f"the workflow needs the clone of its repository, but this `pike` is a copy in "
            f"{PATH.parents[2]}: in the clone, run `{install('hub')}`, and then .venv/bin/pike"
        )
    found = mismatches(Experiment, config, origin, own=own)
    named = config.get("methods")
    for name, values in named.items() if isinstance(named, Mapping) else ():
        if isinstance(values, Mapping):
            found += methods.problems(values, f"{origin}.methods.{name}")
    nested = f"{origin}."
    return [f"{origin}: {p.removeprefix(nested)}" if p.startswith(nested) else p for p in found]


def document() -> Node:
    """The schema that the dataclasses of settings say."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": "An experiment", **_object(Experiment)}


def text() -> str:
    """The file's content."""
    return HEAD + yaml.safe_dump(document(), sort_keys=False, width=1000, default_flow_style=None)


def _object(kind: Any) -> Node:
    """The part of the schema that describes the settings of a dataclass."""
    found: Node = {"description": _sentence(kind), "type": "object", "additionalProperties": False}
    fields = {name: (field, node) for name, field, node in _fields(kind)}
    if required := [name for name, (field, _) in fields.items() if is_required(field)]:
        found["required"] = required
    return found | {"properties": {name: node for name, (_, node) in fields.items()}}


def _sentence(kind: Any) -> str:
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")


def _fields(kind: Any) -> Iterator[tuple[str, dataclasses.Field[Any], Node]]:
    """Name, field and description of each setting."""
    hints, meant = get_type_hints(kind, include_extras=True), meanings(kind)
    for field in dataclasses.fields(kind):
        node = _node(hints[field.name])
        if words := meant.get(field.name):
            node = {"description": words, **{k: v for k, v in node.items() if k != "description"}}
        if isinstance(field.default, bool | int | float | str):
            node["default"] = field.default
        yield field.name, field, node


def _node(hint: Any) -> Node:
    """The part of the schema that describes values of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(*inner)
    if origin in (Union, types.UnionType):
        return _or_null(_node(next(each for each in inner if each is not type(None))))
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple:
        return {"type": "array", "items": _node(inner[0])}
    if origin is dict:
        names = {} if inner[0] is str else {"propertyNames": _node(inner[0])}
        return {"type": "object", **names, "additionalProperties": _node(inner[1])}
    if dataclasses.is_dataclass(hint):
        return _object(hint)
    return {} if hint is Any else {"type": next(n for n, t in TYPES.items() if t is hint)}


def _or_null(node: Node) -> Node:
    if "enum" in node:
        return {**node, "enum": [*node["enum"], None]}
    named = node["type"]
    return {**node, "type": [*(named if isinstance(named, list) else [named]), "null"]}


def _annotated(hint: Any, note: Any) -> Node:
    if isinstance(note, Kinds):
        return {"oneOf": [_of_kind(kind, each) for kind, each in note.types.items()]}
    node = _node(hint)
    said = {NUMBERS[n]: v for n, v in vars(note).items() if n in NUMBERS and v}
    said |= {NUMBERS[n]: 0 for n in ("at_least", "above") if getattr(note, n) == 0}
    said |= {FILLED[node["type"]]: 1} if note.filled else {}
    said |= {"pattern": f"^({note.pattern})$"} if note.pattern else {}
    said |= {"format": HUB_ID} if note.judge is not_on_hub else {}
    return {**node, **said} | ({"type": ["string", "array"]} if note.or_one else {})


def _of_kind(kind: str, settings: Any) -> Node:
    node = _object(settings)
    node["required"] = ["kind", *node.get("required", ())]
    return node | {"properties": {"kind": {"const": kind}, **node["properties"]}}


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
