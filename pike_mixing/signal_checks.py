"""What goes into the hooks of a method, and what comes out of them, before it is used.

Signals may contradict each other, or lack what a method needs; answers may be none.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from pike_mixing.arrays import Ints
from pike_mixing.errors import refuse
from pike_mixing.signals import Needs, Signals, State, Statistics

T = TypeVar("T")

OF_BATCH = ("loss_K", "loss_after_K", "excess_K")
"""Losses of the rows that `count_K` counts."""
LOSSES = (*OF_BATCH, "validation_loss_K")
"""Those of `Signals`."""
COUNTS = ("statistics.rows_K", "count_K")
LARGEST_SEED = 2**63 - 1
"""What an int64 of a state holds."""


def with_checked_signals_and_answer(
    hook_name: str, hook: Callable[[Any, State, Signals], T]
) -> Callable[[Any, State, Signals], T]:
    """The hook of this name; an InputError tells all that is wrong with its signals, or answer."""

    @functools.wraps(hook)
    def checked_hook(self: Any, state: State, signals: Signals) -> T:
        where = f"{type(self).__name__}.{hook_name}, step {signals.step}"
        _refuse_problems(where, signal_type_problems(signals))
        signals = signals_in_64_bits(signals)
        K = len(self.weights(state, signals.step))
        _refuse_problems(
            where,
            missing_signal_problems(self.needs(), hook_name, signals)
            + contradiction_problems(signals, K),
        )
        # What is not measured, or beyond a float64, is in the result: nothing to warn of.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            answer = hook(self, state, signals)
        if hook_name != "observe":
            _refuse_problems(where, domain_factor_problems(answer, signals, K))
            return answer
        _refuse_problems(where, state_problems(answer))
        weights_K = self.weights(answer, signals.step + 1)
        if problem := share_problem(weights_K, K, total=1.0):
            remedy = _weights_remedy(weights_K, signals)
            _refuse_problems(where, [f"the next weights: {problem}{remedy}"])
        return answer

    return checked_hook


def with_checked_init(hook: Callable[..., State]) -> Callable[..., State]:
    """The hook `init`; an InputError tells what is wrong with its arguments, or its state."""

    @functools.wraps(hook)
    def checked_init(self: Any, *given: Any, **named: Any) -> State:
        where = f"{type(self).__name__}.init"
        _refuse_problems(where, start_problems(*given, **named))
        state = hook(self, *given, **named)
        _refuse_problems(where, state_problems(state))
        return state

    return checked_init


def with_checked_needs(hook: Callable[[Any], Needs]) -> Callable[[Any], Needs]:
    """The hook `needs`; an InputError tells that what it gives is none."""

    @functools.wraps(hook)
    def checked_needs(self: Any) -> Needs:
        answer: Any = hook(self)
        if not isinstance(answer, Needs):
            problem = f"it gives a {_class_text(answer)}: return pike_mixing.Needs(...)"
            _refuse_problems(f"{type(self).__name__}.needs", [problem])
        return answer

    return checked_needs


def _refuse_problems(place: str, problems: list[str]) -> None:
    refuse([f"{place}: {problem}" for problem in problems])


def start_problems(domains: Any, seed: Any) -> list[str]:
    """Why a method cannot begin with these domains and this seed."""
    problems = []
    if not len(domains):
        problems.append("domains: there is none: name at least one")
    if isinstance(domains, str) or not all(isinstance(name, str) for name in domains):
        problems.append(f"domains: {domains!r}: give a tuple of names")
    elif len(set(domains)) < len(domains):
        problems.append(f"domains: {domains!r} holds a name twice")
    if not _is_whole_number(seed) or not 0 <= seed <= LARGEST_SEED:
        problems.append(f"seed: {seed!r} must be a whole number from 0 to {LARGEST_SEED}")
    return problems


def state_problems(answer: Any) -> list[str]:
    """Why a checkpoint cannot hold what a hook gives as the state."""
    if not isinstance(answer, Mapping):
        return [f"the state is a {_class_text(answer)}: return a dictionary of NumPy arrays"]
    return [
        f"{name!r} of the state is {_kind_with_article(value)}: give a NumPy array of numbers"
        for name, value in answer.items()
        if not (isinstance(value, np.generic) or _is_exact_ndarray(value))
        or value.dtype.kind not in "biuf"
        or value.dtype.itemsize > 8
    ]


def domain_factor_problems(answer: Any, signals: Signals, K: int) -> list[str]:
    """Why a hook's answer cannot be a number of each domain with rows."""
    if answer is None:
        return []
    if not _is_exact_ndarray(answer) or answer.dtype.kind not in "iuf" or answer.shape != (K,):
        return [f"it gives {answer}: give a NumPy array of {K} numbers, or None"]
    used_K = np.ones(K, bool) if signals.count_K is None else signals.count_K > 0
    if np.isfinite(answer[used_K]).all():
        return []
    return [f"it gives {answer.tolist()}: a domain with rows needs a finite number"]


def share_problem(share_K: Any, K: int, total: float) -> str | None:
    """What is wrong with what each of K domains has of a total."""
    if not _is_exact_ndarray(share_K) or share_K.dtype.kind not in "iuf":
        return f"{share_K} is {_kind_with_article(share_K)}: give a NumPy array of numbers"
    if share_K.shape != (K,):
        return f"the shape is {share_K.shape}, but there are {K} domains"
    if not np.min(share_K) >= 0 or not abs(np.sum(share_K) - total) < 1e-6:
        return f"{share_K} must be numbers that are not negative and sum to {total:g}"
    return None


