"""Mix: every batch holds every domain in equal parts (Building Block #1)."""

import dataclasses
from typing import ClassVar

from pike_mixing.interface import MethodDefaults, State, uniform


@dataclasses.dataclass(frozen=True)
class Mix(MethodDefaults):
    """b_t = b (1/K, ..., 1/K)."""

    about: ClassVar[str] = "Every batch holds every domain in equal parts. The baseline."

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Weights 1/K."""
        return {"weights_K": uniform(len(domains))}
