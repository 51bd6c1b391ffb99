"""Panels of lines, and how the rows of a view become those of a figure: a function per kind."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.results.database_reader import Row
from pipeline.results.number_marks import is_finite

STEP = "step"
ALL = 0.9
"""From this weight on one domain has, for the eye, all."""


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
    """With `high` a band, such as the 95% interval; None leaves a gap."""
    high: Sequence[float | None] | None = None
    points: bool = False
    """Whether it is drawn as dots, not as a line."""
    sign: str = ""
    """Stands at the line's end: why its numbers are doubtful."""
    palette: Sequence[str] = ()
    """Colours to choose from by `position`, where they are not the figure's."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

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
    method: str = ""
    """The method that the panel is of, if it is of one; its label is the title."""

    @property
    def scenario_and_model(self) -> tuple[str, str]:
        """Scenario and model."""
        return self.scenario, self.model


def domain_loss_panels(rows: list[Row]) -> list[Panel]:
    """Validation loss: a panel per domain, a line per method, the range over seeds as a band."""
    titles = {"uniform": "uniform guess", "unigram": "unigram counts", "floor": "entropy floor"}
    return [
        _panel_over_steps(
            place,
            "validation loss (nats)",
            _lines_through_rows(part, "nll", "method", band=_has_several_seeds),
            references=[(t, part[0][n]) for n, t in titles.items() if part[0][n] is not None],
            y_limits=_loss_limits(part),
        )
        for place, part in _group_rows(rows, "scenario", "model", "domain")
    ]


def _loss_limits(part: list[Row]) -> tuple[float, float]:
    """From below the lowest loss or floor to above the unigram baseline.

    Untrained models and hopeless mixtures lie higher: they would press all others into one line.
    Where no model is better than unigram counts, the axis reaches to the highest loss.
    """
    values = [row["nll"] for row in part]
    unigram, floor = part[0]["unigram"], part[0]["floor"]
    bottom = min([*values, *([] if floor is None else [floor])])
    top = max(values) if unigram is None or min(values) >= unigram else unigram
    room = max(top - bottom, 1e-3)
    return bottom - 0.12 * room, top + 0.12 * room


def difference_panels(rows: list[Row]) -> list[Panel]:
    """Validation loss minus the baseline's at the same step: where the curves differ."""
    return [
        _panel_over_steps(
            place,
            "loss minus the baseline's",
            _lines_through_rows(part, "difference", "method"),
            references=[("", 0.0)],
            y_limits=_difference_limits(part),
        )
        for place, part in _group_rows(rows, "scenario", "model", "domain")
    ]


