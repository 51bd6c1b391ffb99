"""Mix: every batch holds every domain in equal parts (Building Block #1)."""

import dataclasses
from typing import ClassVar

from pike_mixing import by_domain
from pike_mixing.interface import Method, State


@dataclasses.dataclass(frozen=True)
class Mix(Method):
    """b_t = b (1/K, ..., 1/K)."""

    about: ClassVar[str] = "Every batch holds every domain in equal parts. The baseline."

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Weights 1/K."""
        return {"weights_K": by_domain.uniform(len(domains))}
