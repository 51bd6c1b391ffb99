"""The panels of Figure 3: Example 1 under adaptive and static mixtures."""

from pipeline.results.drawing import Panel, Series
from pipeline.results.selection import Row


def example(found: list[Row], baseline: str) -> list[Panel]:
    """The loss, with the 95% interval of its simulation as a band, and the share of task 1."""
    del baseline
    if not found:
        return []
    quantities = (
        ("loss", "expected loss", "log", None),
        ("share", "share of task 1", "linear", (0.0, 1.05)),
    )
    return [
        Panel(
            name=column,
            scenario="",
            model="",
            title=label,
            x_label="step",
            y_label=label,
            series=_series(found, column),
            scale=scale,
            y_limits=limits,
        )
        for column, label, scale, limits in quantities
    ]


def _series(found: list[Row], column: str) -> list[Series]:
    lines = []
    for name, position in dict.fromkeys((r["mixture"], r["mixture_position"]) for r in found):
        points = [row for row in found if row["mixture"] == name]
        banded = column == "loss"
        lines.append(
            Series(
                key=name,
                position=position,
                x=[row["step"] for row in points],
                y=[row[column] for row in points],
                low=[row["low"] for row in points] if banded else None,
                high=[row["high"] for row in points] if banded else None,
            )
        )
    return lines
