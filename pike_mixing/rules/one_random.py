"""Random: each batch holds one domain, drawn uniformly (Building Block #1)."""

import dataclasses
import hashlib
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.interface import Method, State


@dataclasses.dataclass(frozen=True)
class Random(Method):
    """b_t = b e_{k*} with k* ~ Uniform({1, ..., K})."""

    about: ClassVar[str] = "Each batch holds one domain alone, drawn at random."

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The seed of the draws; the domain of a step is a function of (seed, step) alone."""
        one_hot_KxK = np.eye(len(domains))
        return {"one_hot_KxK": one_hot_KxK, "seed": np.array(seed, dtype=np.int64)}

    def weights(self, state: State, step: int) -> Floats:
        """All weight on the drawn domain."""
        one_hot_KxK = state["one_hot_KxK"]
        key = f"random domain {int(state['seed'])} {step}".encode()
        draw = int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
        # 64 bits modulo K: no domain is favoured by more than K / 2^64.
        return one_hot_KxK[draw % len(one_hot_KxK)]
