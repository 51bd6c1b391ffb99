"""Figures: curves of a view, one function per kind, each giving the panels to draw."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.errors import InputError
from pipeline.results import drawing
from pipeline.results.drawing import Panel, Series, slug
from pipeline.results.selection import Row, connect, rows
from pipeline.settings import parse, unknown

STEP = "step"


@dataclasses.dataclass(frozen=True)
class FigureSettings:
    """One figure."""

    name: str
    """Its name, that of its files."""
    selection: dict[str, object] = dataclasses.field(default_factory=dict)
    """Runs by scenarios, models, methods or seeds, or values by column of the view."""
    kind: str | None = None
    """A name in `KINDS`: what is drawn; absent: the figure's own name."""

    def problems(self) -> list[str]:
        """A kind that is not there."""
        kind = self.kind or self.name
        return [] if kind in KINDS else [unknown(kind, KINDS, "kind")]


def write(settings: Path, database: Path, out: Path) -> None:
    """Writes one figure as .svg and .png, and the numbers behind it as .json.

    Args:
        settings: JSON of `FigureSettings`.
        database: The experiment's database.
        out: Any of the three files; the others are written beside it.

    Raises:
        InputError: wrong settings, no database, or nothing selected.
    """
    figure = parse(FigureSettings, files.read_json(settings), str(settings))
    kind = KINDS[figure.kind or figure.name]
    connection = connect(database)
    try:
        found = rows(connection, kind.query, figure.selection, str(settings))
        baseline = connection.execute("select baseline from experiment").fetchall()[0][0]
    finally:
        connection.close()
    if kind.of_baseline and "methods" not in figure.selection:
        found = [row for row in found if row["method"] == baseline] or found
    panels = kind.panels(found, baseline)
    if not panels:
        raise InputError(
            f"{settings}: figure {figure.name!r} is empty: no selected run has what it shows; "
            "select others, or take it out of `figures` in the configuration"
        )
    data = drawing.draw(figure.name, panels, kind.columns, out)
    facts = {"name": figure.name, "caption": kind.caption, "lines": kind.lines}
    drawing.write_data(out, {**facts, **data})


def losses(found: list[Row], baseline: str) -> list[Panel]:
    """Validation loss: a panel per domain, a line per method, the range over seeds as a band."""
    panels = []
    for (scenario, model, domain), part in _groups(found, "scenario", "model", "domain"):
        heights = {label: part[0][label] for label in ("uniform", "unigram", "floor")}
        titles = {"uniform": "uniform guess", "unigram": "unigram counts", "floor": "entropy floor"}
        panels.append(
            Panel(
                name=f"{scenario}--{model}--{slug(domain)}",
                scenario=scenario,
                model=model,
                title=domain,
                x_label=STEP,
                y_label="validation loss (nats)",
                series=_by_method(part, "nll", baseline, band=True),
                references=[(titles[n], v) for n, v in heights.items() if v is not None],
            )
        )
    return panels


def differences(found: list[Row], baseline: str) -> list[Panel]:
    """Validation loss minus the baseline's at the same step: where the curves differ."""
    level = {
        (row["scenario"], row["model"], row["domain"], row["step"]): row["nll"]
        for row in found
        if row["method"] == baseline
    }
    compared = []
    for row in found:
        place = row["scenario"], row["model"], row["domain"], row["step"]
        if row["method"] != baseline and place in level:
            compared.append({**row, "difference": row["nll"] - level[place]})
    return [
        Panel(
            name=f"{scenario}--{model}--{slug(domain)}",
            scenario=scenario,
            model=model,
            title=domain,
            x_label=STEP,
            y_label=f"loss minus that of {baseline} (nats)",
            series=_by_method(part, "difference", baseline),
            references=[(baseline, 0.0)],
        )
        for (scenario, model, domain), part in _groups(compared, "scenario", "model", "domain")
    ]


def weights(found: list[Row], baseline: str) -> list[Panel]:
    """Sampling weights: a panel per method, a line per domain."""
    del baseline
    top = max((row["weight"] for row in found), default=1.0)
    return [
        Panel(
            name=f"{scenario}--{model}--{slug(method)}",
            scenario=scenario,
            model=model,
            title=method,
            x_label=STEP,
            y_label="sampling weight",
            series=_series(part, "weight", "domain", "domain_position"),
            y_limits=(0.0, min(1.0, top * 1.1) + 0.02),
        )
        for (scenario, model, method), part in _groups(found, "scenario", "model", "method")
    ]


