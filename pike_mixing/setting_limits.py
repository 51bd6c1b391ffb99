"""What a setting's value must keep to beside its type, written where the type is: `Annotated`.

rows: PositiveInt
overlap: Annotated[float, Limits(at_least=0, below=1)] = 0.5
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pike_mixing.errors import shortened_repr

WIDEST = 2**63 - 1
"""The greatest whole number that a setting can be: the database has 64 bits for it."""
KEYWORDS = {
    "at_least": "minimum",
    "above": "exclusiveMinimum",
    "at_most": "maximum",
    "below": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "distinct": "uniqueItems",
    "means": "patternErrorMessage",
}
"""Limits by the keyword of JSON Schema; editors know the last, which JSON Schema does not."""
FILLED = {"string": "minLength", "array": "minItems", "object": "minProperties"}


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

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value of the right type."""
        if isinstance(value, int | float):
            if abs(value) > WIDEST and isinstance(value, int):
                return f"must lie between -{WIDEST} and {WIDEST}"
            return None if self._is_in_range(value) else f"{self.requirement_text()}, not {value}"
        if self.filled and not value:
            return "must not be empty" if isinstance(value, str) else "name at least one"
        if self.distinct and (twice := [v for n, v in enumerate(value) if v in value[:n]]):
            return f"{shortened_repr(twice[0])} is named twice"
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            return f"{shortened_repr(value)} is not {self.means or self.pattern}"
        return self.judge(value) if self.judge else None

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """How pydantic checks a value: its type, then these limits."""
        check = {"type": "no-info", "function": self._validate_and_return}
        return {"type": "function-after", "function": check, "schema": handler(source)}

    def __get_pydantic_json_schema__(self, schema: Any, handler: Callable[[Any], Any]) -> Any:
        """What JSON Schema says of the limits."""
        node = handler(schema)
        set_here = {name: v for name, v in vars(self).items() if v is not None and v is not False}
        node |= {KEYWORDS[name]: v for name, v in set_here.items() if name in KEYWORDS}
        node |= {FILLED[node.get("type", "array")]: 1} if self.filled else {}
        return node | ({"pattern": f"^({self.pattern})$"} if self.pattern else {})

    def _validate_and_return(self, value: Any) -> Any:
        if problem := self.problem(value):
            raise ValueError(problem)
        return value

    def _is_in_range(self, value: float) -> bool:
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
            and (self.multiple_of is None or value % self.multiple_of == 0)
        )

    def requirement_text(self) -> str:
        """Which numbers are allowed, in words."""
        low = self.at_least if self.above is None else self.above
        high = self.at_most if self.below is None else self.below
        if low is not None and high is not None:
            left, right = "[" if self.above is None else "(", "]" if self.below is None else ")"
            words = f"must lie in {left}{low}, {high}{right}"
        elif low is None and high is None:
            return f"must be a multiple of {self.multiple_of}"
        elif low is None:
            words = f"must be {'at most' if self.below is None else 'below'} {high}"
        elif low == 0:
            words = "must not be negative" if self.above is None else "must be positive"
        else:
            words = f"must be {'at least' if self.above is None else 'above'} {low}"
        return words + (f" and a multiple of {self.multiple_of}" if self.multiple_of else "")


PositiveInt = Annotated[int, Limits(at_least=1)]
NonNegativeInt = Annotated[int, Limits(at_least=0)]
PositiveFloat = Annotated[float, Limits(above=0)]
NonNegativeFloat = Annotated[float, Limits(at_least=0)]
Share = Annotated[float, Limits(at_least=0, at_most=1)]
PositiveShare = Annotated[float, Limits(above=0, at_most=1)]
ShareBelowOne = Annotated[float, Limits(at_least=0, below=1)]
VarianceRows = Annotated[int, Limits(at_least=2)]
"""Rows of which a variance is estimated: one alone has none."""


def _unscalable_sum_problem(values: Mapping[str, float]) -> str | None:
    total = sum(values.values())
    if not total > 0:
        return "at least one must be positive"
    if total == math.inf:
        return "the sum is beyond what a float64 can hold: divide all by the largest"
    return None


Proportions = Annotated[dict[str, NonNegativeFloat], Limits(judge=_unscalable_sum_problem)]
"""Numbers by domain that are divided by their sum."""
PositiveProportions = Annotated[dict[str, PositiveFloat], Limits(judge=_unscalable_sum_problem)]
"""The same of domains that all have a part."""
