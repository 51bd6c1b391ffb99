"""One cell of a table: its number, how it is shown and how it is marked."""

import math
from dataclasses import dataclass
from typing import TypeGuard

from pipeline.results import marks
from pipeline.results.selection import Row


@dataclass(frozen=True)
class Cell:
    """One number of a table and how it is shown."""

    value: float | None
    error: float | None
    shown: str
    marks: frozenset[str] = frozenset()
    """Of `pipeline.results.marks`."""
    published: float | None = None
    runs: tuple[str, ...] = ()
    """The runs that the number is made of."""


HOPELESS = 100_000
"""A perplexity from here on has no digits to compare: its size is shown, without an error."""
EMPTY = Cell(None, None, "")


def cell_of(row: Row) -> Cell:
    """A cell as a view gives it; `pipeline.results.tables` names the columns."""
    shown = row.get("text") or number(row["value"], row["error"], row["decimals"])
    if row.get("unit") == "ppl" and finite(row["value"]) and row["value"] >= HOPELESS:
        shown = f"{row['value']:.2g}".replace("e+0", "e")
    published = row.get("published")
    if published is not None:
        shown = f"{shown} ({number(published, None, row['decimals'])})".strip()
    marked = {mark for mark in marks.NOTES if row.get(mark)}
    if row.get("above_chance") is False:
        marked.add("faint")
    result = frozenset(marked)
    return Cell(row["value"], row["error"], shown, result, published, row.get("runs", ()))


def number(value: float | None, error: float | None, decimals: int) -> str:
    """A value with its error, in fixed decimals; nothing for a missing value.

    Args:
        value: Missing where nothing is to be shown.
        error: Shown behind ±, if there is one.
        decimals: Digits behind the point.
    """
    if not finite(value):
        return ""
    text = f"{value:,.{decimals}f}"
    if text.lstrip("-0.,") == "":
        text = text.lstrip("-")
    return f"{text} ± {error:,.{decimals}f}" if finite(error) else text


def finite(value: float | None) -> TypeGuard[float]:
    """Whether there is a number to show."""
    return value is not None and math.isfinite(value)
