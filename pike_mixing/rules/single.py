"""Single: one domain alone, the paper's reference for what mixing gains."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.errors import InputError
from pike_mixing.interface import Method, State
from pike_mixing.settings import unknown


@dataclasses.dataclass(frozen=True)
class Single(Method):
    """b_t = b e_k for one k."""

    about: ClassVar[str] = "All batches hold the same one domain; the others are never seen."

    domain: str
    """The domain trained on."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """All weight on the domain."""
        if self.domain not in domains:
            raise InputError(unknown(self.domain, domains, "domain"))
        one_hot = [float(d == self.domain) for d in domains]
        return {"weights_K": np.array(one_hot)}
