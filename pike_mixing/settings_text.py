"""What a dataclass says of its settings, and how a terminal shows it."""

import ast
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from typing import Any, cast


def default(field: dataclasses.Field[Any]) -> Any:
    """What a setting is where it is not set; `dataclasses.MISSING` where it must be."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def is_required(field: dataclasses.Field[Any]) -> bool:
    """Whether a setting has no default."""
    return default(field) is dataclasses.MISSING


def meanings(kind: type[Any]) -> dict[str, str]:
    """What the settings of a dataclass mean: the docstring below each field, by its name."""
    result: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if "__dataclass_fields__" not in vars(base):
            continue
        try:
            source = inspect.getsource(base)
        except (OSError, TypeError):
            # A class that was made while the program runs.
            continue
        body = cast(ast.ClassDef, ast.parse(textwrap.dedent(source)).body[0]).body
        for field, below in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                words = str(getattr(below.value, "value", ""))
                result[ast.unparse(field.target)] = " ".join(words.split())
    return result


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
    """Text in lines of 96 characters at most."""
    begin = indent if first is None else first
    return textwrap.wrap(text, 96, initial_indent=begin, subsequent_indent=indent)


def _yaml(value: Any) -> str:
    plain = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return plain[value]
    return f"{value:.4g}" if isinstance(value, float) and len(repr(value)) > 8 else str(value)
