"""Whether a training loop gives what a method wants."""

import dataclasses
from typing import Any, get_args

import numpy as np
from torch import Tensor, nn

from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Rounding, RunFacts
from pike_mixing.registry import make
from pike_mixing.torch import parallel, rows
from pike_mixing.torch.losses import RowLosses
from pike_mixing.torch.mixed_dataset import MixedDataset
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.passes import Passes
from pike_mixing.torch.rows import Rows


def fit_method(
    method: Method | str,
    facts: RunFacts | None,
    *,
    has_losses: bool,
    has_excess: bool,
    has_moments: bool,
) -> Method:
    """The method with what the run knows.

    Args:
        method: The method, or the name of one without settings.
        facts: Sizes and budget, for methods that ask for them.
        has_losses: Whether there is a function for the loss of each row.
        has_excess: Whether there is one for the excess of each row over a reference.
        has_moments: Whether the optimizer takes the gradient of each domain.

    Raises:
        InputError: it is no method, or one of these is missing.
    """
    method = make(method) if isinstance(method, str) else method
    if not isinstance(method, Method):
        name = method.__name__ if isinstance(method, type) else "ScaleFreePiKE"
        raise InputError(f"method: {method!r} is none with settings: give, for one, {name}(...)")
    if not dataclasses.is_dataclass(method):
        raise InputError(
            f"method: {type(method).__name__} is no dataclass: put @dataclasses.dataclass("
            "frozen=True) before the class"
        )
    method = method if facts is None else method.for_run(facts)
    needs, name = method.needs(), type(method).__name__
    if needs.moments_per_domain and not has_moments:
        raise InputError(
            f"{name} needs an optimizer with moments for each domain: give `optimizer`, a "
            "pike_mixing.torch.PerDomainAdamW, and train with it"
        )
    if needs.reference and not has_excess:
        raise InputError(
            f"{name} needs a frozen reference model: give `excess_fn(model, rows)`, the excess of "
            "each row's loss over the reference's (for a causal language model: "
            "pike_mixing.torch.causal_excess(reference))"
        )
    if needs.passes() and not has_losses:
        raise InputError(
            f"{name} measures losses or gradients: give `loss_fn(model, rows)`, the loss of each "
            "row (for a causal language model: pike_mixing.torch.causal_losses)"
        )
    return method


def refuse_dataset(dataset: Any) -> None:
    """Refuses what no method can mix.

    Raises:
        InputError: it is no MixedDataset, or one with weights of its own, which nobody would read.
    """
    if not isinstance(dataset, MixedDataset):
        raise InputError(f"dataset: give a MixedDataset, not a {type(dataset).__name__}")
    weights_K = dataset.given_weights
    if weights_K is not None and not np.allclose(weights_K, 1 / len(weights_K)):
        raise InputError(
            f"dataset: it has the weights {weights_K.tolist()}, but the method sets them: leave "
            "`weights` (`probabilities`) away, or take the method "
            "Fixed(weights_by_domain={...}) with them"
        )


def refuse_numbers(
    rounding: str, latency: int, statistics_micro_batch: int, max_norm: float
) -> None:
    """Refuses settings of a Mixing that are out of their limits; its docstring has them.

    Raises:
        InputError: one is.
    """
    if rounding not in get_args(Rounding):
        raise InputError(f"rounding: {rounding!r}: take {' or '.join(get_args(Rounding))}")
    if latency < 0:
        raise InputError(f"latency: {latency} must not be negative")
    if statistics_micro_batch < 1:
        raise InputError(f"statistics_micro_batch: {statistics_micro_batch} must be at least 1")
    if not max_norm > 0:
        raise InputError(f"max_norm: {max_norm} must be positive; leave it away not to clip")


def refuse_shared_rows(place: tuple[int, int], group: Group) -> None:
    """Refuses a data set's place and a group that disagree on who has rows of its own.

    Raises:
        InputError: the numbers differ, as where ranks of tensor parallelism see the same rows.
    """
    own = (parallel.rank(group), parallel.world_size(group))
    if parallel.world_size() > 1 and place != own:
        raise InputError(
            f"dataset: it deals rows to process {place[0]} of {place[1]}, but `group` makes this "
            f"one {own[0]} of {own[1]}: where processes share rows (tensor, context, pipeline "
            "parallelism), give both the data-parallel ones: MixedDataset(place=(rank, number)), "
            "Mixing(group=...)"
        )


def passes_of(
    loss_fn: RowLosses | Passes | None, excess_fn: RowLosses | None, group: Group
) -> Passes:
    """How a training's passes are made.

    Args:
        loss_fn: Loss of each row, or passes of one's own.
        excess_fn: Excess of each row over a reference.
        group: The data-parallel processes.

    Raises:
        InputError: passes of one's own, and what belongs to them beside.
    """
    if isinstance(loss_fn, Passes):
        if excess_fn is not None or group not in (None, loss_fn.group):
            raise InputError("loss_fn: Passes have an excess_fn and a group: give them there")
        return loss_fn
    excess = None if excess_fn is None else _on_device(excess_fn)
    return Passes(_on_device(loss_fn or _no_losses), excess, group)


def _on_device(of_rows: RowLosses) -> RowLosses:
    """The same function, for rows that do not lie on the model's device yet."""
    return lambda model, batch: of_rows(model, rows.to(batch, next(model.parameters()).device))


def _no_losses(model: nn.Module, batch: Rows) -> Tensor:
    raise InputError("loss: give Mixing a loss_fn")
