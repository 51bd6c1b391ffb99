"""Where the time of a run goes: wall seconds by phase."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator


class Clock:
    """Seconds of phases, which may lie within one another: each second counts once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.settle: Callable[[], None] | None = None
        """Waits for what a device still has to do, so that it counts where it was asked for.

        Absent, it counts where the run waits for its results.
        """
        self._within = 0.0

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Counts the block's wall seconds to a phase, but for those of phases within it."""
        before, self._within = self._within, 0.0
        began = self._now()
        try:
            yield
        finally:
            passed = self._now() - began
            self.seconds[phase] += passed - self._within
            self._within = before + passed

    def _now(self) -> float:
        if self.settle is not None:
            self.settle()
        return time.perf_counter()
