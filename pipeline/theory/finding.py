"""A place of the paper that its own mathematics contradicts, with the numbers that show it."""

import math
from dataclasses import dataclass
from typing import Literal

Verdict = Literal[
    "false as stated", "slip", "assumption missing", "assumption not needed", "not comparable"
]
"""A slip is a misprint on the way: the result of the passage stands. What is not comparable are two
numbers that the paper sets side by side though they measure different things."""


@dataclass(frozen=True)
class Finding:
    """One row of `findings.parquet`: both numbers are computed on one instance that is named."""

    place: str
    """LaTeX label of the statement, or the name of its section."""
    statement: str
    """What the paper says, and the quantity that both numbers are values of."""
    stated: float
    """The quantity as the paper has it."""
    recomputed: float
    """The quantity as it is."""
    verdict: Verdict
    comment: str
    """The instance, and what is right instead."""

    def __post_init__(self) -> None:
        """Two numbers that agree are no finding."""
        agree = math.isclose(self.stated, self.recomputed, rel_tol=1e-6, abs_tol=1e-12)
        assert not agree, f"{self.place}: {self.stated} is what the paper says"
