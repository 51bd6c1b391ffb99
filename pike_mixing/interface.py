"""The places where a mixing method acts on training, and what it is told.

A method is a frozen dataclass of settings with pure functions over an explicit state. The loop
calls `allocate`, `loss_weights`, `combine` and `observe` of every method and never asks which one
it runs; a method that does not act in a place inherits the neutral answer of `MethodDefaults`.

Shapes: K domains, always in the order of the run's list of domains. K-sized arrays are NumPy's, of
float64, counts of int64; a domain that a measurement does not cover is NaN in them, never 0.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.apportion import apportion
from pike_mixing.arrays import Array, Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.numerics.gradient_moments import variance_of_rows
from pike_mixing.settings import CheckedSettings

T = TypeVar("T")

State = dict[str, Array]
"""All that a method remembers. It lies in the checkpoint, so it holds NumPy arrays only."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a run knows before its first step, beside its settings."""

    tokens_by_domain: Mapping[str, float]
    """Training tokens of each domain's corpus."""
    budget_tokens: float
    """Tokens of the whole run: rows x length x steps."""
    mixture: Mapping[str, float] | None = None
    """Weights by domain that other runs found, where the method asks for them."""


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Gradient statistics of the K domains at one step, from `rows_K` rows each."""

    squared_norm_K: Floats
    """Plug-in estimate |g_k|^2 of the mean gradient of the rows; its bias is variance / rows."""
    squared_norm_unbiased_K: Floats
    """The same minus variance / rows; it can be negative."""
    variance_K: Floats
    """Trace of the covariance of one row's gradient (Assumption `as:assumption1`)."""
    loss_K: Floats
    """Mean loss in nats per token."""
    rows_K: Floats
    """Rows used."""

    @classmethod
    def of_rows(cls, gradients: Iterable[Floats], losses: Iterable[Floats]) -> Self:
        """The statistics of single rows' gradients.

        Args:
            gradients: For each of K domains [R, P]: the gradient of each of its rows.
            losses: For each domain [R]: the rows' losses, nats per token.

        Returns:
            NaN where a domain has no rows; without two rows, no variance.
        """
        measured = []
        for gradient_RxP, loss_R in zip(gradients, losses, strict=True):
            rows, mean_P = len(gradient_RxP), gradient_RxP.sum(axis=0) / max(len(gradient_RxP), 1)
            square = float(mean_P @ mean_P) if rows else np.nan
            degrees_of_freedom = rows - 1 if rows > 1 else np.nan
            squares = float((gradient_RxP**2).sum())
            variance = variance_of_rows(squares, square, rows, degrees_of_freedom)
            measured.append((square, variance, float(loss_R.mean()) if rows else np.nan, rows))
        return cls.of_moments(*np.array(measured, dtype=np.float64).T)

    @classmethod
    def of_moments(
        cls, squared_norm_K: Floats, variance_K: Floats, loss_K: Floats, rows_K: Floats
    ) -> Self:
        """With |g|^2 - sigma^2 / R, the unbiased estimate of the true squared norm.

        NaN where a domain was not measured, with 0 rows.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            unbiased_K = squared_norm_K - variance_K / rows_K
        return cls(squared_norm_K, unbiased_K, variance_K, loss_K, rows_K)


@dataclasses.dataclass(frozen=True)
class Signals:
    """What the loop measured. Only what the method needs is there; the rest is None.

    `loss_weights` and `combine` see the batch before the update, `observe` sees the whole step, or
    statistics alone when they are estimated before the batch is drawn. Statistics of the training
    batch are part of the step: what `observe` makes of them holds from the next step on.
    """

    step: int
    """0-based step."""
    batch_rows: int
    """Batch size b."""
    count_K: Ints | None = None
    """Rows of each domain in the training batch."""
    loss_K: Floats | None = None
    """Mean loss of each domain's rows in the training batch, nats per token."""
    gram_KxK: Floats | None = None
    """Inner products g_j . g_k of the gradients of the domains' mean losses on the batch."""
    statistics: Statistics | None = None
    """Gradient statistics, when due."""
    loss_after_K: Floats | None = None
    """`loss_K` of the same rows after the optimizer's update."""
    excess_K: Floats | None = None
    """Mean over each domain's tokens of max(l - l_reference, 0), before the update."""
    validation_loss_K: Floats | None = None
    """Mean loss of each domain's rows of comparison, nats per token, when due."""

    def contradictions(self, K: int) -> list[str]:
        """What cannot be true of K domains.

        A domain without a measurement is NaN; an infinite loss is a measurement that no method can
        follow. Statistics that are not finite count as none.
        """
        numbers = ("step", "batch_rows", "statistics")
        given = {n: v for n, v in vars(self).items() if v is not None and n not in numbers}
        if self.statistics is not None:
            given |= {f"statistics.{n}": v for n, v in vars(self.statistics).items()}
        found = [
            f"{n} is a {type(v).__module__}.{type(v).__name__}: give a NumPy array"
            for n, v in given.items()
            if not isinstance(v, np.ndarray)
        ]
        if found:
            return found
        shape = {"gram_KxK": (K, K)}
        found = [
            f"{n} has the shape {v.shape}, but the state is of {K} domains"
            for n, v in given.items()
            if v.shape != shape.get(n, (K,))
        ]
        if found:
            return found
        for n in ("loss_K", "loss_after_K", "excess_K", "validation_loss_K"):
            if n in given:
                infinite = np.flatnonzero(np.isinf(given[n]))
                found += [
                    f"{n} of the run's domain {k + 1} is {given[n][k]:g}: training diverges, lower "
                    "its learning rate"
                    for k in infinite
                ]
        if self.count_K is not None:
            if (self.count_K < 0).any():
                found.append(f"count_K: {self.count_K.tolist()} holds a negative count")
            if self.count_K.sum() != self.batch_rows:
                found.append(
                    f"count_K: {self.count_K.tolist()} sums to {self.count_K.sum():g}, but the "
                    f"batch has {self.batch_rows} rows (batch_rows)"
                )
        return found


