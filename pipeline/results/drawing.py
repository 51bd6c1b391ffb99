"""Panels of lines, drawn as SVG and PNG, with the numbers behind them as JSON.

The SVG keeps text as text, has no background, and names each line's group, so that a page can
recolour it, hide a line or show its values. Equal panels give equal bytes.
"""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pipeline.runtime import atomic_files

# Told apart by people with any colour vision, and at least 3 : 1 against white and #16181d.
PALETTE = ("#0a77bd", "#d55e00", "#0a9268", "#b0609a", "#9a7400", "#7a6ad8", "#4d8a94")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
# Text, axes and the baseline: a page replaces it with its own text colour.
INK = "#767b84"

# Inches. Fixed margins leave room for any tick label: a search for tighter ones (matplotlib's
# constrained layout) takes as long as drawing does, and gives panels of one row different sizes.
PANEL_WIDTH, PANEL_HEIGHT, LEGEND_LINE = 3.3, 2.3, 0.24
LEFT, RIGHT, TOP, BOTTOM = 0.74, 0.1, 0.32, 0.46
# Room of a legend's entry: its line with the gaps about it, and one letter of its text.
LEGEND_MARK, LEGEND_LETTER = 0.55, 0.068
# Letters of a title that fit beside each other.
LONGEST_TITLE = 36
STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


Pair = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One line."""

    key: str
    """The entry of the legend that it belongs to: a method, a domain or a pair of domains."""
    position: int
    """Place of the key among all keys: gives the colour, the same in every figure; -1: ink."""
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    """With `high` a band, such as the standard error; None leaves a gap."""
    high: Sequence[float | None] | None = None
    sign: str = ""
    """Stands at the line's end: why its numbers are doubtful."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    name: str
    """A slug that is unique in its figure: real--tiny--code."""
    scenario: str
    model: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    references: Sequence[tuple[str, float]] = ()
    """Labels and heights of dashed horizontal lines."""
    scale: str = "linear"
    """`linear` or `log`; what spans less than a decade is drawn on a linear scale all the same."""
    y_limits: tuple[float, float] | None = None


def style(position: int) -> tuple[str, Any]:
    """Colour and dashes of a key by its place; after each round of colours other dashes."""
    if position < 0:
        return INK, DASHES[0]
    turn, colour = divmod(position, len(PALETTE))
    return PALETTE[colour], DASHES[turn % len(DASHES)]


def draw(name: str, panels: Sequence[Panel], columns: int, out: Path) -> dict[str, Any]:
    """Draws the panels row by row and writes `out` with the suffixes .svg and .png.

    Args:
        name: The figure's name: the prefix of all ids in the SVG.
        panels: At least one.
        columns: Panels in a row.
        out: A path of the figure, with any suffix.

    Returns:
        The panels' places in the SVG and their numbers, for a page that shows values.
    """
    columns = min(columns, len(panels))
    cells = _cells(panels, columns)
    lines = len(cells) // columns
    styles = {s.key: style(s.position) for panel in panels for s in panel.series}
    entry = LEGEND_MARK + LEGEND_LETTER * max(map(len, styles))
    across = max(1, min(2 * columns, int(columns * PANEL_WIDTH / entry)))
    legend_lines = math.ceil(len(styles) / across)
    size = columns * PANEL_WIDTH, lines * PANEL_HEIGHT + legend_lines * LEGEND_LINE + 0.1
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        # At 72 dots per inch the canvas has the units of the SVG.
        figure = Figure(figsize=size, dpi=72)
        FigureCanvasAgg(figure)
        handles = [
            Line2D([], [], color=colour, linestyle=dashes, label=key)
            for key, (colour, dashes) in styles.items()
        ]
        figure.legend(handles=handles, loc="upper left", ncols=across)
        places = []
        for i, panel in enumerate(cells):
            if panel is not None:
                corner = i % columns * PANEL_WIDTH, (lines - 1 - i // columns) * PANEL_HEIGHT
                axes = figure.add_axes(_rectangle(corner, size))
                _fill(axes, panel, f"{name}--{panel.name}")
                places.append(_place(axes, corner, size[1]))
        _save(figure, out)
    return {
        "legend": [
            {
                "key": key,
                "colour": colour,
                "dashes": "" if dashes == "-" else " ".join(f"{v:g}" for v in dashes[1]),
            }
            for key, (colour, dashes) in styles.items()
        ],
        "panels": [
            {"id": f"{name}--{panel.name}", **_numbers(panel, name), **place}
            for panel, place in zip(panels, places, strict=True)
        ],
    }


def _cells(panels: Sequence[Panel], columns: int) -> list[Panel | None]:
    """The grid, row by row: scenarios and models with several panels begin rows of their own.

    Titles name the scenario or the model where there are several.
    """
    several = [len({getattr(p, n) for p in panels}) > 1 for n in ("scenario", "model")]
    groups = {(panel.scenario, panel.model) for panel in panels}
    own_rows = len(panels) > len(groups)
    cells: list[Panel | None] = []
    for before, panel in zip([None, *panels], panels, strict=False):
        moved = before and (before.scenario, before.model) != (panel.scenario, panel.model)
        if own_rows and moved:
            cells += [None] * (-len(cells) % columns)
        names = itertools.compress((panel.scenario, panel.model), several)
        before_title = [name for name in names if not panel.title.startswith(f"{name}: ")]
        cells.append(replace(panel, title=": ".join([*before_title, panel.title])))
    return cells + [None] * (-len(cells) % columns)


def _reference_labels(panel: Panel) -> list[tuple[str, float]]:
    """What stands beside the lines of reference; lines too near each other share a label."""
    bottom, top = panel.y_limits or (0.0, 0.0)
    labels: list[tuple[str, float]] = []
    for label, height in sorted(panel.references, key=lambda reference: reference[1]):
        if labels and height - labels[-1][1] < 0.06 * (top - bottom):
            labels[-1] = (f"{labels[-1][0]}, {label}", labels[-1][1])
        else:
            labels.append((label, height))
    return labels


def _fill(axes: Axes, panel: Panel, gid: str) -> None:
    axes.set_gid(gid)
    axes.set_title(panel.title, fontsize=min(10.0, 10.0 * LONGEST_TITLE / len(panel.title)))
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.scale == "log":
        _log_scale(axes, panel)
    axes.grid(axis="y", color=INK, alpha=0.18, linewidth=0.6)
    axes.set_axisbelow(True)
    lowest = min((v for s in panel.series for v in s.y if v is not None), default=0.0)
    for i, (_, height) in enumerate(panel.references):
        axes.axhline(height, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), gid=f"{gid}--line{i}")
    for label, height in _reference_labels(panel):
        # Losses fall: above them the right is free, and below them the left.
        below = height <= lowest
        axes.annotate(
            label,
            (0.01 if below else 0.99, height),
            xycoords=("axes fraction", "data"),
            xytext=(0, -2 if below else 2),
            textcoords="offset points",
            ha="left" if below else "right",
            va="top" if below else "bottom",
            fontsize=7.5,
            annotation_clip=True,
        )
    for series in panel.series:
        colour, dashes = style(series.position)
        x, y = list(series.x), np.array(series.y, float)  # None is a gap.
        axes.plot(
            x, y, color=colour, linestyle=dashes, marker="o" if len(x) <= 12 else None,
            markersize=3, gid=f"{gid}--{slug(series.key)}", zorder=3 - (series.position < 0),
        )  # fmt: skip
        if series.sign:
            axes.annotate(series.sign, (x[-1], y[-1]), (2, 0), textcoords="offset points",
                          color=colour, va="center", fontsize=9, annotation_clip=True)  # fmt: skip
        if series.low is not None and series.high is not None:
            low, high = np.array(series.low, float), np.array(series.high, float)
            band = f"{gid}--{slug(series.key)}--range"
            axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, gid=band)
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)


