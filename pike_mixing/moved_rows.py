"""Whether a method ever moved a row: weights that hardly change mix as fixed ones do, unnoticed.

A method is compared with its own start: the weights and counts that its initial state gives at the
same step. Three sums over the steps say how far it got, in rows:

    counts        rows that went to another domain than from the start: sum_k |b_k - b0_k| / 2
    weights       the same before rounding: b sum_k |w_k - w0_k| / 2
    coefficients  how far it weighed losses or gradients other than by rows:
                  b sum_k |c_k - b_k / b| / 2, with c divided by its sum

Of the first two the smaller one counts. Largest remainders can hide what the weights moved; and
where a quota lies at the edge between two whole numbers, the least change of a weight moves a row.

Shapes: K domains.
"""

import logging
import math

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import (
    Method,
    Needs,
    Rounding,
    State,
    Statistics,
    has_own_allocation,
    rows_of_domains,
)

log = logging.getLogger("pike")

STEP_SIZES = ("zeta1", "zeta2", "rate", "eta", "strength")
"""Settings of rules that scale how far weights change."""
SCHEDULE = ("first", "every", "warmup", "ignore")
"""Settings of rules that say when weights change."""
FIELDS = ("squared_norm_K", "squared_norm_unbiased_K", "variance_K", "loss_K", "rows_K")
"""Of `Statistics`, in the order of the state."""
NOISE = 1e-12
"""Changes of a weight up to this are rounding."""