@dataclasses.dataclass(frozen=True)
class _Due(CheckedSettings):
    """Steps at which something is measured."""

    first: int
    """The first of them."""
    every: int
    """Steps from one to the next (the paper's T_0)."""

    def problems(self) -> list[str]:
        """Steps that are none."""
        found = [] if self.first >= 0 else ["first: must not be negative"]
        return found + ([] if self.every >= 1 else ["every: must be at least 1"])

    def due(self, step: int) -> bool:
        """Whether step `step` measures."""
        return step >= self.first and (step - self.first) % self.every == 0


@dataclasses.dataclass(frozen=True)
class StatisticsNeed(_Due):
    """When and from which rows a method wants gradient statistics."""

    fresh: bool
    """From rows of their own stream, before the batch is drawn; else from the training batch."""
    rows: int
    """At least this many rows of each domain; fresh rows only."""


@dataclasses.dataclass(frozen=True)
class ValidationNeed(_Due):
    """When a method wants the domains' losses on rows of comparison, before the batch is drawn.

    They are the same at every look and come from a stream of their own through the training text,
    so that no method learns from what it is evaluated on.
    """

    rows: int
    """Rows of each domain."""


@dataclasses.dataclass(frozen=True)
class Needs:
    """The signals that a method wants; the loop computes nothing else."""

    losses: bool = False
    """Per-domain losses of every training batch, for `observe`."""
    statistics: StatisticsNeed | None = None
    """Gradient statistics, for `observe`."""
    gramian: bool = False
    """All K gradients of every batch and their inner products, for `combine` and `observe`."""
    weighs_losses: bool = False
    """Per-domain losses of every training batch before its backward pass, for `loss_weights`."""
    losses_after: bool = False
    """Per-domain losses of every training batch after the update, for `observe`."""
    reference: bool = False
    """Excess of every batch over a frozen reference model, for `loss_weights` and `observe`."""
    validation: ValidationNeed | None = None
    """Losses of each domain on its rows of comparison, for `observe`."""
    moments_per_domain: bool = False
    """An optimizer with moments for each domain, whose steps `combine` weighs by counts alone."""

    def missing(self, hook: str, signals: Signals) -> list[str]:
        """Signals that a hook must be given at this step and is not."""
        wanted = {
            "loss_weights": {"loss_K": self.weighs_losses, "excess_K": self.reference},
            "combine": {"gram_KxK": self.gramian, "count_K": self.moments_per_domain},
            "observe": {
                "loss_K": self.losses,
                "loss_after_K": self.losses_after,
                "gram_KxK": self.gramian,
                "excess_K": self.reference,
            },
        }[hook]
        early = signals.statistics is not None or signals.validation_loss_K is not None
        if hook == "observe" and early and signals.count_K is None:
            # Measured before the batch was drawn.
            return []
        wanted["count_K"] = wanted.get("count_K", False) or wanted.get("loss_K", False)
        due = self.statistics
        if hook == "observe" and due is not None and not due.fresh and due.due(signals.step):
            wanted["statistics"] = True
        return [
            f"{name} is missing: the method needs it (`needs`)"
            for name, needed in wanted.items()
            if needed and getattr(signals, name) is None
        ]


