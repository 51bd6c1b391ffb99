"""Fixed weights: a mixture that someone chose (GLaM's, one's own), or that other runs found."""

import dataclasses
from typing import ClassVar, Self

from pike_mixing import by_domain
from pike_mixing.errors import InputError
from pike_mixing.interface import RunFacts, State
from pike_mixing.limits import Proportions
from pike_mixing.rules.objective import WithObjective


@dataclasses.dataclass(frozen=True)
class Fixed(WithObjective):
    """b_t = b w with the same w at every step."""

    about: ClassVar[str] = (
        "Every batch holds the domains in shares that someone chose beforehand, or that other runs "
        "found."
    )

    weights_by_domain: Proportions | None = None
    """Weight of each domain; divided by their sum."""
    mixture: str | None = None
    """Instead: name of a mixture that the experiment finds (mixtures)."""

    def problems(self) -> list[str]:
        """Weights that are missing or given twice."""
        if (self.weights_by_domain is None) == (self.mixture is None):
            return ["weights_by_domain: give either these or a mixture, not both"]
        return []

    def for_run(self, facts: RunFacts) -> Self:
        """The same rule with the weights of the mixture that it names."""
        if self.mixture is None:
            return self
        if facts.mixture is None:
            raise InputError(f"mixture: the weights of {self.mixture!r} were not given to the run")
        return dataclasses.replace(self, weights_by_domain=dict(facts.mixture), mixture=None)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The normalised weights."""
        if self.weights_by_domain is None:
            raise InputError(f"mixture: the weights of {self.mixture!r} were not given to the run")
        weights_K = by_domain.shares(self.weights_by_domain, domains, "weights_by_domain")
        return {"weights_K": weights_K} | self.objective_state(domains)
