"""A bound that the project sets itself, and what was measured beside it."""

from typing import Any, NamedTuple

Record = dict[str, Any]
"""What a benchmark wrote down."""


class Bar(NamedTuple):
    """One row."""

    what: str
    ours: float | None
    """None where nothing was measured."""
    form: str
    """How numbers are written, with their unit: "{:.2f} x"."""
    least: float | None = None
    most: float | None = None
    peer: str = ""
    theirs: float | None = None
    why: str = ""
    """What was tried and why it is not enough; shown where the bar is missed."""

    @property
    def holds(self) -> bool | None:
        """Whether the bar is reached; None without one, and where nothing was measured."""
        if self.ours is None or (self.least is None and self.most is None):
            return None
        above = self.least is None or self.ours >= self.least
        return above and (self.most is None or self.ours <= self.most)
