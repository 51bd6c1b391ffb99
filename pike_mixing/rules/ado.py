"""ADO: domains whose scaling law still falls get more (arXiv 2410.11820)."""

import dataclasses
import logging
from typing import Annotated, ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Method, Needs, Signals, State
from pike_mixing.numerics import laws
from pike_mixing.numerics.simplex import fill_gaps_by_last_or_mean
from pike_mixing.setting_limits import (
    Limits,
    NonNegativeInt,
    PositiveInt,
    Proportions,
    ShareBelowOne,
)

log = logging.getLogger("pike")

FEWEST = 10
"""Points below which a law of three parameters says nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ADO(Method):
    """Fits each domain's loss over rows and samples by how fast its law still falls.

    The history is smoothed as it comes and thinned by half whenever `points` are kept, so that the
    state does not grow with the run.
    """

    about: ClassVar[str] = (
        "Fits a law to each domain's falling loss and reads more where the loss still falls "
        "fastest."
    )

    first: int = 1000
    """Step of the first fit."""
    every: PositiveInt = 1000
    """Steps between fits."""
    ignore: NonNegativeInt = 500
    """Steps at the beginning that no fit sees."""
    stride: PositiveInt = 10
    """Steps between the points of a fit."""
    window: Annotated[int, Limits(at_least=5)] = 101
    """Steps over which a cubic smooths the losses (Savitzky-Golay); odd."""
    points: Annotated[int, Limits(at_least=4 * FEWEST)] = 2000
    """Points kept at most."""
    min_weight: ShareBelowOne = 0.01
    """Floor of the preferred weights, before they are divided by their sum."""
    min_log_irreducible: float = 0.5
    """No law ends below e^this nats, 1.65; lower it where losses themselves go lower."""
    prior: Proportions | None = None
    """Weights mu by domain before the first fit, and factor of the policy; 1/K when absent."""

    def problems(self) -> list[str]:
        """A window without a middle, and a first fit before its points are there."""
        problems = [] if self.window % 2 else ["window: must be odd"]
        fewest = self.ignore + (FEWEST - 1) * self.stride
        if self.first < fewest:
            problems.append(
                f"first: the first fit needs {FEWEST} points, one in {self.stride} steps, "
                f"behind the {self.ignore} ignored: at least {fewest}"
            )
        if self.first < self.window - 1:
            problems.append(f"first: the first fit needs a whole window: {self.window - 1}")
        return problems

    def needs(self) -> Needs:
        """The batch's losses and counts."""
        return Needs(losses=True)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Everything at mu; an empty history and no laws (NaN)."""
        K, weights_K = len(domains), by_domain.shares_in_order(self.prior, domains, "prior")
        return {
            "prior_K": weights_K,
            "weights_K": weights_K.copy(),
            "share_K": weights_K.copy(),
            "average_K": weights_K.copy(),
            "law_Kx3": np.full((K, 3), np.nan),
            "recent_WxK": np.empty((0, K)),
            "smooth_TxK": np.empty((0, K)),
            "step_T": np.empty(0, dtype=np.int64),
            "stride": np.array(self.stride),
        }

    def observe(self, state: State, signals: Signals) -> State:
        """Remembers the losses and the realised shares; fits when due; then the next weights."""
        assert signals.loss_K is not None
        assert signals.count_K is not None
        if np.isnan(signals.loss_K).all():
            return state
        step = signals.step
        state = self.with_losses_and_smoothed_history(state, signals.loss_K, step)
        realised_K = signals.count_K.astype(np.float64) / signals.batch_rows
        state["share_K"] = 0.9 * state["share_K"] + 0.1 * realised_K
        if step >= self.first and (step - self.first) % self.every == 0:
            state["law_Kx3"] = self.refit_laws_if_enough_points(state, step, signals.batch_rows)
        if np.isnan(state["law_Kx3"]).any():
            return state
        return self.with_next_weights(state, (step + 1) * signals.batch_rows, step)

    def with_next_weights(self, state: State, rows_seen: int, step: int) -> State:
        """The state with the weights after step t, when n rows of all domains have been seen.

        slope_k = max(alpha_k, 0.05) reducible_k / n;  rho ~ mu h^0.5 slope, at least `min_weight`;
        w = 0.9 average + 0.1 rho;  average <- average + (rho - average) / (t + 1).
        """
        alpha_K = state["law_Kx3"][:, 2].clip(min=0.05)
        slope_K = alpha_K * laws.reducible_losses(state["law_Kx3"], rows_seen) / rows_seen
        rho_K = state["prior_K"] * np.sqrt(state["share_K"]) * slope_K
        rho_K = (rho_K / rho_K.sum()).clip(min=self.min_weight)
        rho_K = rho_K / rho_K.sum()
        average_K = state["average_K"]
        return state | {
            "weights_K": 0.9 * average_K + 0.1 * rho_K,
            "average_K": average_K + (rho_K - average_K) / (step + 1),
        }

    def with_losses_and_smoothed_history(self, state: State, loss_K: Floats, step: int) -> State:
        """The state with a step's losses; a domain without rows repeats its last loss."""
        recent_WxK = state["recent_WxK"]
        last_K = recent_WxK[-1] if len(recent_WxK) else np.full_like(loss_K, np.nan)
        recent_WxK = np.concatenate([recent_WxK, fill_gaps_by_last_or_mean(loss_K, last_K)[None]])[
            -self.window :
        ]
        state = state | {"recent_WxK": recent_WxK}
        if len(recent_WxK) < self.window:
            return state
        # The first full window smooths the beginning of the series too, later ones their middle.
        begin = 0 if step == self.window - 1 else self.window // 2
        places = range(begin, self.window // 2 + 1)
        step_T, smooth_TxK = self.history_extended_from_window(state, step, places)
        if len(step_T) > self.points:
            stride = np.asarray(2 * state["stride"])
            kept_T = (step_T - self.ignore) % stride == 0
            state["stride"], step_T, smooth_TxK = stride, step_T[kept_T], smooth_TxK[kept_T]
        return state | {"step_T": step_T, "smooth_TxK": smooth_TxK}

    def history_extended_from_window(
        self, state: State, last_step: int, places_in_window: range
    ) -> tuple[Ints, Floats]:
        """The history of steps and smoothed losses, with those places that are points of a fit.

        The window is the last one, which ends with the last step.
        """
        place = np.array(places_in_window)
        step_P = last_step - self.window + 1 + place
        point_P = (step_P >= self.ignore) & ((step_P - self.ignore) % state["stride"] == 0)
        rows_PxW = laws.cubic_smoothing_matrix(self.window)[place[point_P]]
        # A matrix product may give equal columns sums that differ in their last bits.
        smooth_PxK = np.einsum("pw,wk->pk", rows_PxW, state["recent_WxK"])
        step_T = np.concatenate([state["step_T"], step_P[point_P]])
        return step_T, np.concatenate([state["smooth_TxK"], smooth_PxK])

    def refit_laws_if_enough_points(
        self, state: State, step: int, b: int
    ) -> laws.LogScaleLogFloorExponent:
        """The law of each domain, from the history and the end of the last window.

        A loop that began to observe too late to have enough points keeps the laws that it has.
        """
        if len(state["recent_WxK"]) < self.window:
            return state["law_Kx3"]
        places = range(self.window // 2 + 1, self.window)
        step_T, smooth_TxK = self.history_extended_from_window(state, step, places)
        if len(step_T) < FEWEST:
            return state["law_Kx3"]
        for k in np.flatnonzero(smooth_TxK.min(axis=0) < np.exp(self.min_log_irreducible)):
            log.warning(
                "ADO, step %d: the loss of the run's domain %d has fallen below "
                "e^min_log_irreducible, where its law cannot follow: lower the setting",
                step,
                int(k) + 1,
            )
        return laws.fit_laws(b * (step_T + 1), smooth_TxK, self.min_log_irreducible)