def _difference_limits(part: list[Row]) -> tuple[float, float]:
    """Room for twice the median method's largest difference, less where none is as large."""
    by_method = (rows for _, rows in _group_rows(part, "method"))
    largest = sorted(max(abs(row["difference"]) for row in rows) for rows in by_method)
    limit = max(2 * largest[len(largest) // 2], 1e-3)
    values = [0.0, *(row["difference"] for row in part)]
    return max(-limit, min(values)) - 0.1 * limit, min(limit, max(values)) + 0.1 * limit


def weight_panels(rows: list[Row]) -> list[Panel]:
    """Sampling weights: a panel per method, a line per domain."""
    parts = _group_rows(rows, "scenario", "model", "method")
    highest = [max(row["weight"] for row in part) for _, part in parts]
    # One scale for all panels, except those that reach (nearly) 1: they get the whole range.
    common = max((top for top in highest if top < ALL), default=1.0)
    return [
        _panel_over_steps(
            place,
            "weight of each batch" if part[0]["alternates"] else "sampling weight",
            _one_domain_batch_dots(part)
            if part[0]["alternates"]
            else _lines_through_rows(part, "weight", "domain", band=_has_interval),
            y_limits=(0.0, 1.1 * (common if top < ALL else 1.0)),
            method=place[2],
        )
        for (place, part), top in zip(parts, highest, strict=True)
    ]


def _one_domain_batch_dots(part: list[Row]) -> list[Series]:
    """Batches of one domain each: a dot where a domain has the batch, and a gap elsewhere."""
    rows = [{**row, "weight": row["weight"] if row["weight"] > ALL else None} for row in part]
    return [replace(line, points=True) for line in _lines_through_rows(rows, "weight", "domain")]


def similarity_panels(rows: list[Row]) -> list[Panel]:
    """Cosine, noise-corrected cosine and ratio: a row of panels per method, a line per pair."""
    # Pairs count from 0 within their scenario, so that each has its own colour.
    for _, part in _group_rows(rows, "scenario"):
        order = {p: i for i, p in enumerate(sorted({row["pair_position"] for row in part}))}
        for row in part:
            row["pair_position"] = order[row["pair_position"]]
    columns = (
        ("cosine", "cosine of gradients", 1.05),
        ("cosine_corrected", "cosine, noise taken out", 1.05),
        ("ratio", "ratio", 0.525),
    )
    return [
        _column_panel(
            group, column, label, "pair", references=[("", 0.0)], y_limits=(-limit, limit)
        )
        for group in _group_rows(rows, "scenario", "model", "method")
        for column, label, limit in columns
    ]


def gradient_panels(rows: list[Row]) -> list[Panel]:
    """Squared norm, variance and noise scale: a row of panels per method, a line per domain."""
    columns = {
        "squared_norm_unbiased": "squared norm (unbiased)",
        "variance": "variance of one row",
        "noise_scale": "noise scale (rows)",
    }
    return [
        _column_panel(group, column, label, "domain", scale="log")
        for group in _group_rows(rows, "scenario", "model", "method")
        for column, label in columns.items()
    ]


def _column_panel(
    group: tuple[tuple[Any, ...], list[Row]], column: str, label: str, key: str, **how: Any
) -> Panel:
    """The panel of one column in a method's row of panels."""
    (scenario, model, method), part = group
    lines = _lines_through_rows(part, column, key, gap_unless_positive=how.get("scale") == "log")
    return _panel_over_steps((scenario, model, method), label, lines, method=method, **how)


def document_length_panels(rows: list[Row]) -> list[Panel]:
    """Documents by their length: a panel per scenario, a line per domain."""
    label = "tokens of a document, as a power of 2"
    return [
        Panel(name, "", "documents", label, "share of documents", _zero_ended_series(part))
        for (name,), part in _group_rows(rows, "scenario")
    ]


def _zero_ended_series(part: list[Row]) -> list[Series]:
    """Lines that begin and end at nothing: powers that no document of a domain has are zero."""
    powers = range(min(r["power"] for r in part) - 1, max(r["power"] for r in part) + 2)
    lines = []
    for (domain, position), rows in _group_rows(part, "domain", "domain_position"):
        share = {row["power"]: row["share"] for row in rows}
        y = [share.get(power, 0.0) for power in powers]
        lines.append(Series(key=domain, position=position, x=list(powers), y=y))
    return lines


def panels_of_layout_rows(rows: list[Row]) -> list[Panel]:
    """Panels that the view itself lays out: place, labels, lines and limits are columns of it.

    Bands (low, high), a line of reference and limits (bottom, top) are optional; a view that has a
    lower limit alone leaves the upper one to the highest value.
    """
    panels = []
    for (scenario, model, _), part in _group_rows(rows, "scenario", "model", "panel"):
        first, limits = part[0], None
        if (bottom := first.get("bottom")) is not None:
            top = first.get("top")
            limits = bottom, 1.1 * max(row["value"] for row in part) if top is None else top
        height = first.get("reference")
        panels.append(
            Panel(
                scenario,
                model,
                first["title"],
                first["x_label"],
                first["y_label"],
                series=_lines_through_rows(part, "value", "key", band=_has_interval),
                references=[] if height is None else [(first["reference_label"], height)],
                y_limits=limits,
            )
        )
    return panels


def paper_example_1_panels(rows: list[Row]) -> list[Panel]:
    """Example 1: the loss, its simulation's 95% interval as a band, and the share of task 1."""
    if not rows:
        return []
    loss = _lines_through_rows(rows, "loss", "mixture", band=_has_interval)
    share = _lines_through_rows(rows, "share", "mixture")
    title = "share of task 1"
    return [
        Panel("", "", "expected loss", STEP, "expected loss", loss, scale="log"),
        Panel("", "", title, STEP, title, share, y_limits=(0, 1.05)),
    ]


def _group_rows(rows: Iterable[Row], *columns: str) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """Rows by the values of the columns; groups and rows keep the order of the view."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return list(groups.items())


def _panel_over_steps(
    scenario_model_title: tuple[str, str, str], y_label: str, series: list[Series], **how: Any
) -> Panel:
    """A panel over steps."""
    return Panel(*scenario_model_title, STEP, y_label, series, **how)


def _lines_through_rows(
    rows: list[Row],
    column: str,
    key: str,
    *,
    gap_unless_positive: bool = False,
    band: Callable[[list[Row]], bool] = lambda points: False,
) -> list[Series]:
    """A line per value of `key`, with the column's values; `{key}_position` gives its colour.

    With `gap_unless_positive`, as on a log scale, the line is broken at other values. `band` says
    of rows whether they have the ends of a band, `low` and `high`.
    """

    def drawable_or_none(value: float | None) -> float | None:
        return value if is_finite(value) and (value > 0 or not gap_unless_positive) else None

    lines = []
    for (name, position), points in _group_rows(rows, key, f"{key}_position"):
        x, y = [row["step"] for row in points], [drawable_or_none(row[column]) for row in points]
        low, high = ([r[end] for r in points] if band(points) else None for end in ("low", "high"))
        sign = points[0].get("sign", "") if points[0].get("method") == name else ""
        lines.append(Series(name, position, x, y, low, high, sign=sign))
    return lines


def _has_several_seeds(points: list[Row]) -> bool:
    return any(row["seeds"] > 1 for row in points)


def _has_interval(points: list[Row]) -> bool:
    return points[0].get("low") is not None
