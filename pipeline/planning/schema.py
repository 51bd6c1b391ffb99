"""What the dataclasses of settings say of a configuration: its mistakes, and its JSON Schema.

`python -m pipeline.planning.schema` writes the schema, for editors.
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from pike_mixing.errors import InputError, clone_setup_command, refuse
from pike_mixing.setting_fields import setting_docstrings
from pipeline.planning import methods
from pipeline.planning.configuration import Experiment, Grid, Names, Runs, Scenario, Seeds
from pipeline.runtime import validate_settings
from pipeline.settings import Model

PATH = Path(__file__).resolve().parents[2] / "workflow" / "schemas" / "config.schema.yaml"
HEAD = """\
# Written from the dataclasses of settings by `make schema`: change it there
# (pipeline/planning/configuration.py names them).
"""
INCLUDE = (
    "Another configuration, from this file's folder on. This one adds to its sections and replaces "
    'nothing; a second file does: `make run CONFIG="one.yaml two.yaml"`.'
)
FILLED = {
    Experiment: tuple(field.name for field in dataclasses.fields(Experiment)),
    Scenario: ("domains", "tokenizer", "training", "evaluation"),
    Model: ("layers", "width", "heads", "head_width"),
    Runs: ("methods",),
    Grid: ("methods", "settings"),
}
"""What a file may leave out, though the plan needs it: `include`, or a short form, gives it."""
SHARED: dict[str, Any] = {"Names": Names, "WholeNumbers": Seeds}
"""Types of many settings, which stand in the schema once."""
Node = dict[str, Any]


def read_experiment(config: Mapping[str, Any], origin: str) -> Experiment:
    """A configuration as dataclasses; settings of it may contradict each other.

    The settings of a mixing method are those of its rule's class, which the schema does not repeat.
    `origin` is where the configuration was set, for messages.

    Raises:
        InputError: every value that is not as the dataclasses want it, with its path and the
            nearest valid name; or this package is a copy without the clone.
    """
    if not PATH.is_file():
        # With an extra, make installs anew whatever is there.
        raise InputError(
            f"the workflow needs the clone of its repository, but this `pike` is a copy in "
            f"{PATH.parents[2]}: in the clone, run `{clone_setup_command('hub')}`, then "
            ".venv/bin/pike"
        )
    problems, result = [], None
    try:
        result = validate_settings.validate(Experiment, config, origin, allow_contradictions=True)
    except InputError as error:
        problems = str(error).splitlines()
    named = config.get("methods")
    for name, values in named.items() if isinstance(named, Mapping) else ():
        if isinstance(values, Mapping):
            problems += methods.rule_name_and_type_problems(values, f"{origin}.methods.{name}")
    refuse(_replace_dot_after_origin(problems, origin))
    assert result is not None
    return result


def contradictions(config: Experiment, origin: str) -> list[str]:
    """Settings of one part of the configuration that do not go together."""
    problems = validate_settings.settings_contradictions(config, origin)
    return _replace_dot_after_origin(problems, origin)


def _replace_dot_after_origin(problems: list[str], origin: str) -> list[str]:
    return [re.sub(rf"^{re.escape(origin)}\.", f"{origin}: ", problem) for problem in problems]


def schema_text() -> str:
    """The file's content: the schema that the dataclasses of settings say."""
    shared = {n: TypeAdapter(kind).json_schema() for n, kind in SHARED.items()}
    parts = _with_references(
        TypeAdapter(Experiment).json_schema(schema_generator=_SettingsSchema), shared
    )
    parts["$defs"] |= shared
    node = {"$schema": "https://json-schema.org/draft/2020-12/schema", **parts}
    own = {"description": INCLUDE, "type": "string"}
    node["properties"] = {"include": own, **parts["properties"]}
    return HEAD + yaml.safe_dump(node, sort_keys=False, width=1000, default_flow_style=None)


def _with_references(node: Any, shared: Mapping[str, Node]) -> Any:
    """A part of a schema with a reference to what is shared in its places."""
    if isinstance(node, list):
        return [_with_references(one, shared) for one in node]
    if not isinstance(node, dict):
        return node
    for name, part in shared.items():
        if part.items() <= node.items():
            rest = {key: value for key, value in node.items() if key not in part}
            return {"$ref": f"#/$defs/{name}", **rest}
    return {key: _with_references(value, shared) for key, value in node.items()}


class _SettingsSchema(GenerateJsonSchema):
    """Says what each setting means; what may be absent is not asked for, and has no null."""

    def dataclass_schema(self, schema: Any) -> Node:
        node, meant = super().dataclass_schema(schema), setting_docstrings(schema["cls"])
        filled = FILLED.get(schema["cls"], ())
        for name, part in node["properties"].items():
            said = {k: v for k, v in part.items() if k != "title" and v is not None}
            node["properties"][name] = {"description": meant.get(name, "")} | said
        required = [name for name in node.get("required", ()) if name not in filled]
        node = {key: part for key, part in node.items() if key not in ("required", "title")}
        node |= {"required": required} if required else {}
        return {**node, "additionalProperties": False}

    def dict_schema(self, schema: Any) -> Node:
        names = self.generate_inner(schema["keys_schema"])
        values = self.generate_inner(schema["values_schema"])
        own = {"propertyNames": names} if "pattern" in names else {}
        return {"type": "object", **own, "additionalProperties": values or True}


if __name__ == "__main__":
    PATH.write_text(schema_text(), encoding="utf-8")
