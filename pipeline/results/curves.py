"""From a view's rows to the panels of a figure: one function per kind."""

import math
from collections.abc import Iterable
from typing import Any

from pipeline.results.drawing import Panel, Series, slug
from pipeline.results.selection import Row

STEP = "step"
ALL = 0.9
"""From this weight on one domain has, for the eye, all."""


def losses(found: list[Row], baseline: str) -> list[Panel]:
    """Validation loss: a panel per domain, a line per method, the range over seeds as a band."""
    titles = {"uniform": "uniform guess", "unigram": "unigram counts", "floor": "entropy floor"}
    return [
        Panel(
            name=f"{scenario}--{model}--{slug(domain)}",
            scenario=scenario,
            model=model,
            title=domain,
            x_label=STEP,
            y_label="validation loss (nats)",
            series=_by_method(part, "nll", baseline, band=True),
            references=[(t, part[0][n]) for n, t in titles.items() if part[0][n] is not None],
            y_limits=_loss_limits(part),
        )
        for (scenario, model, domain), part in _groups(found, "scenario", "model", "domain")
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
            y_label=f"loss minus that of {baseline}",
            series=_by_method(part, "difference", baseline),
            references=[("", 0.0)],
            y_limits=_difference_limits(part),
        )
        for (scenario, model, domain), part in _groups(compared, "scenario", "model", "domain")
    ]


def _difference_limits(part: list[Row]) -> tuple[float, float]:
    """Room for twice the median method's largest difference, less where none is as large."""
    by_method = (rows for _, rows in _groups(part, "method"))
    largest = sorted(max(abs(row["difference"]) for row in rows) for rows in by_method)
    limit = max(2 * largest[len(largest) // 2], 1e-3)
    values = [0.0, *(row["difference"] for row in part)]
    return max(-limit, min(values)) - 0.1 * limit, min(limit, max(values)) + 0.1 * limit


def weights(found: list[Row], baseline: str) -> list[Panel]:
    """Sampling weights: a panel per method, a line per domain."""
    del baseline
    parts = _groups(found, "scenario", "model", "method")
    highest = [max(row["weight"] for row in part) for _, part in parts]
    # One scale for all panels, except those that reach (nearly) 1: they get the whole range.
    common = max((top for top in highest if top < ALL), default=1.0)
    return [
        Panel(
            name=f"{scenario}--{model}--{slug(method)}",
            scenario=scenario,
            model=model,
            title=method,
            x_label=STEP,
            y_label="sampling weight",
            series=_series(part, "weight", "domain", "domain_position"),
            y_limits=(0.0, 1.1 * (common if top < ALL else 1.0)),
        )
        for ((scenario, model, method), part), top in zip(parts, highest, strict=True)
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
        ("ratio", "ratio", (-0.525, 0.525)),
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
            references=[("", 0.0)],
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


def lengths(found: list[Row], baseline: str) -> list[Panel]:
    """Documents by their length: a panel per scenario, a line per domain."""
    del baseline
    return [
        Panel(
            name=slug(scenario),
            scenario=scenario,
            model="",
            title="documents",
            x_label="tokens of a document, as a power of 2",
            y_label="share of documents",
            series=_shares(part),
        )
        for (scenario,), part in _groups(found, "scenario")
    ]


def _shares(part: list[Row]) -> list[Series]:
    """Lines that begin and end at nothing: powers that no document of a domain has are zero."""
    powers = range(min(r["power"] for r in part) - 1, max(r["power"] for r in part) + 2)
    lines = []
    for (domain, position), rows in _groups(part, "domain", "domain_position"):
        share = {row["power"]: row["share"] for row in rows}
        y = [share.get(power, 0.0) for power in powers]
        lines.append(Series(key=domain, position=position, x=list(powers), y=y))
    return lines


def declared(found: list[Row], baseline: str) -> list[Panel]:
    """Panels that the view itself lays out: place, labels, lines and limits are columns of it."""
    del baseline
    return [
        Panel(
            name=f"{scenario}--{model}--{slug(panel)}",
            scenario=scenario,
            model=model,
            title=part[0]["title"],
            x_label=part[0]["x_label"],
            y_label=part[0]["y_label"],
            series=_declared_series(part),
            references=_declared_reference(part[0]),
            y_limits=_declared_limits(part),
        )
        for (scenario, model, panel), part in _groups(found, "scenario", "model", "panel")
    ]


def _declared_series(part: list[Row]) -> list[Series]:
    return [
        Series(
            key=key,
            position=position,
            x=[row["step"] for row in points],
            y=[row["value"] for row in points],
            low=None if points[0]["low"] is None else [row["low"] for row in points],
            high=None if points[0]["high"] is None else [row["high"] for row in points],
        )
        for (key, position), points in _groups(part, "key", "key_position")
    ]


def _declared_reference(row: Row) -> list[tuple[str, float]]:
    return [] if row["reference"] is None else [(row["reference_label"], row["reference"])]


def _declared_limits(part: list[Row]) -> tuple[float, float] | None:
    """Those of the view; a lower one alone leaves the upper one to the highest value."""
    bottom, top = part[0]["bottom"], part[0]["top"]
    if bottom is None:
        return None
    return bottom, 1.1 * max(row["value"] for row in part) if top is None else top


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