def _log_scale(axes: Axes, panel: Panel) -> None:
    """A log scale with plain numbers; a linear one within a decade, where ticks would be few."""
    values = [v for series in panel.series for v in series.y if v is not None and v > 0]
    if values and max(values) >= 10 * min(values):
        axes.set_yscale("log")
        subs = (1.0, 3.0) if max(values) < 1e4 * min(values) else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=subs))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def slug(text: str) -> str:
    """The text as a part of an id: letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)


def _rectangle(corner: Pair, size: Pair) -> tuple[float, float, float, float]:
    """Left, bottom, width and height of a panel's axes, in shares of the figure."""
    width, height = PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM
    left, bottom = corner[0] + LEFT, corner[1] + BOTTOM
    return left / size[0], bottom / size[1], width / size[0], height / size[1]


def _place(axes: Axes, corner: Pair, height: float) -> dict[str, Any]:
    """Where a panel, its axes and its data lie; in the SVG's units, y downwards."""
    inner = axes.get_window_extent()
    box = (corner[0], height - corner[1] - PANEL_HEIGHT, PANEL_WIDTH, PANEL_HEIGHT)
    edges = (inner.x0, 72 * height - inner.y1, inner.x1, 72 * height - inner.y0)
    return {
        "box": [round(72 * v, 2) for v in box],
        "axes": [round(float(v), 2) for v in edges],
        "x_limits": list(map(float, axes.get_xlim())),
        "y_limits": list(map(float, axes.get_ylim())),
        "scale": axes.get_yscale(),
    }


def _numbers(panel: Panel, name: str) -> dict[str, Any]:
    """The panel as the page needs it: numbers of five digits, lines with their ids."""
    plain = {n: getattr(panel, n) for n in ("scenario", "model", "title", "x_label", "y_label")}
    lines = [
        {"id": f"{name}--{panel.name}--{slug(series.key)}", "key": series.key, "sign": series.sign}
        | {
            n: None if (values := getattr(series, n)) is None else list(map(_short, values))
            for n in ("x", "y", "low", "high")
        }
        for series in panel.series
    ]
    references = [[label, _short(height)] for label, height in panel.references]
    return {**plain, "references": references, "series": lines}


def _short(value: float | None) -> float | None:
    """Five significant digits; JSON has no NaN."""
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None


def _save(figure: Figure, out: Path) -> None:
    for suffix, facts, options in (
        (".svg", {"Date": None, "Creator": None}, {"transparent": True}),
        (".png", {"Software": None}, {"dpi": 160, "facecolor": "white"}),
    ):
        with atomic_files.atomic_write(out.with_suffix(suffix), "figure") as partial:
            figure.savefig(partial, format=suffix[1:], metadata=facts, **options)
