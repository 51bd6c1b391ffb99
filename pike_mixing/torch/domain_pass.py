"""Backward passes over one domain's rows, and what they tell of its gradient."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pike_mixing.errors import InputError
from pike_mixing.numerics.gradient_moments import variance_of_rows
from pike_mixing.torch import parallel
from pike_mixing.torch.inner_products import products, total
from pike_mixing.torch.parallel import Group


class Sums(NamedTuple):
    """What is kept of a domain: host numbers."""

    squared_norm: float = np.nan
    variance: float = np.nan
    loss: float = np.nan
    rows: int = 0


class Gradient(NamedTuple):
    """Mean gradient of a domain's rows over all processes, and its numbers."""

    parts: list[Tensor]
    sums: Sums


class Target:
    """The parameters of a model that are measured, and how their gradients come together."""

    def __init__(self, model: nn.Module, group: Group) -> None:
        self.group = group
        units = parallel.sharded_units(model)
        self.parameters = parallel.trained(model)
        if not self.parameters:
            raise InputError("the model has no trainable parameter: nothing to measure")
        if any(getattr(p, "_post_accumulate_grad_hooks", None) for p in self.parameters):
            raise InputError(
                "the model's parameters have hooks that run when a gradient is there, such as an "
                "optimizer that steps within the backward pass: measuring would run them too; "
                "remove them around the call"
            )
        self.heard = parallel.whole_parameters(model, units)
        self.divisor = parallel.divisor(units, group)
        self.device = self.parameters[0].device


class DomainPass:
    """Backward passes of one domain: the sum of s_i g_i in `.grad`, and of s_i |g_i|^2."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._arrived: set[int] = set()
        self._square = torch.zeros((), dtype=torch.float64, device=target.device)
        self._numbers = torch.zeros(2, dtype=torch.float64, device=target.device)
        self._rows = self._passes = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Reads gradients where a pass has made them, before they add up: nothing is copied."""
        handles = [p.register_hook(self._hook(i)) for i, p in enumerate(self._target.heard)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, number: int) -> Callable[[Tensor], None]:
        def listen(gradient: Tensor) -> None:
            if number in self._arrived:
                raise InputError(
                    "a parameter's gradient comes in several parts, whose norms do not add up: it "
                    "is used within and without reentrant checkpointing, or in two checkpoints; "
                    "set use_reentrant=False"
                )
            self._arrived.add(number)
            dense = gradient.detach()
            if dense.is_sparse:
                dense = dense.coalesce().values()
            # Kept terms would lie between the gradients and break up a CPU's memory.
            for term in products([dense.float()], [dense.float()]):
                self._square.add_(term.to(self._square.device))

        return listen

    def backward(self, loss: Tensor, rows: int) -> None:
        """One pass; no rows stand for a pass that only keeps the others company."""
        if loss.ndim:
            loss = loss.mean()
        if not loss.requires_grad:
            raise InputError(
                "the loss has no graph to the model's parameters: is loss_fn under torch.no_grad, "
                "or does it detach?"
            )
        self._square.zero_()
        self._arrived.clear()
        (loss * (rows * self._target.divisor)).backward()
        if rows:
            square = self._square / (rows * self._target.divisor**2)
            self._numbers += torch.stack([square, loss.detach().to(square) * rows])
            self._rows += rows
            self._passes += 1

    def finished(self) -> Gradient:
        """The mean gradient and its numbers, over all processes; takes `.grad` away."""
        target = self._target
        counts = torch.tensor([self._rows, self._passes], dtype=torch.float64)
        numbers = torch.cat([self._numbers, counts.to(self._numbers.device)])
        parallel.sum_([numbers], target.group)
        weighted_squares, loss, rows, passes = numbers.tolist()
        parts = []
        for p in target.parameters:
            # A parameter that takes no part in the loss has a gradient of zero.
            parts.append(torch.zeros_like(p) if p.grad is None else p.grad)
            p.grad = None
        if not rows:
            return Gradient([], Sums())
        parts = [part.to_dense() if part.is_sparse else part for part in parts]
        parallel.sum_([part for part in parts if not parallel.in_shards(part)], target.group)
        for part in parts:
            part.div_(rows)
        squared_norm = float(inner(parts, parts))
        degrees_of_freedom = passes - 1 if passes > 1 else np.nan
        variance = variance_of_rows(weighted_squares, squared_norm, rows, degrees_of_freedom)
        return Gradient(parts, Sums(squared_norm, variance, loss / rows, int(rows)))


def inner(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Inner product over all parts, in float64; those in shards are summed over the processes."""
    numbers = [
        total(products([parallel.local(a).float()], [parallel.local(b).float()])).to(
            first[0].device
        )
        for a, b in zip(first, second, strict=True)
    ]
    return parallel.sum_over_shards(numbers, first)
