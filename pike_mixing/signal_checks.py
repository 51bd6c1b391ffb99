"""What goes into the hooks of a method, and what comes out of them, before it is used.

Signals may contradict each other, or lack what a method needs; answers may be none.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from pike_mixing.arrays import Ints
from pike_mixing.errors import refuse
from pike_mixing.signals import Needs, Signals, State

T = TypeVar("T")

OF_BATCH = ("loss_K", "loss_after_K", "excess_K")
"""Losses of the rows that `count_K` counts."""
LOSSES = (*OF_BATCH, "validation_loss_K")
"""Those of `Signals`."""


def checked(
    name: str, hook: Callable[[Any, State, Signals], T]
) -> Callable[[Any, State, Signals], T]:
    """The hook of this name; an InputError tells all that is wrong with its signals, or answer."""

    @functools.wraps(hook)
    def judged(self: Any, state: State, signals: Signals) -> T:
        K = len(self.weights(state, signals.step))
        where = f"{type(self).__name__}.{name}, step {signals.step}"
        _refuse(where, missing(self.needs(), name, signals) + contradictions(signals, K))
        # What is not measured, or beyond a float64, is in the result: nothing to warn of.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            answer = hook(self, state, signals)
        _refuse(where, no_state(answer) if name == "observe" else no_numbers(answer, signals, K))
        return answer

    return judged


def answering(name: str, hook: Callable[..., T]) -> Callable[..., T]:
    """The hook `init` or `needs`, whose answer is judged in the same way."""

    @functools.wraps(hook)
    def judged(self: Any, *given: Any, **named: Any) -> T:
        answer = hook(self, *given, **named)
        problems = no_state(answer) if name == "init" else []
        if name == "needs" and not isinstance(answer, Needs):
            problems = [f"it gives a {_kind(answer)}: return pike_mixing.Needs(...)"]
        _refuse(f"{type(self).__name__}.{name}", problems)
        return answer

    return judged


def _refuse(where: str, problems: list[str]) -> None:
    refuse([f"{where}: {problem}" for problem in problems])


def no_state(answer: Any) -> list[str]:
    """Why a checkpoint cannot hold what a hook gives as the state."""
    if not isinstance(answer, Mapping):
        return [f"the state is a {_kind(answer)}: return a dictionary of NumPy arrays"]
    return [
        f"{name!r} of the state is a {_kind(value)}: give a NumPy array of numbers"
        for name, value in answer.items()
        if getattr(getattr(value, "dtype", None), "kind", "") not in ("b", "i", "u", "f")
    ]


def no_numbers(answer: Any, signals: Signals, K: int) -> list[str]:
    """Why what `loss_weights` or `combine` gives cannot be a number of each domain with rows."""
    if answer is None:
        return []
    if not isinstance(answer, np.ndarray) or answer.shape != (K,):
        return [f"it gives {answer}: give a NumPy array of {K} numbers, or None"]
    used_K = np.ones(K, bool) if signals.count_K is None else signals.count_K > 0
    if np.isfinite(answer[used_K]).all():
        return []
    return [f"it gives {answer.tolist()}: a domain with rows needs a finite number"]


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")


def missing(needs: Needs, hook: str, signals: Signals) -> list[str]:
    """Signals that a hook must be given at this step and is not.

    Args:
        needs: Of the method.
        hook: loss_weights, combine or observe.
        signals: Those of the step.
    """
    early = signals.statistics is not None or signals.validation_loss_K is not None
    if hook == "observe" and early and signals.count_K is None:
        # Measured before the batch was drawn.
        return []
    wanted = {
        "loss_weights": {"loss_K": needs.weighs_losses, "excess_K": needs.reference},
        "combine": {
            "loss_K": needs.losses and needs.gramian,
            "gram_KxK": needs.gramian,
            "count_K": needs.moments_per_domain,
        },
        "observe": {
            "loss_K": needs.losses,
            "loss_after_K": needs.losses_after,
            "gram_KxK": needs.gramian,
            "excess_K": needs.reference,
        },
    }[hook]
    wanted["count_K"] = wanted.get("count_K", False) or wanted.get("loss_K", False)
    wanted["statistics"] = hook == "observe" and needs.batch_statistics(signals.step)
    return [
        f"{name} is missing: the method needs it (`needs`)"
        for name, needed in wanted.items()
        if needed and getattr(signals, name) is None
    ]


def contradictions(signals: Signals, K: int) -> list[str]:
    """What cannot be true of K domains.

    A domain without rows is NaN; a loss that is infinite, or NaN although the batch has rows of the
    domain, is one that no method can follow. Statistics that are not finite count as none.
    """
    numbers = ("step", "batch_rows", "statistics")
    given = {n: v for n, v in vars(signals).items() if v is not None and n not in numbers}
    if signals.statistics is not None:
        given |= {f"statistics.{n}": v for n, v in vars(signals.statistics).items()}
    problems = []
    for name, value in given.items():
        if not isinstance(value, np.ndarray):
            problems.append(f"{name} is a {_kind(value)}: give a NumPy array")
        elif value.shape != ((K, K) if name == "gram_KxK" else (K,)):
            problems.append(f"{name} has the shape {value.shape}, but the state is of {K} domains")
        elif name in LOSSES:
            problems += [
                f"{name} of the run's domain {k + 1} is {value[k]:g}: training diverges, lower its "
                "learning rate"
                for k in np.flatnonzero(np.isinf(value))
            ]
    if problems or signals.count_K is None:
        return problems
    count_K, b = signals.count_K, signals.batch_rows
    if (count_K < 0).any():
        problems.append(f"count_K: {count_K.tolist()} holds a negative count")
    if count_K.sum() != b:
        problems.append(
            f"count_K: {count_K.tolist()} sums to {count_K.sum():g}, but the batch has {b} rows "
            "(batch_rows)"
        )
    return problems + _lost(signals, count_K)


def _lost(signals: Signals, count_K: Ints) -> list[str]:
    """Measurements of rows of the batch that are no number."""
    measured = {name: getattr(signals, name) for name in OF_BATCH}
    if signals.gram_KxK is not None:
        measured["gram_KxK"] = signals.gram_KxK.diagonal()
    return [
        f"{name} of the run's domain {k + 1} is nan, but the batch has {count_K[k]:g} rows of it: "
        "training diverges, lower its learning rate"
        for name, value_K in measured.items()
        if value_K is not None
        for k in np.flatnonzero(np.isnan(value_K) & (count_K > 0))
    ]
