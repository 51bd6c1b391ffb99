"""Temperature sampling: weights between the corpora's sizes and equal parts (arXiv 2010.11934)."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.interface import State
from pike_mixing.limits import PositiveFloat
from pike_mixing.numerics.softmax import softmax
from pike_mixing.rules.objective import WithObjective


@dataclasses.dataclass(frozen=True, kw_only=True)
class Temperature(WithObjective):
    """b_t = b w with w_k ~ n_k^(1/T), n_k the tokens of domain k."""

    about: ClassVar[str] = (
        "Fixed shares by the size of each domain's text, evened out by a temperature."
    )

    temperature: PositiveFloat = 10 / 3
    """T: 1 keeps the corpora's proportions, a large T gives equal parts; mT5's n^0.3 is 10/3."""
    tokens_by_domain: dict[str, PositiveFloat] | None = None
    """Training tokens of each domain under the run's tokenizer; its corpora's own when absent."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The weights, which never change."""
        tokens_K = by_domain.sizes(self.tokens_by_domain, domains)
        # As a softmax, n^(1/T) cannot overflow.
        weights_K = softmax(np.log(tokens_K) / self.temperature)
        return {"weights_K": weights_K} | self.objective_state(domains)
