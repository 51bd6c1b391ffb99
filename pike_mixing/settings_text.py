"""How a terminal shows the settings of a dataclass."""

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any

from pike_mixing.settings import default, is_required, meanings


def settings_of(kind: type[Any]) -> Iterator[tuple[str, str | None, str]]:
    """Name, default as one would write it in a configuration, and meaning of each setting."""
    meant = meanings(kind)
    for field in dataclasses.fields(kind):
        shown = None if is_required(field) else _yaml(default(field))
        yield field.name, shown, meant.get(field.name, "")


def lines_of(kind: type[Any]) -> list[str]:
    """A line for each setting, and its meaning below."""
    lines = []
    for name, shown, meaning in settings_of(kind):
        value = "(required)" if shown is None else f"= {shown}"
        lines += [f"    {name} {value}", *wrapped(meaning, " " * 8)]
    return lines


def wrapped(text: str, indent: str, first: str | None = None) -> list[str]:
    """Text in lines of 96 characters at most.

    Args:
        text: One paragraph.
        indent: Begins each line.
        first: Begins the first line instead.
    """
    begin = indent if first is None else first
    return textwrap.wrap(text, 96, initial_indent=begin, subsequent_indent=indent)


def _yaml(value: Any) -> str:
    plain = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return plain[value]
    return f"{value:.4g}" if isinstance(value, float) and len(repr(value)) > 8 else str(value)
