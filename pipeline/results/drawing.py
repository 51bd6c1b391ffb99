"""Panels of lines, drawn as SVG and PNG, with the numbers behind them as JSON.

The SVG keeps text as text and has no background. Equal panels give equal bytes.
"""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pipeline.results import sql_views
from pipeline.results.figure_panels import Panel, Series
from pipeline.results.number_marks import is_finite
from pipeline.runtime import atomic_files

# At least 3 : 1 against white and #16181d. Each of the paper's main methods has one; those that
# some people cannot tell apart differ in their markers.
PALETTE = (
    *("#0a77bd", "#d55e00", "#0a9268", "#b0609a", "#9a7400", "#7a6ad8"),
    *("#c8324a", "#9c5d3c", "#c13fb0", "#5f8c00", "#4d8a94"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*", "h", "d", "8")
# Of domains and their pairs, none of which looks like a method.
DOMAINS = ("#d1345b", "#5b8f00", "#0091a8", "#9b4fd0", "#a5673f", "#5f7fb0", "#c24fb0", "#7d8236")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
# Text, axes and the baseline: read on white and on dark pages.
INK = "#767b84"

# Inches. Fixed margins leave room for any tick label: a search for tighter ones (matplotlib's
# constrained layout) takes as long as drawing does, and gives panels of one row different sizes.
PANEL_WIDTH, PANEL_HEIGHT, LEGEND_LINE, NOTE_LINE = 3.3, 2.3, 0.24, 0.14
LEFT, RIGHT, TOP, BOTTOM = 0.74, 0.1, 0.32, 0.46
AXES_WIDTH, AXES_HEIGHT = PANEL_WIDTH - LEFT - RIGHT, PANEL_HEIGHT - TOP - BOTTOM
# Room of a legend's entry: its line with the gaps about it, and one letter of its text.
LEGEND_MARK, LEGEND_LETTER = 0.55, 0.068
# Points of a line from which on it has no markers.
MANY_POINTS = 13
# A line lies on another where it is nowhere farther from it than so much of the axis.
HIDDEN = 0.01
# Between single points of methods beside the lines' end, of the axis.
ASIDE = 0.035
# The height of a label of a line of reference, of the axis.
LABEL = 0.12
# Letters of a title that fit over its axes.
LONGEST_TITLE = 30
STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


class LineStyle(NamedTuple):
    colour: str
    dashes: Any


def colour_and_dashes(position: int, palette: Sequence[str] = PALETTE) -> LineStyle:
    """The style of a key by its place; after each round of colours other dashes."""
    if position < 0:
        return LineStyle(INK, DASHES[0])
    turn, colour = divmod(position, len(palette))
    return LineStyle(palette[colour], DASHES[turn % len(DASHES)])


def overlapping_line_keys(panel: Panel) -> list[tuple[str, ...]]:
    """Keys of lines that lie on each other, in groups."""
    height = np.log10 if panel.scale == "log" else np.array
    with np.errstate(all="ignore"):
        lines = {
            s.key: (tuple(s.x), height(np.array(s.y, float)))
            for s in panel.series
            if len(s.x) > 1 and not s.points
        }
        ends = height(np.array(panel.y_limits, float)) if panel.y_limits else None
    values = np.concatenate([y for _, y in lines.values()]) if lines else np.empty(0)
    values = values[np.isfinite(values)] if ends is None else ends
    most = HIDDEN * np.ptp(values) if len(values) else 0.0
    groups: list[list[str]] = []
    for key, (x, y) in lines.items():
        for group in groups:
            other_x, other_y = lines[group[0]]
            if x == other_x and np.nanmax(np.abs(y - other_y), initial=0.0) <= most:
                group.append(key)
                break
        else:
            groups.append([key])
    return [tuple(group) for group in groups if len(group) > 1]


def _line_and_point_notes(panels: Sequence[Panel], labelled: Mapping[str, str]) -> list[str]:
    """Sentences on lines that lie on each other, and on points beside lines."""
    groups = [keys for panel in panels for keys in overlapping_line_keys(panel)]
    most = max(map(len, groups), default=0)
    told = [" under ".join(labelled[key] for key in keys) for keys in groups if len(keys) == 2]
    told += [f"up to {most} lines on each other"] if most > 2 else []
    lengths = [{len(series.x) > 1 for series in panel.series} for panel in panels]
    return [
        *([f"Wide lines lie under others: {'; '.join(dict.fromkeys(told))}."] if told else []),
        *(
            ["Beside the lines' end: methods evaluated there alone."]
            if {True, False} in lengths
            else []
        ),
    ]


def draw_figure(
    name: str,
    panels: Sequence[Panel],
    columns: int,
    out: Path,
    *,
    palette: Sequence[str] = PALETTE,
    labels: Mapping[str, str] | None = None,
    note: str = "",
) -> dict[str, Any]:
    """Draws the panels row by row and writes `out` with the suffixes .svg and .png.

    Ids in the SVG are drawn from the name; `labels` are what the legend calls keys that are no
    names for people; the note stands below the panels.

    Returns:
        The legend, the numbers of each panel, and the note as it was drawn.
    """
    columns = max(1, min(columns, len(panels)))
    cells = _titled_panels_with_gaps(panels, columns)
    rows = max(1, len(cells) // columns)
    every = [s for panel in panels for s in panel.series]
    styles = {s.key: colour_and_dashes(s.position, s.palette or palette) for s in every}
    labelled = {key: (labels or {}).get(key, key) for key in styles}
    note = " ".join(filter(None, [note, *_line_and_point_notes(panels, labelled)]))
    entry = LEGEND_MARK + LEGEND_LETTER * max(map(len, labelled.values()), default=0)
    across = max(1, min(2 * columns, int(columns * PANEL_WIDTH / entry)))
    legend_lines = math.ceil(len(styles) / across)
    noted = textwrap.wrap(note, int((columns * PANEL_WIDTH - 2 * RIGHT) / LEGEND_LETTER))
    foot = NOTE_LINE * len(noted)
    size = columns * PANEL_WIDTH, rows * PANEL_HEIGHT + legend_lines * LEGEND_LINE + 0.1 + foot
    # Whatever a matplotlibrc of the user's says.
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "svg.hashsalt": name}):
        # At 72 dots per inch the canvas has the units of the SVG.
        figure = Figure(figsize=size, dpi=72)
        handles = [
            Line2D([], [], color=c, label=labelled[key], **_legend_style(key, d, every))
            for key, (c, d) in styles.items()
        ]
        figure.legend(handles=handles, loc="upper left", ncols=across)
        if not panels:
            figure.text(0.5, 0.5, textwrap.fill(sql_views.EMPTY, 40), ha="center", va="center")
        figure.text(
            RIGHT / size[0], 0.04 / size[1], "\n".join(noted), fontsize=7, va="bottom", color=INK
        )
        grid = _panel_grid(figure, rows, columns, foot)
        for i, panel in enumerate(cells):
            if panel is not None:
                _draw_panel(figure.add_subplot(grid[i]), panel, palette)
        _save_svg_and_png(figure, out)
    return {
        "note": note,
        "legend": [
            {"key": key, "label": labelled[key], "colour": colour}
            for key, (colour, _) in styles.items()
        ],
        "panels": [*map(_panel_data, panels)],
    }


def _legend_style(key: str, dashes: Any, every: Sequence[Series]) -> dict[str, Any]:
    """How the legend shows a key: its marker, if it has one; no line where it is points alone."""
    own = [series for series in every if series.key == key]
    marked = any(_is_marked(series) for series in own)
    single = all(series.points or len(series.x) == 1 for series in own)
    marker = {"marker": _marker_by_position(own[0]), "markersize": 5} if marked else {}
    return {"linestyle": "" if single else dashes, **marker}


def _is_marked(series: Series) -> bool:
    return series.points or len(series.x) < MANY_POINTS


def _marker_by_position(series: Series) -> str:
    return MARKERS[(series.position + 1) % len(MARKERS)]


def _panel_grid(figure: Figure, rows: int, columns: int, foot: float) -> GridSpec:
    """Places of the panels' axes, all of one size, above a foot of so many inches."""
    width, height = figure.get_size_inches()
    return figure.add_gridspec(
        rows, columns, left=LEFT / width, right=1 - RIGHT / width, bottom=(foot + BOTTOM) / height,
        top=(foot + rows * PANEL_HEIGHT - TOP) / height,
        wspace=(LEFT + RIGHT) / AXES_WIDTH, hspace=(TOP + BOTTOM) / AXES_HEIGHT,
    )  # fmt: skip


def _titled_panels_with_gaps(panels: Sequence[Panel], columns: int) -> list[Panel | None]:
    """The grid, row by row: scenarios and models with several panels begin rows of their own.

    Titles name the scenario or the model where there are several.
    """
    several = [
        len(set(names)) > 1 for names in zip(*(p.scenario_and_model for p in panels), strict=True)
    ]
    own_rows = len(panels) > len({panel.scenario_and_model for panel in panels})
    cells: list[Panel | None] = []
    for before, panel in zip([None, *panels], panels, strict=False):
        if own_rows and before and before.scenario_and_model != panel.scenario_and_model:
            cells += [None] * (-len(cells) % columns)
        names = itertools.compress(panel.scenario_and_model, several)
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


def _draw_panel(axes: Axes, panel: Panel, palette: Sequence[str]) -> None:
    axes.set_title(panel.title, fontsize=min(10.0, 10.0 * LONGEST_TITLE / len(panel.title)))
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.scale == "log":
        _set_log_y_if_wide_range(axes, panel)
    axes.grid(axis="y", color=INK, alpha=0.18, linewidth=0.6)
    axes.set_axisbelow(True)
    _draw_reference_lines(axes, panel)
    below = {key for keys in overlapping_line_keys(panel) for key in keys[:-1]}
    long = [x for series in panel.series if len(series.x) > 1 for x in series.x]
    aside = ASIDE * (max(long) - min(long)) if long else 0.0
    singles = [series.key for series in panel.series if len(series.x) == 1]
    for series in panel.series:
        style = colour_and_dashes(series.position, series.palette or palette)
        # Methods without a curve stand side by side: where it ends, they would hide each other.
        moved = aside * (1 + singles.index(series.key)) if series.key in singles else 0.0
        shown = replace(series, x=[x + moved for x in series.x])
        _draw_series(axes, shown, style, wide=series.key in below)
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)
    elif panel.references:
        # The title stands above a label.
        bottom, top = axes.get_ylim()
        labelled = max(height for _, height in panel.references) + LABEL * (top - bottom)
        axes.set_ylim(top=max(top, labelled))


