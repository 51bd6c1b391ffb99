"""A comparison as text, Markdown, CSV or JSON."""

import csv
import io
import json
from collections.abc import Callable, Container, Sequence
from typing import Any

from pike_mixing.comparison.detectable import MOST
from pike_mixing.comparison.mean_difference import LEAST_SEEDS, LEVEL
from pike_mixing.comparison.verdicts import EQUAL, UNKNOWN, Comparison, Row
from pike_mixing.errors import names_text

HEAD = ("task", "metric", "A", "B", "A - B", "95 % interval", "p", "verdict")
VALUES = (
    *("task", "metric", "higher_is_better", "a", "b", "difference", "low", "high", "p", "p_holm"),
    *("verdict", "why_none", "items", "documents", "documents_alike", "wide"),
    *("effective_documents", "error_of_seeds", "error_of_items", "smallest_shown"),
    *("items_wanted", "runs_wanted"),
)
"""Of each row, in JSON and CSV."""
NUMBERS = range(2, 7)
"""Columns of numbers, which stand at the right."""


def task_and_mean_rows(comparison: Comparison) -> list[Row]:
    """The tasks, and behind them their mean."""
    return [*comparison.tasks, *([comparison.mean] if comparison.mean else [])]


def row_label(comparison: Comparison, row: Row) -> str:
    """A row's name."""
    return row.task or f"mean of {len(comparison.tasks)} tasks"


def comparison_scope_sentence(comparison: Comparison) -> str:
    """What the comparison is about, its runs and how they are paired, as a sentence."""
    counts = [len(runs) for runs in comparison.runs]
    if comparison.recipes:
        how = "paired by seed" if comparison.paired else "not paired"
        return (
            f"About these two recipes, on items like these: {counts[0]} runs of A and {counts[1]} "
            f"of B, {how}."
        )
    two = "these two checkpoints" if counts == [1, 1] else f"these {sum(counts)} checkpoints"
    return f"About {two}, on items like these; other runs of their recipes may differ."


def side_a_verdict_text(comparison: Comparison, row: Row) -> str:
    """A row's verdict in words; `power_text` says why there is none."""
    if row.is_same and row.verdict == UNKNOWN:
        return "equal here"
    if row.why_none is not None:
        return "no verdict"
    return f"equal within {comparison.margin:g}" if row.verdict == EQUAL else row.verdict


def p_text_or_empty(p: float | None) -> str:
    return "" if p is None else "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def power_text(comparison: Comparison, row: Row) -> str:
    """What the comparison of a row could have shown, and what would tell."""
    name = row_label(comparison, row)
    if row.why_none is not None:
        why = "on other items, no verdict" if row.is_same else "no verdict"
        return f"{name}: {why}: {row.why_none}."
    if row.smallest_shown is None:
        return f"{name}: no verdict: one document says nothing about others."
    counts = f"{row.items:,} items of {row.documents:,} documents"
    said = (
        f"{name}: {counts}; a difference of {row.smallest_shown:.4f} would be found with "
        "80 % probability"
    )
    wide = (
        f" {row.documents_alike:,} of the documents show the same difference. Other kinds of "
        "documents may exist that are not in this sample: the interval is wider because of them."
        if row.wide
        else ""
    )
    if row.verdict != UNKNOWN or row.estimate.difference == 0:
        return f"{said}.{wide}"
    if row.low is not None and row.high is not None and row.low * row.high > 0:
        wide += (
            " The interval does not include 0, but p is stricter: of several tasks it is corrected "
            "for their number, and of two checkpoints with scores of 0 and 1 it is never smaller "
            "than that of an exact test."
        )
    ways = []
    if row.items_wanted is not None:
        ways.append(f"{row.items_wanted:,.0f} items like these")
    if row.runs_wanted is not None:
        ways.append(f"{row.runs_wanted:,.0f} runs on each side")
    asked = "items or runs" if comparison.recipes else "items"
    would = (
        f"{' or '.join(ways)} would be enough"
        if ways
        else f"even {MOST:,.0f} times as many {asked} would not be enough"
    )
    return f"{said}; {would} for a difference of {abs(row.estimate.difference):.4f}.{wide}"


def _row_cells(comparison: Comparison, row: Row) -> list[str]:
    interval = "" if row.low is None else f"{row.low:.4f} to {row.high:.4f}"
    numbers = [f"{number:.4f}" for number in (row.a, row.b, row.estimate.difference)]
    name = row_label(comparison, row)
    p, verdict = p_text_or_empty(row.p_holm), side_a_verdict_text(comparison, row)
    return [name, row.metric, *numbers, interval, p, verdict]


