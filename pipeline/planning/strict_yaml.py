"""YAML as a configuration may hold it: what PyYAML takes silently and nobody means is refused.

Snakemake loads configurations with PyYAML, where the last of two equal names wins and `no` is the
name False.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from pike_mixing.errors import InputError

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


def load(text: str, where: str) -> Any:
    """The content of a YAML document.

    Args:
        text: The document.
        where: Where it stands, for messages: "config.yaml".

    Raises:
        InputError: it is not YAML, names something twice in one mapping or by anything but a text,
            or holds a character that no text has: every such place.
    """
    try:
        # Not libyaml's loader, which crashes on deep nesting.
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        problems = [] if root is None else list(_problems(root, set()))
        if not problems:
            return None if root is None else loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        # A ValueError is a date that there is not, or a number too long to be read.
        raise InputError(f"{where} is not valid YAML: {error}") from None
    except RecursionError:
        raise InputError(f"{where} is nested too deeply: flatten it") from None
    raise InputError("\n".join(f"{where}: {problem}" for problem in problems))


def _problems(node: Any, seen: set[int]) -> Iterator[str]:
    """What is wrong with a node and all below it; what several places refer to is told once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    text, line = node.value, _line(node)
    if not isinstance(node, yaml.ScalarNode):
        items = [item if isinstance(item, tuple) else (item,) for item in text]
        if isinstance(node, yaml.MappingNode):
            yield from _of_names([key for key, _ in items])
        for inner in (part for item in items for part in item):
            yield from _problems(inner, seen)
    elif any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        yield f"line {line}: {text!r} holds a character that no text has: take it out"
    elif node.tag in _NUMBERS and (":" in text or re.fullmatch(r"[-+]?0[0-9_]+", text)):
        # YAML 1.1 reads 010 as 8 and 1:30 as 90.
        yield f"line {line}: YAML reads {text} as octal or base 60: write it plainly"


def _of_names(keys: list[Any]) -> Iterator[str]:
    lines: dict[str, int] = {}
    for key in keys:
        name, line = key.value, _line(key)
        if not isinstance(key, yaml.ScalarNode):
            yield f"line {line}: a list or a mapping cannot be a name"
        elif key.tag not in (_TEXT, _MERGE):
            kind = key.tag.rpartition(":")[2]
            yield f"line {line}: YAML reads the name {name} as {kind}: put it in quotes"
        elif name in lines:
            yield (
                f"line {line}: {name!r} is named a second time, after line {lines[name]}: take "
                "one of them out"
            )
        else:
            lines[name] = line


def _line(node: Any) -> int:
    line: int = node.start_mark.line + 1
    return line
