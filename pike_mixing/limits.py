"""What a setting's value must keep to beside its type, written where the type is: `Annotated`.

rows: PositiveInt
overlap: Annotated[float, Limits(at_least=0, below=1)] = 0.5
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Limits:
    """Limits of numbers, texts, lists and mappings; what is None limits nothing."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    multiple_of: int | None = None
    pattern: str | None = None
    """Regular expression of the whole text."""
    means: str | None = None
    """The pattern in words: "a commit of 40 hex digits"."""
    judge: Callable[[Any], str | None] | None = None
    """Says what is wrong with a text or a mapping, where no pattern can."""
    filled: bool = False
    """Whether a text, a list or a mapping must hold something."""
    distinct: bool = False
    """Whether a list names nothing twice."""
    or_one: bool = False
    """Whether one entry may stand without its list."""

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value of the right type."""
        if isinstance(value, int | float):
            return None if self._contains(value) else f"{self.allowed()}, not {value}"
        if self.filled and not value:
            return "must not be empty" if isinstance(value, str) else "name at least one"
        if self.distinct and (twice := [v for n, v in enumerate(value) if v in value[:n]]):
            return f"{twice[0]!r} is named twice"
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            return f"{value!r} is not {self.means or self.pattern}"
        return self.judge(value) if self.judge else None

    def _contains(self, value: float) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
            and (self.multiple_of is None or value % self.multiple_of == 0)
        )

    def allowed(self) -> str:
        """Which numbers are allowed, in words."""
        low = self.at_least if self.above is None else self.above
        high = self.at_most if self.below is None else self.below
        if low is not None and high is not None:
            left, right = "[" if self.above is None else "(", "]" if self.below is None else ")"
            words = f"must lie in {left}{low}, {high}{right}"
        elif low == 0:
            words = "must not be negative" if self.above is None else "must be positive"
        else:
            words = f"must be {'at least' if self.above is None else 'above'} {low}"
        return (
            words if self.multiple_of is None else f"{words} and a multiple of {self.multiple_of}"
        )


@dataclass(frozen=True)
class Kinds:
    """A mapping whose `kind` says which dataclass holds its other settings."""

    types: Mapping[str, Any]


PositiveInt = Annotated[int, Limits(at_least=1)]
NonNegativeInt = Annotated[int, Limits(at_least=0)]
PositiveFloat = Annotated[float, Limits(above=0)]
NonNegativeFloat = Annotated[float, Limits(at_least=0)]
Share = Annotated[float, Limits(at_least=0, at_most=1)]
PositiveShare = Annotated[float, Limits(above=0, at_most=1)]
ShareBelowOne = Annotated[float, Limits(at_least=0, below=1)]
VarianceRows = Annotated[int, Limits(at_least=2)]
"""Rows of which a variance is estimated: one alone has none."""


def _indivisible(values: Mapping[str, float]) -> str | None:
    total = sum(values.values())
    if not total > 0:
        return "at least one must be positive"
    if total == math.inf:
        return "the sum is beyond what a float64 can hold: divide all by the largest"
    return None


Proportions = Annotated[dict[str, NonNegativeFloat], Limits(judge=_indivisible)]
"""Numbers by domain that are divided by their sum."""
PositiveProportions = Annotated[dict[str, PositiveFloat], Limits(judge=_indivisible)]
"""The same of domains that all have a part."""
