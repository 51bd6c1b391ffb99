"""What the site shows of the code itself: commands, settings of a configuration, modules."""

import argparse
import re
from collections.abc import Iterator
from typing import Any

import yaml

from pike_mixing import RULES
from pike_mixing.finders import FINDERS
from pipeline import cli
from pipeline.planning import schema

PARTS = {
    "A method": ("interface", "registry", "apportion", "alarms", "movement", "tracking"),
    "In torch and in trainers": (
        "torch.mixing", "torch.mixed_dataset", "torch.interleave", "torch.losses",
        "torch.gradients", "torch.signals", "transformers", "lightning", "grain", "delivered",
    ),
    "Mixtures from other runs": ("finders.table", "finders.fit", "mixtures.export"),
}  # fmt: skip
"""Modules of the library for whoever calls it; finders and rules follow by their tables."""
MORE_FINDERS = ("mixmin", "reuse")


def modules() -> str:
    """Every module of the library that others call, for autodoc."""
    found = []
    for part, names in PARTS.items():
        found += [f"## {part}\n", *(_module(name, f"pike_mixing.{name}") for name in names)]
    found += [_module(name, place.partition(":")[0]) for name, place in FINDERS.items()]
    found += [_module(name, f"pike_mixing.finders.{name}") for name in MORE_FINDERS]
    found.append("## Rules\n")
    found += [_module(name, place.partition(":")[0]) for name, place in RULES.items()]
    return "\n".join(found)


def _module(title: str, module: str) -> str:
    return f"### {title}\n\n```{{eval-rst}}\n.. automodule:: {module}\n   :members:\n```\n"


def commands() -> str:
    """Every command with its options."""
    _, parsers = cli.parsers()
    found = []
    for group, about in cli.GROUPS.items():
        found.append(f"## {group}: {about}\n")
        for command in cli.commands():
            if command.group == group:
                found.append(f"### pike {command.name}\n\n{_sentence(command.about)}\n")
                found.append(_options(parsers[command.name]))
    return "\n".join(found)


def _options(parser: argparse.ArgumentParser) -> str:
    rows = []
    for action in parser._actions:
        if "-h" in action.option_strings:
            continue
        value = action.metavar or "\\|".join(map(str, action.choices or [action.dest.upper()]))
        written = " ".join([*action.option_strings[:1], *([] if action.nargs == 0 else [value])])
        rows.append(f"| `{written}` | {_cell(action.help)} |")
    return "| option | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def settings() -> str:
    """Every key of a configuration, by section."""
    whole = yaml.safe_load(schema.PATH.read_text(encoding="utf-8"))
    root, found = _inlined(whole, whole["$defs"]), []
    for section, node in root["properties"].items():
        found.append(f"## {section}\n\n{_sentence(node.get('description', ''))}\n")
        kinds = node.get("additionalProperties")
        for kind in kinds.get("oneOf", [kinds]) if isinstance(kinds, dict) else [node]:
            rows = list(_keys(kind, ""))
            if not rows:
                continue
            if kind is not kinds and kind is not node:
                (name,) = (v["const"] for v in kind["properties"].values() if "const" in v)
                found.append(f"### {section}: {name}\n\n{_sentence(kind['description'])}\n")
            found.append(
                "| key | default | meaning |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
            )
    return "\n".join(found)


def _inlined(node: Any, parts: dict[str, Any]) -> Any:
    """A part of the schema with the parts that it refers to in their places, null left out."""
    if isinstance(node, list):
        return [_inlined(one, parts) for one in node]
    if not isinstance(node, dict):
        return node
    first = node.get("anyOf", [{}])[0] | node
    named = parts[first.pop("$ref").rpartition("/")[2]] if "$ref" in first else {}
    return {
        k: _inlined(v, parts) for k, v in (named | first).items() if k not in ("anyOf", "$defs")
    }


def _keys(node: dict[str, Any], before: str) -> Iterator[str]:
    """A row for each key, those within a key behind it."""
    for key, value in node.get("properties", {}).items():
        if "const" in value:
            continue
        default = "must be given" if key in node.get("required", ()) else value.get("default", "")
        shown = f"`{default}`" if "default" in value else default
        yield f"| `{before}{key}` | {shown} | {_cell(value.get('description', ''))} |"
        inner = value.get("items", value)
        yield from _keys(inner if isinstance(inner, dict) else {}, f"{before}{key}.")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


def _cell(text: str | None) -> str:
    one_line = " ".join((text or "").replace("|", "\\|").split())
    return re.sub(r"(?<![`\w-])(--[a-z-]+)", r"`\1`", one_line)


PAGES = {
    "docs/api": ("MODULES", modules),
    "docs/commands": ("COMMANDS", commands),
    "docs/settings": ("SETTINGS", settings),
}
"""By page: the line that is replaced, and what makes the text."""
