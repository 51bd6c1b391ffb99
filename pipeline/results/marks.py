"""What bold, underlined and grey cells of a table mean, and how they are set."""

from collections.abc import Collection

RING = "\N{DEGREE SIGN}"
"""Stands behind what is grey, where there are no colours."""

NOTES = {
    "bold": "Bold: the best of its column, and ahead of the baseline by the paired test over at "
    "least two seeds.",
    "underlined": "Underlined: the best of its column, but not shown to be ahead of the baseline; "
    "or the baseline itself.",
    "beats": "Underlined: PiKE or Balanced-PiKE, and ahead of Mix, Round-Robin and Random, by the "
    "rule of the paper's Tables 2 and 14; no test.",
    "best": "Italics: the best, but not shown to be ahead of the baseline.",
    "faint": f"{RING}, in grey: not above chance (one-sided, 95%, by its own error).",
}
"""What each mark means."""

MARKDOWN = {
    "faint": f"{{}}{RING}",
    "underlined": "<u>{}</u>",
    "beats": "<u>{}</u>",
    "best": "*{}*",
    "bold": "**{}**",
}
LATEX = {
    "faint": r"\textcolor{{gray}}{{{}}}",
    "underlined": r"\underline{{{}}}",
    "beats": r"\underline{{{}}}",
    "best": r"\textit{{{}}}",
    "bold": r"\textbf{{{}}}",
}
"""How a cell's marks are set, the innermost first."""


def notes(marks: Collection[str]) -> list[str]:
    """What those of the marks that a table has mean."""
    return [text for mark, text in NOTES.items() if mark in marks]