def similarities(found: list[Row], baseline: str) -> list[Panel]:
    """Cosine, noise-corrected cosine and ratio: a row of panels per method, a line per pair."""
    del baseline
    # Pairs count from 0 within their scenario, so that each has its own colour.
    for _, part in _groups(found, "scenario"):
        order = {p: i for i, p in enumerate(sorted({row["pair_position"] for row in part}))}
        for row in part:
            row["pair_position"] = order[row["pair_position"]]
    quantities = (
        ("cosine", "cosine of gradients", (-1.05, 1.05)),
        ("cosine_corrected", "cosine, noise taken out", (-1.05, 1.05)),
        ("ratio", "ratio of norms", None),
    )
    return [
        Panel(
            name=f"{scenario}--{model}--{slug(method)}--{column}",
            scenario=scenario,
            model=model,
            title=method,
            x_label=STEP,
            y_label=label,
            series=_series(part, column, "pair", "pair_position"),
            references=[("", 0.0)] if limits else [],
            y_limits=limits,
        )
        for (scenario, model, method), part in _groups(found, "scenario", "model", "method")
        for column, label, limits in quantities
    ]


def gradients(found: list[Row], baseline: str) -> list[Panel]:
    """Squared norm, variance and noise scale: a row of panels per method, a line per domain."""
    del baseline
    quantities = (
        ("squared_norm_unbiased", "squared norm (unbiased)"),
        ("variance", "variance of one row"),
        ("noise_scale", "noise scale (rows)"),
    )
    return [
        Panel(
            name=f"{scenario}--{model}--{slug(method)}--{column}",
            scenario=scenario,
            model=model,
            title=method,
            x_label=STEP,
            y_label=label,
            series=_series(part, column, "domain", "domain_position", positive=True),
            scale="log",
        )
        for (scenario, model, method), part in _groups(found, "scenario", "model", "method")
        for column, label in quantities
    ]


def _groups(found: Iterable[Row], *columns: str) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """Rows by the values of the columns; groups and rows keep the order of the view."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return list(groups.items())


def _by_method(part: list[Row], column: str, baseline: str, *, band: bool = False) -> list[Series]:
    """A line per method; the baseline's is drawn in ink."""
    lines = []
    for (method, position), points in _groups(part, "method", "method_position"):
        banded = band and any(row["seeds"] > 1 for row in points)
        lines.append(
            Series(
                key=method,
                position=-1 if method == baseline else position - 1,
                x=[row["step"] for row in points],
                y=[row[column] for row in points],
                low=[row["low"] for row in points] if banded else None,
                high=[row["high"] for row in points] if banded else None,
            )
        )
    return lines


def _series(
    part: list[Row], column: str, key: str, position: str, *, positive: bool = False
) -> list[Series]:
    """A line per value of `key`; `positive` leaves gaps where a log scale has no place."""

    def shown(value: float | None) -> float | None:
        if value is None or not math.isfinite(value) or (positive and value <= 0):
            return None
        return value

    return [
        Series(
            key=name,
            position=place,
            x=[row["step"] for row in points],
            y=[shown(row[column]) for row in points],
        )
        for (name, place), points in _groups(part, key, position)
    ]


@dataclasses.dataclass(frozen=True)
class Kind:
    """How one kind of figure is made."""

    query: str
    """The view that it draws."""
    panels: Callable[[list[Row], str], list[Panel]]
    """From the view's rows and the baseline's name to panels."""
    columns: int
    """Panels in a row."""
    lines: str
    """What its lines stand for, in the plural: the page's buttons are named so."""
    caption: str
    """What it shows and how to read it."""
    of_baseline: bool = False
    """Shows the baseline's runs alone unless methods are selected."""


KINDS: Mapping[str, Kind] = {
    "losses": Kind(
        "figure_losses",
        losses,
        3,
        "methods",
        "Loss on held-out text of each domain while training goes on, in nats per token: lower is "
        "better. Dashed lines: a uniform guess over the vocabulary, the frequencies of single "
        "tokens, and, where it is known, the entropy below which no model can go. With several "
        "seeds a line is their mean and its band their range.",
    ),
    "differences": Kind(
        "figure_losses",
        differences,
        3,
        "methods",
        "The same losses minus those of the baseline at the same step: below zero a method is "
        "ahead.",
    ),
    "weights": Kind(
        "figure_weights",
        weights,
        3,
        "domains",
        "The share of each domain in what is drawn for a batch, while training goes on. Static "
        "methods stay flat; adaptive ones move. Averaged over stretches of steps and over seeds.",
    ),
    "similarities": Kind(
        "figure_similarities",
        similarities,
        3,
        "pairs of domains",
        "How alike the gradients of two domains are at each checkpoint: a cosine of 1 means that "
        "both pull the same way, 0 that neither minds the other, -1 that one undoes the other. "
        "Noise alone lowers the plain cosine, so the one with noise taken out stands beside it. "
        "The ratio is that of the gradients' lengths.",
        of_baseline=True,
    ),
    "gradients": Kind(
        "figure_gradients",
        gradients,
        3,
        "domains",
        "What PiKE measures when it sets its weights: the squared length of each domain's "
        "gradient, the variance between rows, and their quotient, the number of rows at which "
        "signal and noise are equal. Values that come out negative are left out.",
    ),
}
