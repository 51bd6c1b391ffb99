"""The places where a mixing method acts on training.

A method is a frozen dataclass of settings with pure functions over an explicit state. The loop
calls `allocate`, `loss_weights`, `gradient_coefficients` and `observe` of every method and never
asks which one it runs; a method that does not act in a place inherits the neutral answer of
`Method`.

Shapes: K domains, as in `pike_mixing.signals`.
"""

import abc
import inspect
from typing import Literal, Self

import numpy as np

from pike_mixing.apportion import apportion, apportion_over_steps
from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.settings import CheckedSettings
from pike_mixing.signal_checks import (
    share_problem,
    with_checked_init,
    with_checked_needs,
    with_checked_signals_and_answer,
)
from pike_mixing.signals import Needs as Needs
from pike_mixing.signals import RunFacts as RunFacts
from pike_mixing.signals import Signals as Signals
from pike_mixing.signals import State as State
from pike_mixing.signals import Statistics as Statistics
from pike_mixing.signals import StatisticsNeed as StatisticsNeed
from pike_mixing.signals import ValidationNeed as ValidationNeed

Rounding = Literal["largest-remainder", "systematic"]
"""From weights to whole rows: nearest at each step, or right on average over the steps. A method
with an `allocate` of its own decides itself."""


class Method(CheckedSettings, abc.ABC):
    """The hooks of a mixing method; a frozen dataclass of settings that inherits this.

    Only `init` must be defined: each other hook has the answer of a method that does not act in its
    place. Settings are judged when a method is made, signals before a hook sees them: an InputError
    names those that are missing, contradict each other, or are no finite number.
    """

    def __init_subclass__(cls) -> None:
        """Puts the judgement of signals and of answers around the class's own hooks.

        Raises:
            InputError: a setting has the name of a hook, in whose place it would stand.
        """
        for name in inspect.get_annotations(cls):
            if callable(getattr(Method, name, None)):
                raise InputError(
                    f"{cls.__name__}.{name}: that is a hook of Method: rename the field"
                )
        for name in ("loss_weights", "gradient_coefficients", "observe"):
            if name in vars(cls):
                setattr(cls, name, with_checked_signals_and_answer(name, vars(cls)[name]))
        for name, checked in (("init", with_checked_init), ("needs", with_checked_needs)):
            if name in vars(cls):
                setattr(cls, name, checked(vars(cls)[name]))

    def __post_init__(self) -> None:
        """Judges the settings.

        Raises:
            InputError: one is of the wrong type or unreasonable, or the class is not frozen.
        """
        # Nothing public of dataclasses tells it, and mypy does not know this.
        if not type(self).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            raise InputError(
                f"{type(self).__name__} can change its settings, which no checkpoint holds: write "
                "@dataclasses.dataclass(frozen=True), and keep in the state what changes"
            )
        super().__post_init__()

    def for_run(self, facts: RunFacts) -> Self:
        """The method with what its settings left to the run; called once, before `init`.

        Raises:
            InputError: the run does not know it either.
        """
        return self

    def needs(self) -> Needs:
        """The signals to measure: none."""
        return Needs()

    @abc.abstractmethod
    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The state before step 0.

        Raises:
            InputError: a setting names a domain that is not there, or misses one.
        """

    def weights(self, state: State, step: int) -> Floats:
        """Sampling weights w_K of a step, non-negative, summing to 1: those of the state.

        Raises:
            InputError: the state has none.
        """
        if "weights_K" not in state:
            raise InputError(
                f"{type(self).__name__}: the state has no weights_K: have init and observe give "
                "it, or define weights"
            )
        return state["weights_K"]

    def allocate(self, state: State, step: int, b: int) -> Ints:
        """Rows b_K (int64) of each domain in a step's batch of b rows: by largest remainder.

        Args:
            state: The method's state.
            step: 0-based step.
            b: Rows of the batch.
        """
        return apportion(self.weights(state, step), b)

    def loss_weights(self, state: State, signals: Signals) -> Floats | None:
        """Weights of the domains' mean losses in the training loss.

        None: b_k / b, as in equation `eq: mix_framework`.
        """
        return None

    def gradient_coefficients(self, state: State, signals: Signals) -> Floats | None:
        """Coefficients c_K of the update sum_k c_k g_k; None: b_k / b."""
        return None

    def observe(self, state: State, signals: Signals) -> State:
        """The next state, given what was measured."""
        return state

    def proposed_settings(self, statistics: Statistics, b: int) -> dict[str, float]:
        """Settings by name, each of which alone would move one domain's odds by 10 % an update."""
        return {}


def has_own_allocation(method: Method) -> bool:
    """Whether a method makes whole rows of its weights itself, whatever the rounding."""
    return type(method).allocate is not Method.allocate


def refuse_unused_needs(method: Method) -> None:
    """Refuses a method that has something measured, and no hook that would see it.

    Raises:
        InputError: it is so; a single function of the class beside the hooks is named.
    """
    kind, hooks = type(method), ("observe", "loss_weights", "gradient_coefficients")
    if method.needs() == Needs() or any(getattr(kind, h) is not getattr(Method, h) for h in hooks):
        return
    own = [name for base in kind.__mro__ for name, value in vars(base).items() if callable(value)]
    near = [one for one in own if not (one.startswith("_") or hasattr(Method, one))]
    meant = f" ({near[0]} is no hook: did you mean observe?)" if len(near) == 1 else ""
    raise InputError(
        f"{kind.__name__}: `needs` asks for measurements, and no `observe` uses them: define "
        f"it{meant}"
    )


def observes_step(method: Method, step: int) -> bool:
    """Whether a method sees, at a step's end, what the step measured."""
    needs = method.needs()
    if needs.losses or needs.gramian or needs.losses_after or needs.reference:
        return True
    # A rule that only remembers, such as what was read, waits for no interval.
    remembers = type(method).observe is not Method.observe
    at_intervals = needs.statistics is not None or needs.validation is not None
    return (remembers and not at_intervals) or needs.has_batch_statistics(step)


def rows_of_domains(
    method: Method, state: State, step: int, b: int, rounding: Rounding, K: int
) -> Ints:
    """Rows b_K (int64) of each domain in a step's batch of b rows.

    Args:
        method: A rule with its settings.
        state: Its state.
        step: 0-based step.
        b: Rows of the batch.
        rounding: From weights to whole rows, where the method has no `allocate` of its own.
        K: Domains.

    Raises:
        InputError: the method's weights, or its counts, are not of K domains, or do not add up.
    """
    weights_K = method.weights(state, step)
    if problem := share_problem(weights_K, K, total=1.0):
        raise InputError(f"{type(method).__name__}.weights, step {step}: {problem}")
    if rounding == "systematic" and not has_own_allocation(method):
        return apportion_over_steps(weights_K, b, step)
    count_K = method.allocate(state, step, b)
    problem = share_problem(count_K, K, total=b)
    if problem or (count_K % 1).any():
        told = problem or f"{count_K} must be whole numbers"
        raise InputError(f"{type(method).__name__}.allocate, step {step}: {told}")
    return count_K.astype(np.int64)
