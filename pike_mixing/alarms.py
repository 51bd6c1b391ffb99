"""Alarms: what goes wrong quietly while a method mixes.

    effective-domains  the sampling weights have collapsed onto few domains
    no-rows            a domain has not been in any batch for a while
    epochs             a domain's text has been repeated too often
    nan-signal         a gradient statistic of a domain that had rows is no finite number
    never-moved        the method has mixed as its initial weights do (`pike_mixing.moved_rows`)
    worse              the loss of a domain's held-out rows has risen above its lowest

An alarm is raised once for a kind and a domain, and again only when its condition has gone and
come back; `never-moved` after a window and at the end. The first two and `never-moved` are for
methods that adapt: a mixture that was chosen to hold one domain, or one at a time, is as chosen.
But where a trainer rounds it (`rounded`), `no-rows` also tells of a weight that is rounded to 0.

Shapes: K domains.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from pike_mixing.arrays import Array, Floats, Ints
from pike_mixing.interface import State, Statistics
from pike_mixing.moved_rows import Movement
from pike_mixing.numerics.simplex import effective_domains
from pike_mixing.setting_limits import NonNegativeFloat, PositiveFloat, PositiveInt
from pike_mixing.settings import CheckedSettings

FEWEST_DOMAINS = 3
"""Fewer domains cannot collapse: of two, 86 % of one (1.5 effective domains) is a mixture that many
would choose, and when the other one vanishes `no-rows` says so."""


class Alarm(NamedTuple):
    """What one step raised."""

    step: int
    """Step at whose end the condition held."""
    kind: str
    """One of the six kinds."""
    domain: str | None
    """The domain; None when it is about all of them."""
    message: str
    """What it means and what to do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlarmLimits(CheckedSettings):
    """When a run warns; `pike_mixing.alarms` says what each alarm means."""

    least_effective_domains: NonNegativeFloat = 1.5
    """Fewest effective domains exp(H(w)), H the entropy of a window's mean sampling weights."""
    epochs: PositiveFloat = 4.0
    """Times that a domain's text may be read; up to 4 harm little (arXiv 2305.16264)."""
    window: PositiveInt = 100
    """Steps without a row of a domain, steps between looks at the weights, and steps in which a
    method is to move a row at least."""
    worse: NonNegativeFloat = 0.05
    """Nats per token by which a domain's held-out loss may rise above its lowest."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Watch(AlarmLimits):
    """When to warn: pure functions over a state, which belongs into the checkpoint."""

    domains: tuple[str, ...]
    """Names of the K domains."""
    epoch_rows: dict[str, float] | None = None
    """Rows of each domain's text; without them no alarm of repetition."""
    adapts: bool = True
    """Whether the method follows signals, so that its weights can go astray."""
    rounded: bool = False
    """Whether each step's weights are rounded to the nearest whole rows, which may always be 0."""
    movement: Movement | None = None
    """Of a method that can fail to move a row."""

    def problems(self) -> list[str]:
        """Domains whose rows are not given."""
        given = self.domains if self.epoch_rows is None else self.epoch_rows
        return [f"epoch_rows: {d!r} has no number of rows" for d in self.domains if d not in given]

    def init(self) -> State:
        """The state before step 0."""
        K = len(self.domains)
        raised_by_domain = ("no-rows", "epochs", "nan-signal", "worse")
        return {
            "weight_sum_K": np.zeros(K),
            "last_rows_K": np.full(K, -1),
            "effective-domains": np.zeros(1, dtype=bool),
            **{kind: np.zeros(K, dtype=bool) for kind in raised_by_domain},
            "lowest_loss_K": np.full(K, np.inf),
            "lowest_step_K": np.zeros(K, dtype=np.int64),
            **({} if self.movement is None else self.movement.init()),
        }

    def after_step(
        self,
        state: State,
        step: int,
        weights_K: Floats,
        count_K: Ints,
        drawn_so_far_K: Ints | None = None,
        coefficient_K: Floats | None = None,
    ) -> tuple[State, list[Alarm]]:
        """The next state, and the alarms that one step raises.

        Args:
            state: The state before.
            step: 0-based step; every step is to be reported, in order.
            weights_K: Its sampling weights.
            count_K: Rows of each domain in its batch.
            drawn_so_far_K: Rows of each domain drawn until its end; needed with `epoch_rows`.
            coefficient_K: Weights of its losses or gradients, where the method chose them.
        """
        state, result = dict(state), []
        if step == 0:
            # A domain that begins with nothing is measured only: it never misses rows.
            never = np.iinfo(np.int64).max
            state["last_rows_K"] = np.where(weights_K > 0, state["last_rows_K"], never)
        if self.epoch_rows is not None and drawn_so_far_K is not None:
            result += self._record_epoch_alarms(state, step, drawn_so_far_K, self.epoch_rows)
        if self.adapts or self.rounded:
            result += self._record_missing_rows_alarms(state, step, weights_K, count_K)
        if self.adapts and len(self.domains) >= FEWEST_DOMAINS:
            result += self._record_effective_domains_alarm(state, step, weights_K)
        if self.movement is not None:
            state, message = self.movement.after_step(
                state, step, weights_K, count_K, coefficient_K
            )
            result += [] if message is None else [Alarm(step, "never-moved", None, message)]
        return state, result

    def after_statistics(
        self, state: State, step: int, measured: Statistics
    ) -> tuple[State, list[Alarm]]:
        """The next state, and the alarms that gradient statistics raise.

        Args:
            state: The state before.
            step: 0-based step.
            measured: Gradient statistics [K].
        """
        state = dict(state)
        if self.movement is not None:
            state = self.movement.observe(state, step, measured)
        # Without noise that can be told from the signal, the unbiased norm is NaN as the variance.
        numbers_3xK = np.stack([measured.squared_norm_K, measured.loss_K, measured.variance_K])
        finite_3xK = np.isfinite(numbers_3xK)
        had_rows_K = measured.rows_K > 0
        bad_K = np.where(had_rows_K, ~finite_3xK.all(axis=0), state["nan-signal"])
        result = []
        for k in _indices_turned_true(state, "nan-signal", bad_K):
            domain, rows = self.domains[k], int(measured.rows_K[k])
            if finite_3xK[:2, k].all():
                message = (
                    f"no variance could be estimated from {_rows_text(rows)} of {domain}, so the "
                    "method leaves its weight as it was: measure more rows of each domain (the "
                    "method's rows), or fewer of them together"
                )
            else:
                message = (
                    f"the gradient of {domain} over {_rows_text(rows)} is not finite, so the "
                    "method leaves its weight as it was: lower the learning rate or lengthen its "
                    "warm-up"
                )
            result.append(Alarm(step, "nan-signal", domain, message))
        return state, result

    def after_validation(
        self, state: State, step: int, loss_K: Floats
    ) -> tuple[State, list[Alarm]]:
        """The next state, and the alarms that losses of held-out rows raise.

        In a training that goes on from a model, the first losses are to be the model's own.

        Args:
            state: The state before.
            step: Steps that the model has been trained for.
            loss_K: Losses, nats per token; infinite where the model diverged, NaN of a domain that
                was not measured.
        """
        state = dict(state)
        lowest_K, at_K = state["lowest_loss_K"], state["lowest_step_K"]
        measured_K = ~np.isnan(loss_K)
        rise_K = np.where(measured_K, loss_K, -np.inf) - np.where(np.isfinite(loss_K), lowest_K, 0)
        worse_K = np.where(measured_K, rise_K > self.worse, state["worse"])
        falls_K = measured_K & (loss_K < lowest_K)
        state["lowest_loss_K"] = np.where(falls_K, loss_K, lowest_K)
        state["lowest_step_K"] = np.where(falls_K, step, at_K)
        return state, [
            Alarm(
                step,
                "worse",
                self.domains[k],
                f"{self.domains[k]} gets worse: its held-out loss is {loss_K[k]:.3f}, "
                f"{rise_K[k]:.3f} nats above that at step {at_K[k]}; the model forgets it or "
                "learns its text by heart: give it more rows or fewer epochs, or a lower learning "
                "rate",
            )
            for k in _indices_turned_true(state, "worse", worse_K)
        ]

    def _record_epoch_alarms(
        self, state: State, step: int, drawn_so_far_K: Ints, epoch_rows: dict[str, float]
    ) -> list[Alarm]:
        rows_K = np.array([epoch_rows[domain] for domain in self.domains])
        return [
            Alarm(
                step,
                "epochs",
                self.domains[k],
                f"{self.domains[k]} has been read more than {self.epochs:g} times over (its "
                f"corpus has {_rows_text(int(rows_K[k]))}): further repeats teach little and are "
                "learnt by heart; give its source more text, train for fewer steps, or use a "
                "method that bounds repetition (unimax)",
            )
            for k in _indices_turned_true(state, "epochs", drawn_so_far_K / rows_K > self.epochs)
        ]

    def _record_missing_rows_alarms(
        self, state: State, step: int, weights_K: Floats, count_K: Ints
    ) -> list[Alarm]:
        # A chosen weight of 0 misses nothing.
        as_chosen_K = (count_K > 0) | (not self.adapts and weights_K == 0)
        last_K = np.where(as_chosen_K, step, state["last_rows_K"])
        state["last_rows_K"] = last_K
        return [
            Alarm(
                step,
                "no-rows",
                self.domains[k],
                f"{self.domains[k]} had no row in the last {self.window} steps: the model forgets "
                "it, and a method that learns from batches hears no more of it; "
                + self._missing_rows_remedy(float(weights_K[k]), int(count_K.sum())),
            )
            for k in _indices_turned_true(state, "no-rows", step - last_K >= self.window)
        ]

    def _missing_rows_remedy(self, weight: float, b: int) -> str:
        if self.rounded and weight > 0:
            return (
                f"its weight of {weight:.3g} is rounded to 0 of {b} rows: write "
                'rounding="systematic", which gives it rows in some steps, or put more rows into a '
                "batch"
            )
        return "give the method a floor (min_weight), lower its rate, or put more rows into a batch"

    def _record_effective_domains_alarm(
        self, state: State, step: int, weights_K: Floats
    ) -> list[Alarm]:
        """At most one, at the end of a window: a look at the mean weights of its steps."""
        sum_K = state["weight_sum_K"] + weights_K
        looks = (step + 1) % self.window == 0
        state["weight_sum_K"] = np.zeros_like(sum_K) if looks else sum_K
        if not looks:
            return []
        mean_K = sum_K / self.window
        number = effective_domains(mean_K)
        largest = self.domains[int(mean_K.argmax())]
        message = (
            f"the weights of the last {self.window} steps spread over {number:.2f} effective "
            f"domains of {len(self.domains)}, {mean_K.max():.0%} on {largest}: the mixture has "
            "collapsed; lower the method's rate (PiKE: zeta1), give it a floor (min_weight), or "
            "lower least_effective_domains if this is meant"
        )
        low = np.array([number < self.least_effective_domains])
        raised = _indices_turned_true(state, "effective-domains", low)
        return [Alarm(step, "effective-domains", None, message) for _ in raised]


def _indices_turned_true(state: State, kind: str, is_true: Array) -> list[int]:
    """Where a condition holds that did not hold at the last look, which the state remembers."""
    before, state[kind] = state[kind], is_true
    return [int(k) for k in np.flatnonzero(is_true & ~before)]


def _rows_text(rows: int) -> str:
    return f"{rows:,} row" + ("" if rows == 1 else "s")