def _weights_remedy(weights_K: Any, signals: Signals) -> str:
    """What to do about a rule's next weights, where their numbers alone are wrong."""
    if not _is_exact_ndarray(weights_K) or weights_K.dtype.kind not in "iuf" or weights_K.ndim != 1:
        return ""
    total = float(np.sum(weights_K))
    if np.isfinite(total) and total > 0 and np.min(weights_K) >= 0:
        return f": the rule's weights sum to {total:.9g}: have it divide them by their sum"
    unseen = 0 if signals.loss_K is None else int(np.isnan(signals.loss_K).sum())
    if unseen and np.isnan(total):
        return (
            f": {unseen} of {len(weights_K)} domains had no row at this step, and their loss is "
            "NaN: if the rule is yours, have it keep the last loss of such a domain"
        )
    return (
        ": if the rule is yours, it divides by 0 or subtracts too much; else the signals are too "
        "large or too small, as those of a training that diverges"
    )


def _is_exact_ndarray(value: Any) -> bool:
    """Whether it is an array of NumPy's own class: masked ones hide numbers, matrices multiply."""
    return type(value) is np.ndarray


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _kind_with_article(value: Any) -> str:
    """A value's kind in words; of an array that of its numbers."""
    return f"an array of {value.dtype}" if _is_exact_ndarray(value) else f"a {_class_text(value)}"


def _class_text(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")


def missing_signal_problems(needs: Needs, hook: str, signals: Signals) -> list[str]:
    """Signals of the step that a hook of a method with these needs must be given and is not."""
    early = signals.statistics is not None or signals.validation_loss_K is not None
    if hook == "observe" and early and signals.count_K is None:
        # Measured before the batch was drawn.
        return []
    wanted = {
        "loss_weights": {"loss_K": needs.weighs_losses, "excess_K": needs.reference},
        "gradient_coefficients": {
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
    wanted["statistics"] = hook == "observe" and needs.has_batch_statistics(signals.step)
    return [
        f"{name} is missing: the method needs it (`needs`)"
        for name, needed in wanted.items()
        if needed and getattr(signals, name) is None
    ]


def _measured_arrays(signals: Signals) -> dict[str, Any]:
    """What was measured, by name; statistics by `statistics.` and theirs."""
    numbers = ("step", "batch_rows", "statistics")
    given = {n: v for n, v in vars(signals).items() if v is not None and n not in numbers}
    if isinstance(signals.statistics, Statistics):
        given |= {f"statistics.{n}": v for n, v in vars(signals.statistics).items()}
    return given


def signal_type_problems(signals: Signals) -> list[str]:
    """What of the signals is no array of numbers, or no whole number."""
    least = {"step": 0, "batch_rows": 1}
    problems = [
        f"{name}: {value!r} must be a whole number, at least {least[name]}"
        for name, value in vars(signals).items()
        if name in least and not (_is_whole_number(value) and value >= least[name])
    ]
    if not isinstance(signals.statistics, Statistics | None):
        problems.append(f"statistics is a {_class_text(signals.statistics)}: give a Statistics")
    return problems + [
        f"{name} is {_kind_with_article(value)}: give a NumPy array of float64, of counts int64"
        for name, value in _measured_arrays(signals).items()
        if not _is_exact_ndarray(value) or value.dtype.kind not in "iuf"
    ]


def signals_in_64_bits(signals: Signals) -> Signals:
    """The signals in float64, whatever numbers they were: squares of a float16 overflow.

    Counts of whole numbers become int64: an unsigned one less 1 could be huge.
    """

    def cast_all(holder: Any) -> dict[str, Any]:
        return {
            name: value.astype(np.float64, copy=False) if isinstance(value, np.ndarray) else value
            for name, value in vars(holder).items()
        }

    values = cast_all(signals)
    if signals.statistics is not None:
        values["statistics"] = dataclasses.replace(
            signals.statistics, **cast_all(signals.statistics)
        )
    if signals.count_K is not None and signals.count_K.dtype.kind in "iu":
        values["count_K"] = signals.count_K.astype(np.int64, copy=False)
    return dataclasses.replace(signals, **values)


def contradiction_problems(signals: Signals, K: int) -> list[str]:
    """What cannot be true of K domains.

    A domain without rows is NaN; a loss that is infinite, or NaN although the batch has rows of the
    domain, is one that no method can follow. Statistics that are not finite count as none.
    """
    problems = []
    for name, value in _measured_arrays(signals).items():
        if value.shape != ((K, K) if name == "gram_KxK" else (K,)):
            problems.append(f"{name} has the shape {value.shape}, but the state is of {K} domains")
        elif name in LOSSES:
            problems += [
                f"{name} of the run's domain {k + 1} is {value[k]:g}: training diverges, lower its "
                "learning rate"
                for k in np.flatnonzero(np.isinf(value))
            ]
        elif name in COUNTS or name == "gram_KxK":
            square_K = value.diagonal() if name == "gram_KxK" else value
            problems += [
                f"{name} of the run's domain {k + 1} is {square_K[k]:g}: it cannot be negative"
                for k in np.flatnonzero(square_K < 0)
            ]
    if problems or signals.count_K is None:
        return problems
    count_K, b = signals.count_K, signals.batch_rows
    if (count_K % 1).any():
        problems.append(f"count_K: {count_K.tolist()} must be whole numbers")
    if count_K.sum() != b:
        problems.append(
            f"count_K: {count_K.tolist()} sums to {count_K.sum():g}, but the batch has {b} rows "
            "(batch_rows)"
        )
    return problems + _present_domain_nan_problems(signals, count_K)


def _present_domain_nan_problems(signals: Signals, count_K: Ints) -> list[str]:
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
