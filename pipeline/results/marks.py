"""What bold, underlined, grey and signed cells of a table mean, and how they are set."""

from collections.abc import Collection, Mapping

import duckdb

from pike_mixing.comparison.mean_difference import LEAST_SEEDS
from pipeline.results import selection

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
    "bold": "Bold: the best of its column, and ahead of the baseline, or of what the column is "
    f"against, by the paired test over at least {LEAST_SEEDS} seeds (boards: scenarios), corrected "
    "for all methods of the section.",
    "underlined": "Underlined: the best of its column, but not shown to be ahead of the baseline; "
    "or the baseline itself.",
    "beats": "Underlined: PiKE or Balanced-PiKE, and ahead of Mix, Round-Robin and Random, by the "
    "rule of the paper's Tables 2 and 14; no test.",
    "best": "Italics: the best, but not shown to be ahead of the baseline.",
    "faint": f"{RING}, in grey: not above chance: its interval reaches down to it.",
    "collapsed": f"{SIGNS['collapsed']}: some runs collapsed: in their last quarter the rows "
    "spread over fewer than 1.3 effective domains, or a domain had no row for a quarter of it.",
    "unmoved": f"{SIGNS['unmoved']}: in some runs the method never moved a row, so that they "
    "trained as its initial weights alone do (alarm never-moved).",
    "one_seed": f"{SIGNS['one_seed']}: one seed: the interval is over documents or items alone; "
    "another seed may differ by more.",
    "other_sign": f"{SIGNS['other_sign']}: over the seeds that this method and Mix both have, it "
    "differs from Mix in the other direction: its other seeds, or those of Mix, make the means.",
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


Doubts = Mapping[tuple[str | None, ...], Mapping[str, str]]
"""By scenario, model and method its marks, each with how many of how many runs have it."""


def notes(marks: Collection[str]) -> list[str]:
    """What those of the marks that a table has mean."""
    return [text for mark, text in NOTES.items() if mark in marks]


def counted_notes(marked: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The same, each with the rows that have the mark, and in how many of how many runs."""
    rows = {
        mark: [f"{row}: {marks[mark]} runs." for row, marks in marked.items() if mark in marks]
        for mark in NOTES
    }
    return [" ".join([text, *rows[mark]]) for mark, text in NOTES.items() if rows[mark]]


def told(row: str, marks: Mapping[str, str]) -> list[str]:
    """What each mark of one row means, with in how many of how many runs, without its sign."""
    return [
        f"{row}: {text.partition(': ')[2].rstrip('.')} ({marks[mark]} runs)."
        for mark, text in NOTES.items()
        if mark in marks
    ]


def signs(marked: Collection[str]) -> str:
    """The signs of those of the marks that have one."""
    return "".join(sign for mark, sign in SIGNS.items() if mark in marked)


def escaped(text: str) -> str:
    """Plain text as LaTeX."""
    special = {c: f"\\{c}" for c in "&%$#_{}"} | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        RING: r"\textdegree{}",
        SIGNS["collapsed"]: r"\dag{}",
        SIGNS["unmoved"]: r"\S{}",
        SIGNS["one_seed"]: r"$^1$",
        SIGNS["other_sign"]: r"$^{\neq}$",
    }
    return "".join(special.get(character, character) for character in text)


def doubts(connection: duckdb.DuckDBPyConnection, where: str) -> Doubts:
    """Marks that alarms give to the numbers of a scenario, a model and a method, with counts.

    Raises:
        InputError: the database is of an earlier version.
    """
    result: dict[tuple[str | None, ...], dict[str, str]] = {}
    for row in selection.rows(connection, "doubts", {}, where):
        key = row["scenario"], row["model"], row["method"]
        count = f"{row['runs']} of {row['of_runs']}"
        result.setdefault(key, {})[row["mark"]] = count
    return result