def _draw_reference_lines(axes: Axes, panel: Panel) -> None:
    """Dashed horizontal lines and their labels."""
    for _, height in panel.references:
        axes.axhline(height, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    lines = [y for s in panel.series if (y := [v for v in s.y if v is not None])]
    lowest = min(map(min, lines), default=0.0)
    rising = all(y[0] < y[-1] for y in lines if len(y) > 1)
    for label, height in _reference_labels(panel):
        # Above lines that fall, as losses do, the right is free; below them, and above lines that
        # rise, the left.
        below = not rising and height <= lowest
        left = rising or below
        axes.annotate(
            label,
            (0.01 if left else 0.99, height),
            xycoords=("axes fraction", "data"),
            xytext=(0, -2 if below else 2),
            textcoords="offset points",
            ha="left" if left else "right",
            va="top" if below else "bottom",
            fontsize=8.5,
            annotation_clip=True,
        )


def _draw_series(axes: Axes, series: Series, style: LineStyle, *, wide: bool = False) -> None:
    """One line, with its sign and its band; a `wide` one is seen under another that lies on it."""
    colour, dashes = style.colour, "" if series.points else style.dashes
    x, y = list(series.x), np.array(series.y, float)  # None is a gap.
    axes.plot(
        x, y, color=colour, linestyle="-" if wide else dashes,
        marker=_marker_by_position(series) if _is_marked(series) else None,
        markersize=5 if len(x) == 1 else 4, zorder=2 if wide or series.position < 0 else 3,
        linewidth=4.5 if wide else None, alpha=0.45 if wide else None,
    )  # fmt: skip
    if series.sign:
        axes.annotate(series.sign, (x[-1], y[-1]), (2, 0), textcoords="offset points",
                      color=colour, va="center", fontsize=9, annotation_clip=True)  # fmt: skip
    if series.low is not None and series.high is not None:
        low, high = np.array(series.low, float), np.array(series.high, float)
        if len(x) == 1:
            axes.vlines(x, low, high, color=colour, linewidth=0.9)
        else:
            axes.fill_between(x, low, high, color=colour, alpha=0.18, lw=0)


def _set_log_y_if_wide_range(axes: Axes, panel: Panel) -> None:
    """A log scale with plain numbers; a linear one within a decade, where ticks would be few."""
    values = [v for series in panel.series for v in series.y if v is not None and v > 0]
    if values and max(values) >= 10 * min(values):
        axes.set_yscale("log")
        subs = (1.0, 3.0) if max(values) < 1e4 * min(values) else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=subs))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _panel_data(panel: Panel) -> dict[str, Any]:
    """The panel's labels and numbers, of five digits."""
    plain = {
        n: getattr(panel, n) for n in ("scenario", "model", "title", "method", "x_label", "y_label")
    }
    lines = []
    for series in panel.series:
        numbers = {name: getattr(series, name) for name in ("x", "y", "low", "high")}
        lines.append(
            {"key": series.key, "sign": series.sign}
            | {n: v and [*map(_round_to_five_digits, v)] for n, v in numbers.items()}
        )
    references = [[label, _round_to_five_digits(height)] for label, height in panel.references]
    return plain | {"references": references, "series": lines}


def _round_to_five_digits(value: float | None) -> float | None:
    """Five significant digits; JSON has no NaN."""
    return float(f"{value:.5g}") if is_finite(value) else None


def _save_svg_and_png(figure: Figure, out: Path) -> None:
    for suffix, facts, options in (
        (".svg", {"Date": None, "Creator": None}, {"transparent": True}),
        (".png", {"Software": None}, {"dpi": 160, "facecolor": "white"}),
    ):
        with atomic_files.atomic_write(out.with_suffix(suffix), "figure") as partial:
            figure.savefig(partial, format=suffix[1:], metadata=facts, **options)
