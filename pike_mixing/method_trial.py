"""A method is tried without a model: a few steps whose signals are made up.

What a class of one's own gets wrong shows in a moment, and not in the first steps of each training.

Shapes: K domains, P numbers of a gradient, R rows.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import (
    Method,
    Needs,
    Rounding,
    RunFacts,
    Signals,
    State,
    Statistics,
    has_own_allocation,
    observes_step,
    refuse_unused_needs,
    rows_of_domains,
)

P = 8
ABSENT_AT = 1
"""The step at which a domain has no rows."""


def assumed_run_facts(domains: Sequence[str], budget: int, steps: int) -> RunFacts:
    """As if all corpora were large and of one size, and other runs had found equal weights."""
    sizes, equal = dict.fromkeys(domains, float(budget)), dict.fromkeys(domains, 1 / len(domains))
    return RunFacts(sizes, budget_tokens=budget, mixture=equal, steps=steps)


def try_method(
    method: Method,
    domains: tuple[str, ...],
    b: int,
    *,
    rounding: Rounding = "largest-remainder",
    steps: int,
    absent: bool = False,
) -> None:
    """Begins a method and calls its hooks as a training would, with what `needs` asks for.

    Args:
        method: A rule with its settings, after `for_run`.
        domains: Names of the K domains.
        b: Rows of a batch.
        rounding: From weights to whole rows.
        steps: Steps of the training; a few of them are tried, with those that measure.
        absent: Whether a domain has no rows at the second step, and NaN in what is measured of
            them; not where the method deals the rows itself.

    Raises:
        InputError: signals, weights or answers are not as they must be. What the class itself
            raises is not caught.
    """
    refuse_unused_needs(method)
    draw, K, needs = np.random.default_rng(0), len(domains), method.needs()
    state = method.init(domains, seed=0)
    rows_of_domains(method, state, 0, b, rounding, K)
    takes_away = absent and K > 1 and not has_own_allocation(method)
    for step in _steps_to_try(needs, steps):
        state = _observe_before_step(method, state, step, b, rounding, draw, domains)
        count_K = rows_of_domains(method, state, step, b, rounding, K)
        if not (takes_away and step == ABSENT_AT):
            state = _observe_step(method, state, step, count_K, draw)
            continue
        k = int(count_K.argmin())
        moved_K = count_K.copy()
        moved_K[[k, int(count_K.argmax())]] = 0, count_K[k] + count_K.max()
        try:
            state = _observe_step(method, state, step, moved_K, draw)
        except InputError as error:
            raise InputError(
                f"{error} (at this step the batch has no row of {domains[k]!r}, so that what is "
                "measured of it is NaN: let its last number count, as docs/your-method.md shows)"
            ) from error


def _steps_to_try(needs: Needs, steps: int) -> list[int]:
    """The first four, and those around the first two that measure at intervals."""
    intervals = [due for due in (needs.statistics, needs.validation) if due is not None]
    measuring = [due.first + due.every * n for due in intervals for n in (0, 1)]
    around = [step + near for step in measuring for near in (-1, 0, 1)]
    return sorted(step for step in {*range(4), *around} if 0 <= step < steps)


def _observe_before_step(
    method: Method,
    state: State,
    step: int,
    b: int,
    rounding: Rounding,
    draw: np.random.Generator,
    domains: tuple[str, ...],
) -> State:
    """The state after what is measured before the step's rows are drawn."""
    due, compared = method.needs().statistics, method.needs().validation
    if due is not None and due.fresh and due.is_due(step):
        count_K = rows_of_domains(method, state, step, b, rounding, len(domains)).clip(due.rows)
        statistics, gram_KxK = _made_up_statistics_and_gram(count_K, step, draw)
        gram = gram_KxK if due.inner_products else None
        state = method.observe(state, Signals(step, b, statistics=statistics, gram_KxK=gram))
    if compared is not None and compared.is_due(step):
        loss_K = _made_up_losses(np.ones(len(domains)), step, draw)
        state = method.observe(state, Signals(step, b, validation_loss_K=loss_K))
    return state


def _observe_step(
    method: Method, state: State, step: int, count_K: Ints, draw: np.random.Generator
) -> State:
    """The state after a step: what weighs losses or gradients is asked, too."""
    needs = method.needs()
    statistics, gram_KxK = _made_up_statistics_and_gram(count_K, step, draw)
    loss_K = statistics.loss_K
    measured = Signals(
        step,
        int(count_K.sum()),
        count_K,
        loss_K,
        gram_KxK,
        statistics if needs.has_batch_statistics(step) else None,
        loss_after_K=loss_K * 0.99 if needs.losses_after else None,
        excess_K=loss_K / 10 if needs.reference else None,
    )
    if not needs.gramian:
        measured = dataclasses.replace(measured, gram_KxK=None)
    before = dataclasses.replace(measured, statistics=None, loss_after_K=None)
    if needs.gramian or needs.moments_per_domain:
        has_losses = needs.gramian and needs.losses
        before = before if has_losses else dataclasses.replace(before, loss_K=None)
        method.gradient_coefficients(state, before)
    else:
        before = before if needs.weighs_losses else dataclasses.replace(before, loss_K=None)
        method.loss_weights(state, before)
    if not observes_step(method, step):
        return state
    if not needs.losses:
        measured = dataclasses.replace(measured, loss_K=None)
    return method.observe(state, measured)


def _made_up_statistics_and_gram(
    count_K: Ints, step: int, draw: np.random.Generator
) -> tuple[Statistics, Floats]:
    """Statistics of made-up gradients of rows, and the domains' inner products."""
    of_rows = [draw.normal(1, 1, (count, P)) for count in count_K.tolist()]
    loss_K = _made_up_losses(count_K, step, draw)
    losses = [np.full(len(one), loss) for one, loss in zip(of_rows, loss_K, strict=True)]
    mean_KxP = np.stack([one.mean(axis=0) if len(one) else np.full(P, np.nan) for one in of_rows])
    return Statistics.of_rows(of_rows, losses), mean_KxP @ mean_KxP.T


def _made_up_losses(count_K: Floats | Ints, step: int, draw: np.random.Generator) -> Floats:
    """Losses that fall from about 4 nats per token; NaN of a domain without rows."""
    loss_K = 2 + (2 + draw.random(len(count_K))) * 0.999**step
    return np.where(count_K > 0, loss_K, np.nan)
