"""Round-Robin: each batch holds one domain, the domains take turns (Building Block #1)."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, State


@dataclasses.dataclass(frozen=True)
class RoundRobin(Method):
    """b_t = b e_{(t mod K) + 1}."""

    about: ClassVar[str] = "Each batch holds one domain alone; the domains take turns."

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Only the number of domains."""
        return {"one_hot_KxK": np.eye(len(domains))}

    def weights(self, state: State, step: int) -> Floats:
        """All weight on the domain whose turn it is."""
        one_hot_KxK = state["one_hot_KxK"]
        return one_hot_KxK[step % len(one_hot_KxK)]
