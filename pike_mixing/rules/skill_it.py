"""Skill-it: weights follow the losses of the skills that a domain teaches.

Source: arXiv 2307.14430, online sampling, as trained by `HazyResearch/aioli`.
"""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Needs, Signals, State, ValidationNeed
from pike_mixing.numerics.simplex import fill_gaps_by_last_or_mean, softmax
from pike_mixing.setting_limits import NonNegativeFloat, PositiveFloat, PositiveInt


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkillIt(Method):
    """w ~ exp(eta A . sum of the last losses), from equal weights anew at every update."""

    about: ClassVar[str] = (
        "Shares follow the losses, looked at now and then: more of a domain whose loss is high, or "
        "which helps others whose loss is high."
    )

    eta: PositiveFloat = 0.2
    """Step per nat; losses enter as they are, so that twice the nats square the odds."""
    window: PositiveInt = 3
    """Evaluations whose losses are summed."""
    every: PositiveInt = 400
    """Steps between evaluations."""
    rows: PositiveInt = 16
    """Rows of comparison of each domain."""
    graph: dict[str, dict[str, NonNegativeFloat]] | None = None
    """A: graph[i][j] is how much training on i helps j; each domain itself alone when absent.

    An edge of exactly 1 between two domains counts as 0.5, as in the authors' code; every other
    edge counts as given."""

    def needs(self) -> Needs:
        """Losses on rows of comparison."""
        return Needs(validation=ValidationNeed(self.every, self.every, self.rows))

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Weights as if every loss were 1 nat; no losses."""
        graph_KxK = self.edge_matrix(domains)
        return {
            "graph_KxK": graph_KxK,
            "weights_K": softmax(self.eta * graph_KxK.sum(axis=1)),
            "losses_WxK": np.empty((0, len(domains))),
        }

    def observe(self, state: State, signals: Signals) -> State:
        """Sums the last losses; a domain without a loss counts with its last one."""
        loss_K, losses_WxK = signals.validation_loss_K, state["losses_WxK"]
        if loss_K is None or np.isnan(loss_K).all():
            return state
        last_K = losses_WxK[-1] if len(losses_WxK) else np.full_like(loss_K, np.nan)
        losses_WxK = np.concatenate([losses_WxK, fill_gaps_by_last_or_mean(loss_K, last_K)[None]])[
            -self.window :
        ]
        reach_K = state["graph_KxK"] @ losses_WxK.sum(axis=0)
        weights_K = softmax(self.eta * reach_K)
        return state | {"weights_K": weights_K, "losses_WxK": losses_WxK}

    def edge_matrix(self, domains: tuple[str, ...]) -> Floats:
        """A in the order of the domains, with 0.5 for every edge of 1 between two domains."""
        if self.graph is None:
            return np.eye(len(domains))
        by_domain.values_in_order(dict.fromkeys(self.graph, 1.0), domains, "graph", "row")
        rows = [
            by_domain.values_in_order(self.graph[d], domains, f"graph.{d}", "entry")
            for d in domains
        ]
        graph_KxK = np.stack(rows)
        if not (graph_KxK > 0).any():
            raise InputError("graph: at least one entry must be positive")
        other_KxK = ~np.eye(len(domains), dtype=bool)
        return np.where(other_KxK & (graph_KxK == 1), 0.5, graph_KxK)
