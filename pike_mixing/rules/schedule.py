"""A schedule: other weights in other parts of the training, as for a warm-up or a cool-down.

Caps on epochs are held over the whole run. Of all schedules that hold them, the one nearest to what
was written is taken: sum_t KL(w'(t) || w(t)) is least for

    w'_k(t) = m_k w_k(t) / sum_j m_j w_j(t),   m_k = 1 where the cap of domain k does not bind,

and iterative proportional fitting finds m: where a domain would be read too often, m_k is
multiplied by the odds of its cap over those of what it would be read. One cap of a static mixture
is met at once; no step goes too far, as odds of a mean fall by no more than the factor does.
"""

import dataclasses
import itertools
from typing import ClassVar, Literal

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.interface import State
from pike_mixing.rules.static import WithObjective, require_run_length
from pike_mixing.setting_limits import NonNegativeFloat, PositiveFloat, PositiveInt, Proportions

LOOKS = 2000
"""Steps, spread over the run, by which exposure is summed up."""
ITERATIONS = 10_000
"""After which caps count as impossible to hold."""
TOLERANCE = 1e-6
"""Part of a cap by which a domain may pass it."""
SMALLEST = 1e-12
"""A factor below this changes only weights of domains that stand alone: the caps cannot hold."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule(WithObjective):
    """b_t = b w(t), with w(t) given at points and constant, linear or cosine between them.

    Before the first point and after the last, its weights hold. With `linear`, a stage is two
    points of the same weights, and the ramp to the next stage lies between: a warm-up from equal
    parts and a cool-down on reference texts are four points. The weights are a function of the
    step, so that a resumed run goes on where it was.
    """

    about: ClassVar[str] = (
        "Shares by a schedule that someone chose: stages, ramps, a warm-up or a cool-down, with "
        "caps on how often a domain is read in the whole run."
    )

    points: tuple[Proportions, ...] | None = None
    """Weights by domain at each point, divided by their sum; equal parts all along when absent."""
    at: tuple[NonNegativeFloat, ...] = (0.0,)
    """Where the points lie, ascending."""
    unit: Literal["share", "steps", "tokens"] = "share"
    """Of `at`: share of the run (0 to 1), steps, or tokens."""
    between: Literal["constant", "linear", "cosine"] = "constant"
    """How weights change from a point to the next: at once there, evenly, or by half a cosine."""
    epochs: PositiveFloat | None = None
    """No domain is read more often than this in the whole run; no cap when absent."""
    steps: PositiveInt | None = None
    """Steps of the whole run; the run's own when absent."""
    tokens_by_domain: dict[str, PositiveFloat] | None = None
    """Training tokens of each domain, for `epochs`; its corpora's own when absent."""
    budget_tokens: PositiveFloat | None = None
    """Tokens of the whole run, rows x length x steps; the run's own when absent."""

    def problems(self) -> list[str]:
        """Points without a place, out of order, or beyond the run."""
        count = 1 if self.points is None else len(self.points)
        if len(self.at) != count:
            return [f"at: has {len(self.at)} places for {count} point(s): give one for each"]
        problems = []
        if any(a >= b for a, b in itertools.pairwise(self.at)):
            problems.append(f"at: {list(self.at)} must ascend")
        if self.unit == "share" and self.at and max(self.at) > 1:
            problems.append("at: a share of the run is 1 at most: lower it, or change `unit`")
        return problems + ([] if count else ["points: give one at least"])

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Points, their steps, and the factors that hold the caps."""
        points = [None] if self.points is None else list(self.points)
        shares = [
            by_domain.shares_in_order(p, domains, f"points[{n}]") for n, p in enumerate(points)
        ]
        state = {
            "points_PxK": np.stack(shares),
            "at_P": np.array(self.at, dtype=np.float64) * self._steps_per_unit(),
            "factor_K": np.ones(len(domains)),
        }
        if self.epochs is not None:
            budget = require_run_length(self.budget_tokens, "budget_tokens")
            tokens_K = by_domain.required_tokens_in_order(self.tokens_by_domain, domains)
            cap_K = self.epochs * tokens_K / budget
            looks = np.unique(
                np.linspace(0, require_run_length(self.steps, "steps") - 1, LOOKS).round()
            )
            weights_TxK = np.stack([self.weights(state, int(step)) for step in looks])
            state["factor_K"] = cap_factors(weights_TxK, cap_K, domains)
        return state | {"weights_K": self.weights(state, 0)} | self.objective_state(domains)

    def weights(self, state: State, step: int) -> Floats:
        """The schedule's weights at a step."""
        points_PxK, at_P = state["points_PxK"], state["at_P"]
        after = int(np.searchsorted(at_P, step, side="right"))
        if after in (0, len(at_P)):
            weights_K = points_PxK[max(after - 1, 0)]
        else:
            share = (step - at_P[after - 1]) / (at_P[after] - at_P[after - 1])
            ways = {"constant": 0.0, "linear": share, "cosine": (1 - np.cos(np.pi * share)) / 2}
            share = ways[self.between]
            weights_K = (1 - share) * points_PxK[after - 1] + share * points_PxK[after]
        weights_K = state["factor_K"] * weights_K
        return np.asarray(weights_K / weights_K.sum())

    def _steps_per_unit(self) -> float:
        if self.unit == "steps" or max(self.at) == 0:
            return 1.0
        if self.unit == "share":
            return float(require_run_length(self.steps, "steps"))
        budget = require_run_length(self.budget_tokens, "budget_tokens")
        return require_run_length(self.steps, "steps") / budget


def cap_factors(weights_TxK: Floats, mean_share_cap_K: Floats, domains: tuple[str, ...]) -> Floats:
    """The m_K with which the mean over T even steps of m w / sum(m w) is at most the cap."""
    cap_K, factor_K = mean_share_cap_K, np.ones(len(mean_share_cap_K))
    for _ in range(ITERATIONS):
        weighted_TxK = factor_K * weights_TxK
        share_K = (weighted_TxK / weighted_TxK.sum(axis=1, keepdims=True)).mean(axis=0)
        if (share_K <= cap_K * (1 + TOLERANCE)).all():
            return factor_K
        if factor_K.min() < SMALLEST:
            break
        rest_K = (1 - share_K).clip(min=1e-300)
        odds_K = cap_K / share_K.clip(min=1e-300) * (rest_K / np.maximum(1 - cap_K, rest_K))
        factor_K = factor_K * np.minimum(1, odds_K)
        # Only ratios count; a domain whose cap does not bind keeps 1 as long as there is one.
        factor_K = factor_K / factor_K.max()
    over = [d for d, s, c in zip(domains, share_K, cap_K, strict=True) if s > c * (1 + TOLERANCE)]
    raise InputError(
        f"epochs: {', '.join(over)} would be read more often than allowed at any weights between "
        "these points: raise epochs, shorten the run, or give other domains weight where these "
        "stand alone"
    )
