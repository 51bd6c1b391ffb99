"""UniMax: equal parts, but no corpus more than N times (arXiv 2304.09151)."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.interface import State
from pike_mixing.limits import PositiveFloat
from pike_mixing.rules.objective import WithObjective, known


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniMax(WithObjective):
    """Splits the run's tokens equally among the domains, the smallest first, up to N epochs each.

    A budget that exceeds N epochs of everything is split as N epochs of everything would be: then
    every domain passes N.
    """

    about: ClassVar[str] = (
        "Equal shares for all domains, except that none is read more than a few times over."
    )

    epochs: PositiveFloat = 4
    """N: no domain is read more often than this in the whole run."""
    tokens_by_domain: dict[str, PositiveFloat] | None = None
    """Training tokens of each domain under the run's tokenizer; its corpora's own when absent."""
    budget_tokens: PositiveFloat | None = None
    """Tokens of the whole run, rows x length x steps; the run's own when absent."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The weights, which never change."""
        tokens_K = by_domain.sizes(self.tokens_by_domain, domains)
        weights_K = capped(tokens_K, known(self.budget_tokens, "budget_tokens"), self.epochs)
        return {"weights_K": weights_K} | self.objective_state(domains)


def capped(tokens_K: Floats, budget: float, epochs: float) -> Floats:
    """Weights of the split: from the smallest up, each takes an equal part of what is left.

    Sizes 1 and 9, a budget of 10, two epochs: the first takes its 2, the second the 8 left.

    Args:
        tokens_K: Sizes of the corpora.
        budget: Tokens of the run.
        epochs: Times that a corpus may be read.
    """
    taken_K, left = np.zeros_like(tokens_K), budget
    order = tokens_K.argsort().tolist()
    for place, k in enumerate(order):
        taken_K[k] = min(left / (len(order) - place), epochs * float(tokens_K[k]))
        left -= float(taken_K[k])
    return taken_K / taken_K.sum()
