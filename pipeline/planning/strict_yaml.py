"""YAML 1.2 as a configuration may hold it: what nobody means is refused.

PyYAML reads YAML 1.1, where `no` is false and 1e-2 a text, and takes the last of two equal names.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from pike_mixing.errors import InputError, refuse, shortened_repr

DEEPEST = 50
"""Lists and mappings within each other: no setting has a tenth of it."""
MOST_DIGITS = 3000
"""Of a number that is read at all: Python writes none of more than 4,300."""
LARGEST = 2**20
"""Bytes of a file. The largest of ours has 20,000, and parsing 70,000 takes a second."""
MOST_VALUES = 50_000
"""Values of a file, those that an alias repeats at each of its places; 100 characters are one."""

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


class _TooManyValuesError(Exception):
    """There are more values than a configuration has."""


class _Loader(yaml.SafeLoader):
    """Not libyaml's loader, which crashes on deep nesting."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.composed = 0
        self.anchor_by_node_id: dict[int, str] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node, and not one too many."""
        self.composed += 1
        if self.composed > MOST_VALUES:
            raise _TooManyValuesError
        anchor = self.peek_event().anchor  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        if anchor is not None:
            self.anchor_by_node_id[id(node)] = anchor
        return node

    def construct_yaml12_integer(self, node: Any) -> int:
        """The number that a scalar is: 010 is ten."""
        return int(node.value, {"0o": 8, "0x": 16}.get(node.value[:2], 10))


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$"), None)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_yaml12_integer)


def has_only_storable_characters(value: str) -> bool:
    """Whether UTF-8 and JSON can hold a text: no NUL, and no half of a surrogate pair."""
    return not any(one == "\0" or "\ud800" <= one <= "\udfff" for one in value)


def load_strict_yaml(text: str, place: str) -> Any:
    """The content of a YAML document, which stands at `place`: "config.yaml".

    Raises:
        InputError: it is not YAML, names something twice in one mapping or by anything but a text,
            holds itself, a tag, or a character that no text has: every such place. It is larger
            than `LARGEST`, or than `MOST_VALUES` once its aliases are written out.
    """
    if len(text) > LARGEST:
        raise InputError(f"{place} is too large: a configuration has {LARGEST:,} bytes at most")
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None
        problems = [*dict.fromkeys(_node_problems(root, (), set()))]
        if not problems:
            if _expanded_value_count(root, {}) > MOST_VALUES:
                raise _TooManyValuesError
            return loader.construct_document(root)
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{place} is not valid YAML: {error}") from None
    except RecursionError:
        raise InputError(f"{place} is nested too deeply: flatten it") from None
    except _TooManyValuesError:
        raise InputError(
            f"{place} holds more than {MOST_VALUES:,} values, those that aliases repeat included: "
            "take out what is not needed"
        ) from None
    refuse([f"{place}: line {problem}" for problem in problems])


def anchor_text_by_place(files: Iterable[Path]) -> dict[str, str]:
    """Lists and mappings with an anchor by their place, also that of an alias.

    {"scenarios.a.domains": "`&domains` (line 28)"}; a file that is not there has none.
    """
    result: dict[str, str] = {}
    for path in files:
        if path.is_file():
            loader = _Loader(path.read_text(encoding="utf-8"))
            result |= _node_anchor_texts(loader.get_single_node(), loader.anchor_by_node_id, "")
    return result


def _node_anchor_texts(node: Any, anchor_by_node_id: dict[int, str], place: str) -> dict[str, str]:
    result = {}
    if id(node) in anchor_by_node_id:
        result[place] = f"`&{anchor_by_node_id[id(node)]}` (line {node.start_mark.line + 1})"
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = f"{place}.{key.value}" if place else key.value
            result |= _node_anchor_texts(value, anchor_by_node_id, inner)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            result |= _node_anchor_texts(value, anchor_by_node_id, f"{place}[{number}]")
    return result


def _expanded_value_count(node: Any, known: dict[int, int]) -> int:
    """How many values a node is once its aliases are written out."""
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value) // 100
    if id(node) not in known:
        parts = [part for one in node.value for part in (one if isinstance(one, tuple) else (one,))]
        known[id(node)] = 1 + sum(_expanded_value_count(part, known) for part in parts)
    return known[id(node)]


def _node_problems(node: Any, ancestors: tuple[int, ...], seen: set[int]) -> Iterator[str]:
    """What is wrong with a node and all below it, each with its line."""
    line = node.start_mark.line + 1
    if id(node) in ancestors:
        yield f"{line}: a list or a mapping holds itself: take it out of itself"
    elif len(ancestors) > DEEPEST:
        yield f"{line}: it is nested too deeply: flatten it"
    elif id(node) not in seen:
        seen.add(id(node))
        yield from _tag_and_scalar_problems(node, line)
        if isinstance(node, yaml.ScalarNode):
            return
        items = [item if isinstance(item, tuple) else (item,) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            yield from _key_problems([key for key, _ in items])
        for inner in (item[-1] for item in items):
            yield from _node_problems(inner, (*ancestors, id(node)), seen)


def _tag_and_scalar_problems(node: Any, line: int) -> Iterator[str]:
    """A tag that does not fit what stands behind it, and what JSON cannot hold."""
    name, given = node.tag.removeprefix(_TAG), "this"
    if isinstance(node, yaml.ScalarNode):
        given = shortened_repr(node.value)
        pattern = {**_SCALARS, "str": "(?s:.*)", "merge": ""}.get(name)
        fits = pattern is not None and re.fullmatch(pattern, node.value) is not None
        if not has_only_storable_characters(node.value):
            yield f"{line}: {given} holds a character that no text has: take it out"
        elif name == "int" and len(node.value) > MOST_DIGITS:
            begin, digits = node.value[:20], len(node.value)
            yield f"{line}: the number {begin}... has {digits:,} digits: 19 are the most"
    else:
        fits = name == ("map" if isinstance(node, yaml.MappingNode) else "seq")
    if not fits and name == "merge":
        yield f"{line}: << stands where a value is wanted: put it in quotes"
    elif not fits:
        yield f"{line}: the tag {shortened_repr(node.tag)} does not fit {given}: leave the tag out"


def _key_problems(keys: list[Any]) -> Iterator[str]:
    lines: dict[str, int] = {}
    for key in keys:
        name, line = key.value, key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            yield f"{line}: a list or a mapping cannot be a name"
        elif not has_only_storable_characters(name):
            yield f"{line}: {shortened_repr(name)} holds a character that no text has: take it out"
        elif key.tag not in (f"{_TAG}str", f"{_TAG}merge"):
            kind = key.tag.rpartition(":")[2]
            yield f"{line}: YAML reads the name {name:.100} as {kind}: put it in quotes"
        elif name in lines:
            yield (
                f"{line}: {shortened_repr(name)} is named a second time, after line "
                f"{lines[name]}: take one of them out"
            )
        else:
            lines[name] = line
