"""Alarms: what goes wrong quietly while a method mixes.

    effective-domains  the sampling weights have collapsed onto few domains
    no-rows            a domain has not been in any batch for a while
    epochs             a domain's text has been repeated too often
    nan-signal         a gradient statistic of a domain that had rows is no finite number
    never-moved        the method has mixed as its initial weights do (`pipeline.training.movement`)

An alarm is raised once for a kind and a domain, and again only when its condition has gone and come
back. The first two and the last are for methods that adapt: a mixture that was chosen to hold one
domain, or one at a time, is as chosen.

Shapes: K domains.
"""

import logging
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pike_mixing.arrays import Array, Floats, Ints
from pike_mixing.interface import State, Statistics
from pipeline.settings import AlarmLimits
from pipeline.training.movement import Movement

log = logging.getLogger("pike")

FEWEST_DOMAINS = 3
"""Fewer domains cannot collapse: of two, 86 % of one (1.5 effective domains) is a mixture that many
would choose, and when the other one vanishes `no-rows` says so."""


class Alarm(NamedTuple):
    """One row of the table `alarms`."""

    step: int
    """Step at whose end the condition held."""
    kind: str
    """One of the five kinds."""
    domain: str | None
    """The domain; None when it is about all of them."""
    message: str
    """What it means and what to do."""


