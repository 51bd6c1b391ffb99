"""What the dataclasses of settings say of a configuration: its mistakes, and its JSON Schema.

`python -m pipeline.planning.schema` writes the schema, for editors.
"""

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from pike_mixing.errors import InputError, install
from pike_mixing.settings_text import meanings
from pipeline.planning import methods
from pipeline.planning.configuration import Experiment
from pipeline.runtime import validation

PATH = Path(__file__).resolve().parents[2] / "workflow" / "schemas" / "config.schema.yaml"
HEAD = """\
# Written from the dataclasses of settings by `make schema`: change it there
# (pipeline/planning/configuration.py names them).
"""
Node = dict[str, Any]


def problems(config: Mapping[str, Any], origin: str) -> list[str]:
    """Every value that is not as the dataclasses want it, with its path and the nearest valid name.

    The settings of a mixing method are those of its rule's class, which the schema does not repeat.

    Args:
        config: The configuration.
        origin: Where it was set, for messages.

    Raises:
        InputError: this package is a copy without the clone, where the workflow lies.
    """
    if not PATH.is_file():
        # With an extra, make installs anew whatever is there.
        raise InputError(
            f"the workflow needs the clone of its repository, but this `pike` is a copy in "
            f"{PATH.parents[2]}: in the clone, run `{install('hub')}`, and then .venv/bin/pike"
        )
    found = []
    try:
        validation.build(Experiment, config, origin)
    except InputError as error:
        found = str(error).splitlines()
    named = config.get("methods")
    for name, values in named.items() if isinstance(named, Mapping) else ():
        if isinstance(values, Mapping):
            found += methods.problems(values, f"{origin}.methods.{name}")
    return _in_file(found, origin)


def contradictions(config: Experiment, origin: str) -> list[str]:
    """Settings of one part of the configuration that do not go together."""
    return _in_file(validation.contradictions(config, origin), origin)


def _in_file(problems: list[str], origin: str) -> list[str]:
    return [re.sub(rf"^{re.escape(origin)}\.", f"{origin}: ", problem) for problem in problems]


def document() -> Node:
    """The schema that the dataclasses of settings say."""
    whole = TypeAdapter(Experiment).json_schema(schema_generator=_OfSettings)
    parts = whole.pop("$defs")
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": "An experiment", **_inlined(whole, parts)}


def text() -> str:
    """The file's content."""
    return HEAD + yaml.safe_dump(document(), sort_keys=False, width=1000, default_flow_style=None)


class _OfSettings(GenerateJsonSchema):
    """Says what classes and their settings mean; without titles and defaults that are no value."""

    def dataclass_schema(self, schema: Any) -> Node:
        node, kind = super().dataclass_schema(schema), schema["cls"]
        about = (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")
        settings, meant = node["properties"], meanings(kind)
        described = {n: {"description": meant[n], **settings[n]} for n in settings if n in meant}
        needed = [name for name in ("kind",) if name in settings] + node.get("required", [])
        return {
            "description": about,
            "type": "object",
            "additionalProperties": False,
            "required": needed,
            "properties": {**settings, **described},
        }

    def default_schema(self, schema: Any) -> Node:
        node = super().default_schema(schema)
        is_value = isinstance(node.get("default"), bool | int | float | str)
        return node if is_value else {k: part for k, part in node.items() if k != "default"}

    def dict_schema(self, schema: Any) -> Node:
        names = self.generate_inner(schema["keys_schema"])
        values = self.generate_inner(schema["values_schema"])
        own = {"propertyNames": names} if "pattern" in names else {}
        return {"type": "object", **own, "additionalProperties": values or True}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def sort(self, value: Any, parent_key: str | None = None) -> Any:
        return value


def _inlined(node: Any, parts: Node) -> Any:
    """A part of the schema with the parts that it refers to in their places."""
    if isinstance(node, list):
        return [_inlined(one, parts) for one in node]
    if not isinstance(node, dict):
        return node
    if (name := node.get("$ref")) is not None:
        own = {key: part for key, part in node.items() if key != "$ref"}
        return _inlined(parts[name.rpartition("/")[2]], parts) | own
    node = {key: _inlined(part, parts) for key, part in node.items() if key != "discriminator"}
    if "anyOf" not in node:
        return node
    wanted, _ = node.pop("anyOf")
    of_null = {"enum": [*wanted["enum"], None]} if "enum" in wanted else {}
    named = wanted["type"] if isinstance(wanted["type"], list) else [wanted["type"]]
    return {**wanted, **node, "type": [*named, "null"], **of_null}


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