def _side_lines(comparison: Comparison) -> list[str]:
    return [
        f"{side}: {names_text((run.name for run in runs), most=3)}"
        for side, runs in zip("AB", comparison.runs, strict=True)
    ]


def _closing_lines(comparison: Comparison, notes: Sequence[str]) -> list[str]:
    higher = {row.higher_is_better for row in comparison.tasks}
    way = "Higher is better" if higher == {True} else "Lower is better"
    if len(higher) > 1:
        lower = ", ".join(row.task or "" for row in comparison.tasks if not row.higher_is_better)
        way = f"Higher is better, but for {lower} lower is better"
    count = len(comparison.tasks)
    family = f" The p of each task is corrected for {count} tasks (Holm)." if count > 1 else ""
    lines = [f"{way}.{family} The verdict is about A: better and worse need p < {LEVEL:g}."]
    if len(comparison.tasks) > 1 and comparison.mean is None:
        lines.append("No mean over tasks: their scores have no common unit.")
    lines += [f"WARNING: {one}" for one in [*notes, *comparison.warnings]]
    return lines


def aligned_lines(table: Sequence[Sequence[str]], right_columns: Container[int]) -> list[str]:
    """A table's rows in columns of one width, those of these numbers set to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for cells in table:
        pairs = enumerate(zip(cells, widths, strict=True))
        placed = (
            c.rjust(width) if n in right_columns else c.ljust(width) for n, (c, width) in pairs
        )
        lines.append("  ".join(placed).rstrip())
    return lines


def as_text(comparison: Comparison, notes: Sequence[str]) -> str:
    """Tables in columns, for a terminal."""
    table = [list(HEAD), *(_row_cells(comparison, row) for row in task_and_mean_rows(comparison))]
    lines = [*_side_lines(comparison), comparison_scope_sentence(comparison), ""]
    lines += [
        *aligned_lines(table, NUMBERS),
        "",
        *(power_text(comparison, row) for row in task_and_mean_rows(comparison)),
    ]
    if not comparison.recipes and any(
        row.verdict == UNKNOWN for row in task_and_mean_rows(comparison)
    ):
        lines.append(
            f"For a verdict about recipes, give {LEAST_SEEDS} or more runs on each side; within a "
            "side, each run has a different seed."
        )
    return "\n".join([*lines, *_closing_lines(comparison, notes)])


def as_markdown(comparison: Comparison, notes: Sequence[str]) -> str:
    """The same as a table of Markdown, for a pull request."""
    marks = ["--:" if n in NUMBERS else "---" for n in range(len(HEAD))]
    table = [HEAD, marks, *(_row_cells(comparison, row) for row in task_and_mean_rows(comparison))]
    lines = ["| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |" for cells in table]
    told = [f"- {power_text(comparison, row)}" for row in task_and_mean_rows(comparison)]
    sides = [f"- {side}" for side in _side_lines(comparison)]
    closing = [f"- {line}" for line in _closing_lines(comparison, notes)]
    about = comparison_scope_sentence(comparison)
    return "\n".join([about, "", *sides, "", *lines, "", *told, *closing])


def row_values(comparison: Comparison, row: Row) -> dict[str, Any]:
    """A row's numbers by name."""
    found = row.estimate
    others = {
        "task": row_label(comparison, row),
        "difference": found.difference,
        "effective_documents": found.effective,
        "error_of_seeds": found.of_seeds,
        "error_of_items": found.of_items,
    }
    return {name: others[name] if name in others else getattr(row, name) for name in VALUES}


def as_json(comparison: Comparison, notes: Sequence[str]) -> str:
    """All numbers, and what they are about."""
    whole = {
        "about": "recipes" if comparison.recipes else "checkpoints",
        "runs": {s: [r.name for r in runs] for s, runs in zip("ab", comparison.runs, strict=True)},
        "paired_by_seed": comparison.paired,
        "margin": comparison.margin,
        "tasks": [row_values(comparison, row) for row in comparison.tasks],
        "mean": None if comparison.mean is None else row_values(comparison, comparison.mean),
        "warnings": [*notes, *comparison.warnings],
    }
    return json.dumps(whole, indent=2, allow_nan=False)


def as_csv(comparison: Comparison) -> str:
    """A line for each task and the mean; a cell is empty where there is no number."""
    file = io.StringIO()
    table = [row_values(comparison, row) for row in task_and_mean_rows(comparison)]
    writer = csv.DictWriter(file, [*table[0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return file.getvalue().rstrip("\n")


FORMATS: dict[str, Callable[[Comparison, Sequence[str]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "json": as_json,
    "csv": lambda comparison, _: as_csv(comparison),
}
