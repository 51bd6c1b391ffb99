"""YAML 1.2 as a configuration may hold it: what nobody means is refused.

PyYAML reads YAML 1.1, where `no` is false and 1e-2 a text, and takes the last of two equal names.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from pike_mixing.errors import InputError

_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)"
    r"|\.(nan|NaN|NAN)",
    "merge": "<<",
}
"""What a scalar without quotes is in YAML 1.2's core schema; all others are texts."""
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """Not libyaml's loader, which crashes on deep nesting."""

    def integer(self, node: Any) -> int:
        """The number that a scalar is: 010 is ten."""
        return int(node.value, {"0o": 8, "0x": 16}.get(node.value[:2], 10))


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$"), None)
_Loader.add_constructor(f"{_TAG}int", _Loader.integer)


def load(text: str, where: str) -> Any:
    """The content of a YAML document, which stands at `where`: "config.yaml".

    Raises:
        InputError: it is not YAML, names something twice in one mapping or by anything but a text,
            holds itself, or a character that no text has: every such place.
    """
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        problems = [] if root is None else list(_problems(root, ()))
        if not problems:
            return None if root is None else loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        # A ValueError is a number too long to be read.
        raise InputError(f"{where} is not valid YAML: {error}") from None
    except RecursionError:
        raise InputError(f"{where} is nested too deeply: flatten it") from None
    raise InputError("\n".join(f"{where}: line {problem}" for problem in dict.fromkeys(problems)))


def _problems(node: Any, above: tuple[int, ...]) -> Iterator[str]:
    """What is wrong with a node and all below it, each with its line."""
    line = node.start_mark.line + 1
    if id(node) in above:
        yield f"{line}: a list or a mapping holds itself: take it out of itself"
    elif not isinstance(node, yaml.ScalarNode):
        items = [item if isinstance(item, tuple) else (item,) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            yield from _of_names([key for key, _ in items])
        for inner in (part for item in items for part in item):
            yield from _problems(inner, (*above, id(node)))
    elif any(one == "\0" or "\ud800" <= one <= "\udfff" for one in node.value):
        yield f"{line}: {node.value!r} holds a character that no text has: take it out"


def _of_names(keys: list[Any]) -> Iterator[str]:
    lines: dict[str, int] = {}
    for key in keys:
        name, line = key.value, key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            yield f"{line}: a list or a mapping cannot be a name"
        elif key.tag not in (f"{_TAG}str", f"{_TAG}merge"):
            kind = key.tag.rpartition(":")[2]
            yield f"{line}: YAML reads the name {name} as {kind}: put it in quotes"
        elif name in lines:
            yield (
                f"{line}: {name!r} is named a second time, after line {lines[name]}: take one of "
                "them out"
            )
        else:
            lines[name] = line
