"""What rules of weights that follow no signal have in common: an objective apart from exposure."""

import dataclasses
from typing import Any, Self, TypeVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, RunFacts, Signals, State
from pike_mixing.limits import Proportions

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class WithObjective(Method):
    """A rule whose share of rows and whose weight in the loss can be set separately.

    More rows of a domain lower the noise of its gradient, and it is read more often; a higher
    weight in the loss makes it count for more. Without an objective the two are one: the training
    loss is the mean over rows.
    """

    objective: Proportions | None = dataclasses.field(default=None, kw_only=True)
    """Weight of each domain's mean loss in the training loss, divided by the sum over the domains
    that have rows in the batch; their shares of the rows when absent."""

    def for_run(self, facts: RunFacts) -> Self:
        """The same rule with the run's sizes, budget and length where none were written down."""
        known_of_run: dict[str, Any] = {
            "tokens_by_domain": dict(facts.tokens_by_domain),
            "budget_tokens": facts.budget_tokens,
            "steps": facts.steps,
        }
        own = {field.name for field in dataclasses.fields(self)}
        given = {name: value for name, value in known_of_run.items() if name in own}
        return dataclasses.replace(self, **{n: getattr(self, n) or v for n, v in given.items()})

    def objective_state(self, domains: tuple[str, ...]) -> State:
        """What the state needs for `loss_weights`: nothing without an objective.

        Raises:
            InputError: the objective names a domain that is not there, or misses one.
        """
        if self.objective is None:
            return {}
        return {"objective_K": by_domain.shares(self.objective, domains, "objective")}

    def loss_weights(self, state: State, signals: Signals) -> Floats | None:
        """The objective over the domains with rows; 0 where none of them counts."""
        if self.objective is None:
            return None
        assert signals.count_K is not None, "the batch's counts are known before its losses"
        weight_K = np.where(signals.count_K > 0, state["objective_K"], 0.0)
        return np.asarray(weight_K / max(weight_K.sum(), np.finfo(np.float64).tiny))


def known(value: T | None, setting: str) -> T:
    """The value of a setting that says how long the run is; an InputError where it has none."""
    if value is None:
        raise InputError(f"{setting}: the length of the run is not known: give it")
    return value
