"""YAML as a configuration may hold it: what PyYAML takes silently and nobody means is refused.

Snakemake loads configurations with PyYAML, where the last of two equal names wins, `no` is the name
False and an anchor may hold itself.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from pike_mixing.errors import InputError

LARGEST = 1_000_000
"""Values that a configuration holds at most; those of an anchor count wherever it is used."""

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


def load(text: str, where: str) -> Any:
    """The content of a YAML document.

    Args:
        text: The document.
        where: Where it stands, for messages: "config.yaml".

    Raises:
        InputError: it is not YAML, names something twice in one mapping or by anything but a text,
            holds an anchor within itself, a character that no text has, or far too much.
    """
    problems: list[str] = []
    try:
        # Not libyaml's loader, which crashes on deep nesting.
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        if _size(root, {}, problems) > LARGEST:
            problems.append(f"holds more than {LARGEST:,} values, anchors unfolded")
        if not problems:
            return loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        # A ValueError is a date that there is not, or a number too long to be read.
        raise InputError(f"{where} is not valid YAML: {error}") from None
    except RecursionError:
        raise InputError(f"{where} is nested too deeply: flatten it") from None
    raise InputError("\n".join(f"{where}: {problem}" for problem in problems))


def _size(node: Any, sizes: dict[int, int | None], problems: list[str]) -> int:
    """Values within a node, each node looked at once; None stands for one that is not done."""
    if id(node) in sizes:
        known = sizes[id(node)]
        if known is None:
            problems.append(f"line {_line(node)}: the anchor refers to itself: write it out")
        return known or 0
    sizes[id(node)] = None
    problems += _of_mapping(node) if isinstance(node, yaml.MappingNode) else ()
    problems += (*_of_text(node), *_of_number(node)) if isinstance(node, yaml.ScalarNode) else ()
    inner = [] if isinstance(node, yaml.ScalarNode) else node.value
    parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,))]
    found = sizes[id(node)] = 1 + sum(_size(part, sizes, problems) for part in parts)
    return found


def _of_mapping(node: Any) -> Iterator[str]:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            yield f"line {_line(key)}: a list or a mapping cannot be a name"
        elif key.tag not in (_TEXT, _MERGE):
            kind = key.tag.rpartition(":")[2]
            yield f"line {_line(key)}: YAML reads the name {key.value} as {kind}: put it in quotes"
        elif key.value in lines:
            yield (
                f"line {_line(key)}: {key.value!r} is named a second time, after line "
                f"{lines[key.value]}: take one of them out"
            )
        else:
            lines[key.value] = _line(key)


def _of_number(node: Any) -> Iterator[str]:
    """YAML 1.1 reads 010 as 8 and 1:30 as 90."""
    if node.tag in _NUMBERS and (":" in node.value or re.fullmatch(r"[-+]?0[0-9_]+", node.value)):
        yield f"line {_line(node)}: YAML reads {node.value} as octal or base 60: write it plainly"


def _of_text(node: Any) -> Iterator[str]:
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in node.value):
        yield f"line {_line(node)}: {node.value!r} holds a character that no text has: take it out"


def _line(node: Any) -> int:
    line: int = node.start_mark.line + 1
    return line
