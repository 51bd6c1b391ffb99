"""What a figure shows: panels of lines, before they are drawn."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


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
    method: str = ""
    """The method that the panel is of, if it is of one; its label is the title."""

    @property
    def place(self) -> tuple[str, str]:
        """Scenario and model."""
        return self.scenario, self.model


def slug(text: str) -> str:
    """The text as a part of an id: letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)