class Movement:
    """Sums up how far one run's method got; all that it remembers is a state for the checkpoint."""

    def __init__(
        self,
        method: Method,
        domains: tuple[str, ...],
        seed: int,
        *,
        rows: int,
        steps: int,
        window: int,
        name: str = "the method",
        rounding: Rounding = "largest-remainder",
    ) -> None:
        """Remembers the start.

        Args:
            method: The method as the run trains with it.
            domains: Names of the K domains.
            seed: Of the run.
            rows: Of a batch.
            steps: Of the run.
            window: Steps in which a method is to move a row at least.
            name: What messages call the method.
            rounding: From weights to counts; a systematic one hides no row.
        """
        self.method, self.domains, self.rows, self.steps = method, domains, rows, steps
        self.window, self.name, self.rounding = window, name, rounding
        self.start = method.init(domains, seed)

    def init(self) -> State:
        """The state before step 0.

        moved_rows_3: the three sums. largest_change_2: of a weight, and of a coefficient (-1: none
        was chosen). due_1: first step at which weights changed or were measured for, -1 before.
        measured_5xK: the last statistics, NaN before.
        """
        return {
            "moved_rows_3": np.zeros(3),
            "largest_change_2": np.array([0.0, -1.0]),
            "due_1": np.array([-1]),
            "measured_5xK": np.full((5, len(self.domains)), np.nan),
        }

    def observe(self, state: State, step: int, statistics: Statistics) -> State:
        """The state after statistics; the first ones tell which coefficients would act.

        Args:
            state: The state before.
            step: 0-based step.
            statistics: Gradient statistics [K].
        """
        measured_5xK = np.stack([getattr(statistics, name) for name in FIELDS])
        if int(state["due_1"][0]) >= 0:
            return state | {"measured_5xK": measured_5xK}
        if proposal := self._proposal_text(statistics):
            log.info("%s, step %d: %s", self.name, step, proposal)
        return state | {"measured_5xK": measured_5xK, "due_1": np.array([step])}

    def after_step(
        self, state: State, step: int, weights_K: Floats, count_K: Ints, chosen_K: Floats | None
    ) -> tuple[State, str | None]:
        """The state after a step, and a warning where nothing has moved.

        It warns before the first step is over where nothing can ever move, when one window has
        passed since weights first changed or were measured for, and at the end of the run.

        Args:
            state: The state before.
            step: 0-based step; every step is to be reported, in order.
            weights_K: Its sampling weights.
            count_K: Rows of each domain in its batch.
            chosen_K: Coefficients of losses or gradients, where the method chose them.
        """
        # Enough for all steps: no later look can warn.
        if _total_moved_rows(state) >= max(1, self.steps / self.window):
            return state, None
        b, K = self.rows, len(weights_K)
        start_rows_K = rows_of_domains(self.method, self.start, step, b, self.rounding, K)
        weight_change_K = np.abs(weights_K - self.method.weights(self.start, step))
        # All coefficients may be 0; -1: none was chosen.
        change_K = np.full(K, -1.0)
        if chosen_K is not None:
            share_K = np.nan_to_num(chosen_K) / (np.nansum(np.abs(chosen_K)) or 1.0)
            change_K = np.abs(share_K - count_K / b)
        rows_3xK = [np.abs(count_K - start_rows_K), b * weight_change_K, b * change_K.clip(min=0)]
        largest_2 = np.array([weight_change_K.max(), change_K.max()])
        due = int(state["due_1"][0])
        if due < 0 and largest_2.max() > NOISE:
            due = step
        state = state | {
            "moved_rows_3": state["moved_rows_3"] + np.sum(rows_3xK, axis=1) / 2,
            "largest_change_2": np.maximum(state["largest_change_2"], largest_2),
            "due_1": np.array([due]),
        }
        is_window_over = due >= 0 and step - due + 1 == self.window
        is_futile = step == 0 and self._has_nothing_to_measure_or_mix()
        looks = step + 1 == self.steps or is_window_over or is_futile
        return state, self._few_rows_moved_warning(state, step) if looks else None

    def _has_nothing_to_measure_or_mix(self) -> bool:
        """Whether no step of the run can move a row."""
        needs = self.method.needs()
        firsts = [need.first for need in (needs.statistics, needs.validation) if need is not None]
        never = bool(firsts) and min(firsts) >= self.steps
        return len(self.domains) == 1 or never

    def _few_rows_moved_warning(self, state: State, step: int) -> str | None:
        """The warning; None where at least a row per window of steps has moved."""
        b, due, moved = self.rows, int(state["due_1"][0]), _total_moved_rows(state)
        steps = step + 1 - max(due, 0)
        if moved >= max(1, steps / self.window):
            return None
        if len(self.domains) == 1:
            return (
                f"{self.name} has one domain alone, and nothing to mix: it trains as any method "
                "does; give the scenario more domains"
            )
        of_weight, of_coefficient = state["largest_change_2"].tolist()
        what = "weight" if of_coefficient < 0 else "coefficient"
        change = max(of_weight, of_coefficient)
        since = "" if due < 0 else f" since its {what}s were first due to change"
        return (
            f"{self.name} has moved {_two_digits(moved)} of {steps * b:,} rows in the {steps:,} "
            f"steps{since} (largest change of a {what} {_two_digits(change)}; one row of {b} is "
            f"{_two_digits(1 / b)}): it trains as with its initial weights; "
            f"{self._advice_text(state, change)}"
        )

    def _advice_text(self, state: State, change: float) -> str:
        own = [n for n in STEP_SIZES if hasattr(self.method, n)]
        if int(state["due_1"][0]) < 0:
            names = ", ".join(n for n in SCHEDULE if hasattr(self.method, n))
            return (
                "nothing was measured that changed any: have it begin earlier"
                f"{f' ({names})' if names else ''} or train for more steps"
            )
        advice = f"raise {' and '.join(own)}" if own else "its rule finds little to change"
        times = 1 / self.rows / change if change > NOISE else 0
        if own and times > 1:
            advice += f" by about {_two_digits(times)} times"
        by_counts, by_weights, _ = state["moved_rows_3"].tolist()
        is_exact = self.rounding == "systematic" or has_own_allocation(self.method)
        if not is_exact and (hidden := by_weights - by_counts) >= 1:
            advice += (
                f"; or round systematically (largest remainders hid {_two_digits(hidden)} rows)"
            )
        if np.isnan(state["measured_5xK"]).all():
            return advice
        last = Statistics(**dict(zip(FIELDS, state["measured_5xK"], strict=True)))
        proposal = self._proposal_text(last)
        return f"{advice}; {proposal}" if proposal else advice

    def _proposal_text(self, statistics: Statistics) -> str:
        """Settings that would act, in words; nothing of a method that has none to propose."""
        proposed = self.method.proposed_settings(statistics, self.rows)
        values = " or ".join(f"{n} = {_two_digits(v)}" for n, v in proposed.items() if v < math.inf)
        if not values:
            return ""
        return f"by what was measured {values} alone would move a domain's odds by 10 % an update"


def needs_movement_check(method: Method) -> bool:
    """Whether a method follows signals by weights or coefficients, and so can fail to.

    One with moments of its own for each domain acts through them, with any coefficients.
    """
    needs = method.needs()
    return needs != Needs() and not needs.moments_per_domain


def _total_moved_rows(state: State) -> float:
    by_counts, by_weights, by_coefficients = state["moved_rows_3"].tolist()
    return float(min(by_counts, by_weights) + by_coefficients)


def _two_digits(value: float) -> str:
    """Two significant digits, without an exponent from 0.0001 to 10 million."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if 10 <= rounded < 1e7 else f"{rounded:g}"
