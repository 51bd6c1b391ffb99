"""What pages show of the code itself: commands, settings of a configuration, modules.

`python docs/reference.py` writes it into them.
"""

import argparse
import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import pike_mixing.__main__ as library
from pike_mixing import RULES
from pike_mixing.finders import FINDERS
from pipeline import cli
from pipeline.planning import schema

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "A method": (
        "interface", "method_registry", "apportion", "alarms", "moved_rows", "flat_metrics",
    ),
    "In torch and in trainers": (
        "torch.mixing", "torch.mixed_dataset", "torch.losses", "torch.gradient_moments",
        "torch.reduce_signals", "transformers", "lightning", "grain", "delivered",
    ),
    "Mixtures from other runs": ("finders.swarm_table", "finders.fit", "mixtures.export"),
}  # fmt: skip
"""Modules of the library for whoever calls it; finders and rules follow by their tables."""
MORE_FINDERS = ("mixmin", "mixture_reuse")


def modules() -> str:
    """Every module of the library that others call: its classes and functions."""
    parts = {part: [f"pike_mixing.{name}" for name in names] for part, names in PARTS.items()}
    finders = [place.partition(":")[0] for place in FINDERS.values()]
    more = [f"pike_mixing.finders.{name}" for name in MORE_FINDERS]
    parts["Finders of mixtures"] = [*dict.fromkeys([*finders, *more])]
    parts["Rules"] = [*dict.fromkeys(place.partition(":")[0] for place in RULES.values())]
    found = []
    for part, names in parts.items():
        found += [f"## {part}\n", *map(_module, names)]
    return "\n".join(found)


def _module(name: str) -> str:
    # Read, not imported: some need packages of trainers.
    path = ROOT / f"{name.replace('.', '/')}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = [f"### {name.removeprefix('pike_mixing.')}\n", _said(tree)]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            parts += [f"**class `{node.name}{_bases(node)}`**\n", _said(node), _fields(node)]
            # The hooks of a rule are those of `Method`.
            if ".rules." not in name:
                parts += [_function(one, f"{node.name}.") for one in node.body]
        elif ".rules." not in name:
            parts.append(_function(node, ""))
    return "\n".join(part for part in parts if part)


def _function(node: ast.AST, owner: str) -> str:
    """A function with its signature; nothing of what is private or no function."""
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
        return ""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    head = f"**`{owner}{node.name}({ast.unparse(node.args)}){result}`**"
    return f"{head}\n\n{_said(node)}"


def _bases(node: ast.ClassDef) -> str:
    bases = ", ".join(map(ast.unparse, node.bases))
    return f"({bases})" if bases else ""


def _fields(node: ast.ClassDef) -> str:
    """The fields of a class that a text follows."""
    rows = []
    for field, text in itertools.pairwise(node.body):
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and is_text:
            rows.append(f"- `{ast.unparse(field)}`: {' '.join(str(text.value.value).split())}")
    return "\n".join([*rows, ""]) if rows else ""


def _said(node: Any) -> str:
    """A docstring as Markdown: sections are lists."""
    found, listed = [], False
    for line in (ast.get_docstring(node) or "").splitlines():
        if section := re.fullmatch(r"(Args|Returns|Raises|Yields|Attributes):", line):
            found.append(f"{section[1]}:\n")
            listed = True
        elif listed and re.match(r"    \S", line):
            found.append(f"- {line.strip()}")
        else:
            found.append(line[6:] if listed else line)
    return "\n".join(found) + "\n"


def commands() -> str:
    """Every command with its options, those of the library last."""
    _, parsers = cli.build_parsers()
    found = []
    for group, about in cli.GROUPS.items():
        found.append(f"## {group}: {about}\n")
        for command in cli.commands():
            if command.group == group:
                found += _command(parsers[command.name])
    found.append("## pike-mixing: the library, which needs NumPy alone\n")
    for action in library._build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            for parser in action.choices.values():
                found += _command(parser)
    return "\n".join(found)


def _command(parser: argparse.ArgumentParser) -> list[str]:
    about, (program, name) = _sentence(parser.description or ""), parser.prog.split()
    shown = (parser.epilog or "").removeprefix("Example: ")
    if program == "pike" and shown:
        # Its help names the program by where it is.
        shown = f".venv/bin/{parser.prog} {cli.EXAMPLES[name]}".rstrip()
    block = [f"```sh\n{shown}\n```\n"] if shown else []
    return [f"### {parser.prog}\n\n{about}\n", *block, _options(parser)]


def _options(parser: argparse.ArgumentParser) -> str:
    rows = []
    for action in parser._actions:
        if "-h" in action.option_strings or action.help == argparse.SUPPRESS:
            continue
        choices = "\\|".join(map(str, action.choices or [action.dest.upper()]))
        metavar = action.metavar or choices
        value = metavar if isinstance(metavar, str) else " ".join(metavar)
        written = " ".join([*action.option_strings[:1], *([] if action.nargs == 0 else [value])])
        # As `--help` shows it, with defaults put in.
        about = parser._get_formatter()._expand_help(action) if action.help else ""
        rows.append(f"| `{written}` | {_cell(about)} |")
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
    text = text.strip()
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


def _cell(text: str | None) -> str:
    one_line = " ".join((text or "").replace("|", "\\|").split())
    return re.sub(r"(?<![`\w-])(--[a-z-]+)", r"`\1`", one_line)


def sections() -> str:
    """The sections of a configuration, with what each holds."""
    whole = yaml.safe_load(schema.PATH.read_text(encoding="utf-8"))
    rows = [
        f"| `{name}` | {_cell(_sentence(node.get('description', '')))} |"
        for name, node in _inlined(whole, whole["$defs"])["properties"].items()
    ]
    return "| key | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n"


PAGES = {
    "config/README.md": sections,
    "docs/api.md": modules,
    "docs/commands.md": commands,
    "docs/settings.md": settings,
}
"""By page: what makes the text below MARK."""
MARK = "<!-- Below: made from the code by `make docs`. -->"


def written(page: str) -> str:
    """A page with the part that is made from the code."""
    above, mark, _ = (ROOT / page).read_text(encoding="utf-8").partition(MARK)
    return f"{above}{mark}\n\n{PAGES[page]()}"


if __name__ == "__main__":
    for one in PAGES:
        (ROOT / one).write_text(written(one), encoding="utf-8")
