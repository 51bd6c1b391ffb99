"""What is expected of the methods on boards of drawn scenarios, written down before the runs."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pike_mixing.limits import Limits

Board = Literal["no target", "target"]
BOARDS: tuple[Board, Board] = ("no target", "target")
Level = Annotated[float, Limits(above=0, below=1)]


@dataclass(frozen=True)
class Hypothesis:
    """A method's target loss minus another's lies below, or above, a margin."""

    method: str
    """The method in question."""
    against: str
    """The other one."""
    board: Board
    """Which scenarios: those with a target, or those without."""
    direction: Literal["lower", "higher"]
    """On which side of the margin the difference is expected."""
    expected: float
    """The difference that is expected, nats."""
    margin: float = 0.0
    """The difference that it is tested against, nats."""


@dataclass(frozen=True)
class Predictions:
    """Hypotheses that are tested together."""

    hypotheses: dict[str, Hypothesis]
    """What is expected, by name."""
    level: Level = 0.05
    """Level of all hypotheses together, by Holm's procedure."""