class Method(Protocol):
    """The four hooks of a mixing method, and what it asks for."""

    def problems(self) -> list[str]:
        """Reasons why the settings are unreasonable, each beginning with the setting's name."""

    def informed(self, facts: Facts) -> Self:
        """The method with what its settings left to the run; called once, before `init`.

        Raises:
            InputError: the run does not know it either.
        """

    def needs(self) -> Needs:
        """The signals to measure."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The state before step 0.

        Raises:
            InputError: a setting names a domain that is not there, or misses one.
        """

    def weights(self, state: State, step: int) -> Floats:
        """Sampling weights w_K of a step, non-negative, summing to 1."""

    def allocate(self, state: State, step: int, b: int) -> Ints:
        """Rows b_K (int64) of each domain in the batch of a step, summing to b."""

    def loss_weights(self, state: State, signals: Signals) -> Floats | None:
        """Weights of the domains' mean losses in the training loss; None: b_k / b."""

    def combine(self, state: State, signals: Signals) -> Floats | None:
        """Coefficients c_K of the update sum_k c_k g_k; None: b_k / b."""

    def observe(self, state: State, signals: Signals) -> State:
        """The next state, given what was measured."""

    def proposed(self, statistics: Statistics, b: int) -> dict[str, float]:
        """Settings by name, each of which alone would move one domain's odds by 10 % an update."""


def _judging(
    name: str, hook: Callable[[Any, State, Signals], T]
) -> Callable[[Any, State, Signals], T]:
    @functools.wraps(hook)
    def judged(self: Any, state: State, signals: Signals) -> T:
        K = len(self.weights(state, signals.step))
        problems = self.needs().missing(name, signals) + signals.contradictions(K)
        if problems:
            where = f"{type(self).__name__}.{name}, step {signals.step}"
            raise InputError("\n".join(f"{where}: {problem}" for problem in problems))
        # What is not measured, or beyond a float64, is in the result: nothing to warn of.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return hook(self, state, signals)

    return judged


class MethodDefaults(CheckedSettings):
    """The answers of a method that does not act in a place.

    Its settings are judged when it is made. Signals are judged before a hook sees them: an
    InputError names those that are missing, infinite, or contradict each other.
    """

    def __init_subclass__(cls) -> None:
        """Puts the judgement of signals before the class's own hooks."""
        for name in ("loss_weights", "combine", "observe"):
            if name in vars(cls):
                setattr(cls, name, _judging(name, vars(cls)[name]))

    def informed(self, facts: Facts) -> Self:
        """The settings say it all."""
        return self

    def needs(self) -> Needs:
        """Nothing is measured."""
        return Needs()

    def weights(self, state: State, step: int) -> Floats:
        """Those of the state."""
        return state["weights_K"]

    def allocate(self, state: State, step: int, b: int) -> Ints:
        """The weights' shares of b rows, rounded by largest remainder."""
        return apportion(self.weights(state, step), b)

    def loss_weights(self, state: State, signals: Signals) -> Floats | None:
        """Equation `eq: mix_framework`: each domain counts by its share of the batch."""
        return None

    def combine(self, state: State, signals: Signals) -> Floats | None:
        """Equation `eq: mix_framework`: gradients add up by their share of the batch."""
        return None

    def observe(self, state: State, signals: Signals) -> State:
        """The state stays."""
        return state

    def proposed(self, statistics: Statistics, b: int) -> dict[str, float]:
        """Nothing follows from statistics."""
        return {}


def uniform(k: int) -> Floats:
    """Weights 1/K."""
    return np.full(k, 1 / k)


def begun(prior: Mapping[str, float] | None, domains: tuple[str, ...]) -> Floats:
    """The weights of a setting `prior`, divided by their sum; 1/K without one.

    Raises:
        InputError: it names a domain that is not there, or misses one.
    """
    return uniform(len(domains)) if prior is None else by_domain.ordered(prior, domains, "prior")
