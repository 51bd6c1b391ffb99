"""How a command shows what it found: text for people, JSON and CSV for programs, colour."""

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TextIO

Row = Mapping[str, Any]

WIDEST = 60
"""Characters of a cell in the aligned table; longer ones are cut with `...`."""
COLOURS = {"bold": 1, "red": 31, "green": 32, "yellow": 33}


def count_with_noun(number: int, noun: str) -> str:
    """A number with its noun: 1 seed, 2 seeds."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def json_csv_or_text(format: str, facts: Any, make_text: Callable[[], str]) -> str:
    """What a command found, as `json`, `csv` or text for people; ends without a line break.

    `facts` are plain values, for `csv` rows, which have the same names; `make_text` makes the text.
    """
    if format == "json":
        return as_json(facts)
    if format == "csv":
        return as_csv(list(facts[0]) if facts else [], [[*row.values()] for row in facts])
    return make_text()


def as_json(facts: Any) -> str:
    return json.dumps(json_value_text_or_null(facts), indent=2, ensure_ascii=False)


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue().removesuffix("\n")


def json_value_text_or_null(value: Any) -> Any:
    """As JSON has it: no NaN, no infinity, no decimals; times and all else as text."""
    if isinstance(value, list | tuple):
        return [json_value_text_or_null(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): json_value_text_or_null(item) for key, item in value.items()}
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str | None) else str(value)


def table_with_row_count(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns under their names, numbers to the right, and the count of rows."""
    texts = [[_cell_text(value) for value in row] for row in rows]
    right = [
        bool(rows) and all(isinstance(row[i], int | float | Decimal | None) for row in rows)
        for i in range(len(columns))
    ]
    return f"{align_columns(columns, texts, right)}\n({count_with_noun(len(rows), 'row')})"


def align_columns(
    columns: Sequence[str], texts: Sequence[Sequence[str]], right: Sequence[bool]
) -> str:
    """Texts of rows in columns under their names; `right` says which columns are set right."""
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([colour_text(line(columns), "bold"), rule, *map(line, texts)])


def _cell_text(value: Any) -> str:
    """One line of at most `WIDEST` characters; floats with six significant digits."""
    if isinstance(value, float | Decimal):
        return f"{value:.6g}"
    text = "" if value is None else " ".join(str(value).split())
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def colour_text(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in one of `COLOURS` where `stream` (absent: standard output) is a terminal.

    Else, and where NO_COLOR is set (no-color.org), it is as it was.
    """
    stream = stream or sys.stdout
    coloured = stream.isatty() and not os.environ.get("NO_COLOR")
    return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m" if coloured else text
