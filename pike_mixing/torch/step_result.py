"""What a step's backward pass leaves beside the gradient.

Shapes: K domains.
"""

import dataclasses
import functools
from collections.abc import Callable

from pike_mixing.arrays import Floats
from pike_mixing.interface import Signals


@dataclasses.dataclass(frozen=True)
class StepResult:
    """What a backward pass leaves beside the gradient.

    Its numbers are on their way from the device: the first that is read is waited for.
    """

    read_seen: Callable[[], Signals]
    """Waits for what was measured on the way."""
    read_norm: Callable[[], float]
    """Waits for the gradient's norm before clipping, with moments per domain the mean of theirs by
    share; NaN where none was left."""
    coefficient_K: Floats | None
    """Weights of the domains' losses, or of their gradients, where the method chose them."""

    @functools.cached_property
    def seen(self) -> Signals:
        """What was measured on the way."""
        return self.read_seen()

    def with_losses(self, loss_K: Floats | None) -> "StepResult":
        """The same with other losses of the domains."""
        return dataclasses.replace(
            self, read_seen=lambda: dataclasses.replace(self.seen, loss_K=loss_K)
        )

    @functools.cached_property
    def norm(self) -> float:
        """The gradient's norm before clipping; NaN where none was left."""
        return self.read_norm()

    @property
    def losses(self) -> Floats:
        """Mean loss of each domain's rows; NaN for a domain without rows."""
        assert self.seen.loss_K is not None
        return self.seen.loss_K
