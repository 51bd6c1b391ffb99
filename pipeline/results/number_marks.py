"""Marks of numbers, what they mean, and the cells of tables that show both."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeGuard

import duckdb

from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pipeline.results import database_reader
from pipeline.results.database_reader import Row

RING = "\N{DEGREE SIGN}"
"""Stands behind what is grey, where there are no colours."""

SIGNS = {
    "faint": RING,
    "collapsed": "\N{DAGGER}",
    "unmoved": "\N{SECTION SIGN}",
    "one_seed": "\N{SUPERSCRIPT ONE}",
    "other_sign": "\N{NOT EQUAL TO}",
}
"""What stands behind a cell with a mark that is no style."""

NOTES = {
    "bold": "Bold: the best of its column, and shown to be ahead of the baseline (or of what the "
    f"column compares with) by a paired test over at least {LEAST_SEEDS} seeds (on boards: "
    "scenarios). The test is corrected for the number of methods in the section.",
    "underlined": "Underlined: the best of its column, but not shown to be ahead of the baseline; "
    "or the baseline itself.",
    "beats": "Underlined: PiKE or Balanced-PiKE, and ahead of Mix, Round-Robin and Random, by the "
    "rule of the paper's Tables 2 and 14; no test.",
    "best": "Italics: the best, but not shown to be ahead of the baseline.",
    "faint": f"{RING}, in grey: not above chance: its interval reaches down to it.",
    "collapsed": f"{SIGNS['collapsed']}: some runs collapsed: in their last quarter the rows "
    "spread over fewer than 1.3 effective domains, or a domain had no row for a quarter of it.",
    "unmoved": f"{SIGNS['unmoved']}: in some runs the method never changed how many rows a domain "
    "had in a batch, so they trained as with its initial weights (alarm never-moved).",
    "one_seed": f"{SIGNS['one_seed']}: one seed: the interval is over documents or items alone; "
    "another seed may differ by more.",
    "other_sign": f"{SIGNS['other_sign']}: the two means are over different seeds. Over the seeds "
    "that this method and the baseline (Mix) share, the difference has another sign.",
}
"""What each mark means."""

MARKDOWN = {
    **{mark: f"{{}}{sign}" for mark, sign in SIGNS.items()},
    "underlined": "<u>{}</u>",
    "beats": "<u>{}</u>",
    "best": "*{}*",
    "bold": "**{}**",
}
LATEX = {
    "faint": r"\textcolor{{gray}}{{{}}}",
    "collapsed": r"{}\dag{{}}",
    "unmoved": r"{}\S{{}}",
    "one_seed": r"{}$^1$",
    "other_sign": r"{}$^{{\neq}}$",
    "underlined": r"\underline{{{}}}",
    "beats": r"\underline{{{}}}",
    "best": r"\textit{{{}}}",
    "bold": r"\textbf{{{}}}",
}
"""How a cell's marks are set, the innermost first."""


PRINTED = "As printed"
"""With this the name of a table's section begins that holds the paper's own numbers."""

RunCountByMark = Mapping[str, str]
"""In how many of how many runs each mark is: `3 of 10`."""
Doubts = Mapping[tuple[str | None, ...], RunCountByMark]
"""The marks by scenario, model and method."""


def notes_of_marks(marks: Collection[str]) -> list[str]:
    """What those of the marks that a table has mean."""
    return [text for mark, text in NOTES.items() if mark in marks]


def marks_to_explain(section: str, marks: Collection[str]) -> set[str]:
    """Those of a section's marks that notes explain: bold in the paper's own rows is its own."""
    return {mark for mark in marks if mark != "bold" or not section.startswith(PRINTED)}


def notes_with_counts(marks_by_row: Mapping[str, RunCountByMark]) -> list[str]:
    """The same, each with the rows that have the mark, and in how many of how many runs."""
    rows = {
        mark: [f"{row}: {of[mark]} runs." for row, of in marks_by_row.items() if mark in of]
        for mark in NOTES
    }
    return [" ".join([text, *rows[mark]]) for mark, text in NOTES.items() if rows[mark]]


def mark_explanations(row: str, marks: RunCountByMark) -> list[str]:
    """What each mark of one row means, with in how many of how many runs, without its sign."""
    return [
        f"{row}: {text.partition(': ')[2].rstrip('.')} ({marks[mark]} runs)."
        for mark, text in NOTES.items()
        if mark in marks
    ]


def signs_of_marks(marked: Collection[str]) -> str:
    """The signs of those of the marks that have one."""
    return "".join(sign for mark, sign in SIGNS.items() if mark in marked)


def escape_latex(text: str) -> str:
    """Plain text as LaTeX."""
    special = {c: f"\\{c}" for c in "&%$#_{}"} | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        **{sign: LATEX[mark].format("") for mark, sign in SIGNS.items()},
        # What is grey is so without it.
        RING: r"\textdegree{}",
    }
    return "".join(special.get(character, character) for character in text)


def read_doubts_by_method(connection: duckdb.DuckDBPyConnection, place_in_messages: str) -> Doubts:
    """Marks that alarms give to the numbers of a scenario, a model and a method, with counts."""
    result: dict[tuple[str | None, ...], dict[str, str]] = {}
    for row in database_reader.select_rows_keeping_nulls(
        connection, "doubtful_runs", {}, place_in_messages
    ):
        key = row["scenario"], row["model"], row["method"]
        count = f"{row['runs']} of {row['of_runs']}"
        result.setdefault(key, {})[row["mark"]] = count
    return result


@dataclass(frozen=True)
class Cell:
    """One number of a table and how it is shown."""

    value: float | None
    error: float | None
    shown: str
    marks: frozenset[str] = frozenset()
    """Of `pipeline.results.number_marks`."""
    published: float | None = None
    runs: tuple[str, ...] = ()
    """The runs that the number is made of."""


HOPELESS = 100_000
"""A perplexity from here on has no digits to compare: its size is shown, without an error."""
EMPTY = Cell(None, None, "")


def cell_of(row: Row) -> Cell:
    """A cell as a view gives it; `pipeline.results.tables` names the columns."""
    shown = row.get("text") or number_with_error_or_empty(
        row["value"], row["error"], row["decimals"]
    )
    if row.get("unit") == "ppl" and is_finite(row["value"]) and row["value"] >= HOPELESS:
        shown = f"{row['value']:.2g}".replace("e+0", "e")
    published = row.get("published")
    if published is not None:
        shown = f"{shown} ({number_with_error_or_empty(published, None, row['decimals'])})".strip()
    marked = {mark for mark in NOTES if row.get(mark)}
    if row.get("above_chance") is False:
        marked.add("faint")
    result = frozenset(marked)
    return Cell(row["value"], row["error"], shown, result, published, row.get("runs", ()))


def number_with_error_or_empty(value: float | None, error: float | None, decimals: int) -> str:
    """A value, with its error behind ± if there is one, in fixed decimals; "" for a missing one."""
    if not is_finite(value):
        return ""
    text = f"{value:,.{decimals}f}"
    if text.lstrip("-0.,") == "":
        text = text.lstrip("-")
    return f"{text} ± {error:,.{decimals}f}" if is_finite(error) else text


def is_finite(value: float | None) -> TypeGuard[float]:
    """Whether there is a number to show."""
    return value is not None and math.isfinite(value)