class Alarms:
    """Watches one run. All that it remembers is `state`, which belongs into the checkpoint."""

    def __init__(
        self,
        domains: Sequence[str],
        limits: AlarmLimits,
        adapts: bool,
        epoch_rows_K: Floats,
        movement: Movement | None = None,
    ) -> None:
        """Begins before step 0; assign `state` to go on from a checkpoint.

        Args:
            domains: Names of the K domains.
            limits: When to warn.
            adapts: Whether the method follows signals, so that its weights can go astray.
            epoch_rows_K: Rows of each domain's corpus.
            movement: Of a method that can fail to move a row.
        """
        self.domains, self.limits, self.adapts = tuple(domains), limits, adapts
        self.epoch_rows_K, self.movement = epoch_rows_K, movement
        K = len(self.domains)
        self.state: State = {
            "weight_sum_K": np.zeros(K),
            "last_rows_K": np.full(K, -1),
            "effective-domains": np.zeros(1, dtype=bool),
            "no-rows": np.zeros(K, dtype=bool),
            "epochs": np.zeros(K, dtype=bool),
            "nan-signal": np.zeros(K, dtype=bool),
            **({} if movement is None else movement.begun()),
        }

    def after_step(
        self,
        step: int,
        weights_K: Floats,
        count_K: Ints,
        positions_K: Ints,
        coefficient_K: Floats | None = None,
    ) -> list[Alarm]:
        """The alarms that one step raises; they are logged too.

        Args:
            step: 0-based step; every step is to be reported, in order.
            weights_K: Its sampling weights.
            count_K: Rows of each domain in its batch.
            positions_K: Rows of each domain drawn until its end.
            coefficient_K: Weights of its losses or gradients, where the method chose them.
        """
        found = self._epochs(step, positions_K)
        if self.adapts:
            found += self._no_rows(step, count_K)
            if len(self.domains) >= FEWEST_DOMAINS:
                found += self._effective(step, weights_K)
        if self.movement is not None:
            changed, message = self.movement.after_step(
                self.state, step, weights_K, count_K, coefficient_K
            )
            self.state = {**self.state, **changed}
            found += [] if message is None else [Alarm(step, "never-moved", None, message)]
        return _logged(found)

    def of_statistics(self, step: int, measured: Statistics) -> list[Alarm]:
        """The alarms that gradient statistics raise; they are logged too."""
        if self.movement is not None:
            self.state = {**self.state, **self.movement.measured(self.state, step, measured)}
        # Without noise that can be told from the signal, the unbiased norm is NaN as the variance.
        numbers_3xK = np.stack([measured.squared_norm_K, measured.loss_K, measured.variance_K])
        finite_3xK = np.isfinite(numbers_3xK)
        had_rows_K = measured.rows_K > 0
        bad_K = np.where(had_rows_K, ~finite_3xK.all(axis=0), self.state["nan-signal"])
        found = []
        for k in self._newly("nan-signal", bad_K):
            domain, rows = self.domains[k], int(measured.rows_K[k])
            if finite_3xK[:2, k].all():
                message = (
                    f"no variance could be estimated from {_rows(rows)} of {domain}, so the "
                    "method leaves its weight as it was: measure more rows of each domain (the "
                    "method's rows), or lower training.statistics_microbatch"
                )
            else:
                message = (
                    f"the gradient of {domain} over {_rows(rows)} is not finite, so the method "
                    "leaves its weight as it was: lower training.peak_learning_rate or lengthen "
                    "training.warmup_steps"
                )
            found.append(Alarm(step, "nan-signal", domain, message))
        return _logged(found)

    def _epochs(self, step: int, positions_K: Ints) -> list[Alarm]:
        epochs_K = positions_K / self.epoch_rows_K
        return [
            Alarm(
                step,
                "epochs",
                self.domains[k],
                f"{self.domains[k]} has been read more than {self.limits.epochs:g} times over (its "
                f"corpus has {_rows(int(self.epoch_rows_K[k]))}): further repeats teach little and "
                "are learnt by heart; give its source more text, train for fewer steps, or use a "
                "method that bounds repetition (unimax)",
            )
            for k in self._newly("epochs", epochs_K > self.limits.epochs)
        ]

    def _no_rows(self, step: int, count_K: Ints) -> list[Alarm]:
        last_K = np.where(count_K > 0, step, self.state["last_rows_K"])
        self.state = {**self.state, "last_rows_K": last_K}
        window = self.limits.window
        return [
            Alarm(
                step,
                "no-rows",
                self.domains[k],
                f"{self.domains[k]} had no row in the last {window} steps: the model forgets it, "
                "and a method that learns from batches hears no more of it; give the method a "
                "floor (min_weight), lower its rate, or raise training.rows",
            )
            for k in self._newly("no-rows", step - last_K >= window)
        ]

    def _effective(self, step: int, weights_K: Floats) -> list[Alarm]:
        """A look at the end of each window, at the mean weights of its steps."""
        window, least = self.limits.window, self.limits.least_effective_domains
        sum_K = self.state["weight_sum_K"] + weights_K
        looks = (step + 1) % window == 0
        self.state = {**self.state, "weight_sum_K": np.zeros_like(sum_K) if looks else sum_K}
        if not looks:
            return []
        mean_K = sum_K / window
        number = effective_domains(mean_K)
        largest = self.domains[int(mean_K.argmax())]
        message = (
            f"the weights of the last {window} steps spread over {number:.2f} effective domains of "
            f"{len(self.domains)}, {mean_K.max():.0%} on {largest}: the mixture has collapsed; "
            "lower the method's rate (PiKE: zeta1), give it a floor (min_weight), or lower "
            "training.alarms.least_effective_domains if this is meant"
        )
        raised = self._newly("effective-domains", np.array([number < least]))
        return [Alarm(step, "effective-domains", None, message) for _ in raised]

    def _newly(self, kind: str, holds: Array) -> list[int]:
        """Where a condition holds that did not hold at the last look."""
        before = self.state[kind]
        self.state = {**self.state, kind: holds}
        return [int(k) for k in np.flatnonzero(holds & ~before)]


def effective_domains(weights_K: Floats) -> float:
    """Effective number of domains exp(H(w)), between 1 and K; K for equal weights."""
    positive_K = weights_K[weights_K > 0]
    return math.exp(-(positive_K * np.log(positive_K)).sum())


def _rows(number: int) -> str:
    return f"{number:,} row" + ("" if number == 1 else "s")


def _logged(alarms: list[Alarm]) -> list[Alarm]:
    for alarm in alarms:
        log.warning("step %d: %s", alarm.step, alarm.message)
    return alarms
