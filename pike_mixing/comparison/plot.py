"""A figure of a comparison: one axis, an interval for each task and the mean, the margin."""

import math
from html import escape
from pathlib import Path

import numpy as np

from pike_mixing.comparison.report import row_label, side_a_verdict_text, task_and_mean_rows
from pike_mixing.comparison.verdicts import Comparison
from pike_mixing.errors import InputError

WIDTH, RIGHT, STEP, TOP = 420, 150, 26, 34
LETTER = 7.5
"""Width of a letter, in pixels."""
COLOURS = {"better": "#0b6e3b", "worse": "#b3261e"}
STYLE = "text{font:13px sans-serif;fill:#222}line,circle{stroke-width:2}"


def write_svg(comparison: Comparison, path: Path) -> None:
    """Writes the figure as SVG.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        path.write_text(draw_svg(comparison), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--plot: {error}: give another path") from None


def draw_svg(comparison: Comparison) -> str:
    """The figure's text."""
    shown = [
        row
        for row in task_and_mean_rows(comparison)
        if row.low is not None and row.high is not None
    ]
    reach = [abs(end) for row in shown for end in (row.low or 0.0, row.high or 0.0)]
    most = 1.05 * max([*reach, comparison.margin or 0.0], default=0.0) or 1.0
    height = TOP + STEP * len(shown) + 44
    left = 20 + math.ceil(
        LETTER * max(len(row_label(comparison, row)) for row in task_and_mean_rows(comparison))
    )

    def x(value: float) -> str:
        return f"{left + WIDTH * (value + most) / (2 * most):.1f}"

    bottom = TOP + STEP * len(shown)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + WIDTH + RIGHT}" height="{height}" '
        f'role="img" aria-label="{escape(_figure_in_words(comparison), quote=True)}">',
        f"<style>{STYLE}</style><rect width='100%' height='100%' fill='white'/>",
        f'<text x="{left}" y="18">A - B, with 95 % intervals</text>',
    ]
    if comparison.margin is not None:
        wide = WIDTH * comparison.margin / most
        lines.append(
            f'<rect x="{x(-comparison.margin)}" y="{TOP - 8}" width="{wide:.1f}" '
            f'height="{bottom - TOP + 8}" fill="#e6e6e6"/>'
        )
    lines.append(f'<line x1="{x(0)}" x2="{x(0)}" y1="{TOP - 8}" y2="{bottom}" stroke="#888"/>')
    for n, row in enumerate(shown):
        y, colour = TOP + STEP * n + 8, COLOURS.get(row.verdict, "#222")
        assert row.low is not None
        assert row.high is not None
        name = escape(row_label(comparison, row))
        verdict = escape(side_a_verdict_text(comparison, row))
        lines += [
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{name}</text>',
            f'<line x1="{x(row.low)}" x2="{x(row.high)}" y1="{y}" y2="{y}" stroke="{colour}"/>',
            f'<circle cx="{x(row.estimate.difference)}" cy="{y}" r="4" fill="{colour}"/>',
            f'<text x="{left + WIDTH + 10}" y="{y + 4}">{verdict}</text>',
        ]
    for tick in symmetric_ticks_within(most):
        lines += [
            f'<line x1="{x(tick)}" x2="{x(tick)}" y1="{bottom}" y2="{bottom + 5}" stroke="#888"/>',
            f'<text x="{x(tick)}" y="{bottom + 20}" text-anchor="middle">{tick:.6g}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _figure_in_words(comparison: Comparison) -> str:
    return "; ".join(
        f"{row_label(comparison, row)}: {row.estimate.difference:.4g} "
        f"({row.low:.4g} to {row.high:.4g}), {side_a_verdict_text(comparison, row)}"
        for row in task_and_mean_rows(comparison)
        if row.low is not None
    )


def symmetric_ticks_within(largest: float) -> list[float]:
    """Round numbers between -largest and largest: five or so."""
    size = 10.0 ** np.floor(np.log10(largest))
    step = float(next(s * size for s in (0.2, 0.5, 1.0, 2.0) if largest / (s * size) <= 3.5))
    count = int(largest / step)
    return [round(step * n, 12) for n in range(-count, count + 1)]
