"""Gradient statistics of the domains of any torch model.

The numbers are those of `pike_mixing.numerics.gradient_moments`, and mean the same as the
pipeline's. Micro-batches add up in place, and the norm of each is read as its gradient arrives, so
that beside the parameters' own gradients one more is all the memory.

With several processes each brings rows of its own, and all get the statistics of all rows. They
must call with the same domains; the mean gradient is summed over them, as are the numbers.

Shapes: K domains, R rows of one domain.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.interface import Statistics
from pike_mixing.numerics.gradient_moments import statistics_of, variance_of_rows
from pike_mixing.torch import parallel, rows
from pike_mixing.torch.inner_products import products, total
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.rows import Rows
from pike_mixing.torch.undisturbed import undisturbed

LossFunction = Callable[[nn.Module, Rows], Tensor]
"""The mean loss of some rows, or the loss of each, with a graph to the model's parameters."""


def gradient_statistics(
    model: nn.Module,
    loss_fn: LossFunction,
    rows_by_domain: Mapping[str, Rows] | Sequence[Rows],
    *,
    micro_batch: int = 1,
    group: Group = None,
) -> Statistics:
    """Squared norm, variance and loss of each domain's gradient, in the domains' order.

    Nothing of it remains: `.grad`, buffers, random numbers and mode are as they were. It runs under
    autocast, DistributedDataParallel, `fully_shard` and activation checkpointing; frozen parameters
    have no part in it, tied ones count once. Call it between two steps, not within the
    accumulation of one.

    Args:
        model: The model at the current weights, wrapped or not.
        loss_fn: Called with the model (without its DistributedDataParallel) and some rows.
        rows_by_domain: Rows of each of the K domains: tensors R x ..., or dictionaries, tuples or
            lists of them; None or no rows give NaN. With several processes, those of this one.
        micro_batch: Rows of a pass. With 1 the variance is that of the rows themselves; a larger
            one is faster and less exact. A domain needs two micro-batches for a variance.
        group: The data-parallel processes; all of them when absent.

    Raises:
        InputError: rows are none, or the model's gradients cannot be measured.
    """
    given = _listed(rows_by_domain)
    return _finished([g.sums for g in _measured(model, loss_fn, given, micro_batch, group)])


def gramian(
    model: nn.Module,
    loss_fn: LossFunction,
    rows_by_domain: Mapping[str, Rows] | Sequence[Rows],
    *,
    micro_batch: int = 1,
    group: Group = None,
) -> tuple[Floats, Statistics]:
    """Inner products G_jk = g_j . g_k (K x K) of the domains' gradients, and their statistics.

    As `gradient_statistics`, with memory of K gradients; a domain without rows is NaN in G.
    """
    given = _listed(rows_by_domain)
    gram_KxK = np.full((len(given), len(given)), np.nan)
    present: list[tuple[int, list[Tensor]]] = []
    sums = []
    for k, g in enumerate(_measured(model, loss_fn, given, micro_batch, group)):
        sums.append(g.sums)
        if g.parts:
            present.append((k, g.parts))
            for j, parts in present:
                gram_KxK[j, k] = gram_KxK[k, j] = float(inner(parts, g.parts))
    return gram_KxK, _finished(sums)


class StatisticsAccumulator:
    """The same statistics out of the backward passes of a training step.

        measured = StatisticsAccumulator(model, domains, batch_rows=256)
        for domain, pieces in rows_by_domain.items():
            with measured.domain(domain):
                for piece in pieces:
                    measured.backward(loss_fn(model, piece), rows=len(piece))
        statistics = measured.statistics()
        optimizer.step()

    The domains pass one after the other. Afterwards `.grad` has grown by sum_k c_k g_k, where c_k
    is b_k / b unless set, summed over all processes: DistributedDataParallel does not reduce again.
    Without `measured.domain` around it, a forward pass of that wrapper would wait for a reduction.
    """

    def __init__(
        self, model: nn.Module, domains: Sequence[str], *, batch_rows: int, group: Group = None
    ) -> None:
        """Begins a step.

        Args:
            model: The model, wrapped or not.
            domains: Names of the K domains.
            batch_rows: Rows b of the step, over all processes.
            group: The data-parallel processes.
        """
        self._model, self._domains, self._batch_rows = model, tuple(domains), batch_rows
        self._target = _Target(model, group)
        self._sums: dict[str, _Sums] = {}
        self._running: _DomainPass | None = None

    @contextlib.contextmanager
    def domain(self, name: str, weight: float | None = None) -> Iterator[None]:
        """The passes of one domain; with several processes all come here, with rows or without.

        Args:
            name: The domain.
            weight: Factor c_k of its mean loss; its share of the batch when absent.

        Raises:
            InputError: there is no such domain, or it was here before.
        """
        if name not in self._domains or name in self._sums:
            told = "has had its passes" if name in self._sums else "is none of the domains"
            raise InputError(f"domain {name!r} {told}: {', '.join(self._domains)}")
        kept = [p.grad for p in self._target.parameters]
        for p in self._target.parameters:
            p.grad = None
        self._running = _DomainPass(self._target)
        try:
            with parallel.unsynchronized(self._model), self._running.listening():
                yield
            found = self._running.finished()
            self._sums[name] = found.sums
            c = found.sums.rows / self._batch_rows if weight is None else weight
            for i, part in enumerate(found.parts):
                before = kept[i]
                kept[i] = part.mul_(c) if before is None else before.add_(part, alpha=c)
        finally:
            self._running = None
            for p, gradient in zip(self._target.parameters, kept, strict=True):
                p.grad = gradient

    def backward(self, loss: Tensor, rows: int) -> None:
        """The backward pass of a micro-batch.

        Args:
            loss: The mean loss of its rows.
            rows: How many they are.
        """
        if self._running is None:
            raise InputError("backward: call it within `with accumulator.domain(name):`")
        self._running.backward(loss, rows)

    def statistics(self) -> Statistics:
        """The statistics of all domains; NaN for those that did not come."""
        return _finished([self._sums.get(d, _Sums()) for d in self._domains])


class _Sums:
    """What is kept of a domain: host numbers."""

    def __init__(
        self,
        squared_norm: float = np.nan,
        variance: float = np.nan,
        loss: float = np.nan,
        rows: int = 0,
    ) -> None:
        self.squared_norm, self.variance, self.loss = squared_norm, variance, loss
        self.rows = rows


class _Gradient:
    """Mean gradient of a domain's rows over all processes, and its numbers."""

    def __init__(self, parts: list[Tensor], sums: _Sums) -> None:
        self.parts, self.sums = parts, sums


class _Target:
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


class _DomainPass:
    """Backward passes of one domain: the sum of s_i g_i in `.grad`, and of s_i |g_i|^2."""

    def __init__(self, target: _Target) -> None:
        self._target = target
        self._squares: list[Tensor] = []
        self._arrived: set[int] = set()
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
            self._squares.extend(products([dense.float()], [dense.float()]))

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
        self._squares.clear()
        self._arrived.clear()
        (loss * (rows * self._target.divisor)).backward()
        if rows:
            squares = total(self._squares) / self._target.divisor**2
            found = torch.stack([squares / rows, loss.detach().double() * rows])
            self._numbers += found.to(self._numbers.device)
            self._rows += rows
            self._passes += 1

    def finished(self) -> _Gradient:
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
            return _Gradient([], _Sums())
        parts = [part.to_dense() if part.is_sparse else part for part in parts]
        parallel.sum_([part for part in parts if not parallel.in_shards(part)], target.group)
        for part in parts:
            part.div_(rows)
        squared_norm = float(inner(parts, parts))
        others = passes - 1 if passes > 1 else np.nan
        variance = variance_of_rows(weighted_squares, squared_norm, rows, others)
        return _Gradient(parts, _Sums(squared_norm, variance, loss / rows, int(rows)))


def inner(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Inner product over all parts, in float64; those in shards are summed over the processes."""
    numbers = [
        total(products([parallel.local(a).float()], [parallel.local(b).float()]))
        for a, b in zip(first, second, strict=True)
    ]
    return parallel.sum_over_shards(numbers, first)


def _measured(
    model: nn.Module,
    loss_fn: LossFunction,
    given: Sequence[Rows],
    micro_batch: int,
    group: Group,
) -> Iterator[_Gradient]:
    """The gradient of each domain, one after the other."""
    target = _Target(model, group)
    pieces_K = [rows.split(domain, micro_batch) for domain in given]
    most_K, spare = _passes(pieces_K, target)
    with undisturbed(model), parallel.unsynchronized(model) as plain, torch.enable_grad():
        for pieces, most in zip(pieces_K, most_K, strict=True):
            passes = _DomainPass(target)
            with passes.listening():
                for number in range(most):
                    piece = pieces[number] if number < len(pieces) else spare
                    # A weight that was cast without a gradient would hide its gradient.
                    torch.clear_autocast_cache()
                    size = rows.count(piece) if number < len(pieces) else 0
                    passes.backward(loss_fn(plain, piece), size)
            yield passes.finished()
        torch.clear_autocast_cache()


def _passes(pieces_K: Sequence[Sequence[Rows]], target: _Target) -> tuple[list[int], Rows]:
    """Passes of each domain, as many on every process, and a row to make empty ones with.

    Raises:
        InputError: a process has no rows at all, where others have some.
    """
    spare = next((rows.select(p[0], slice(1)) for p in pieces_K if p), None)
    counts_WxK = parallel.gathered([len(p) for p in pieces_K], target.device, target.group)
    lacking = (counts_WxK.sum(dim=1) == 0).nonzero().flatten().tolist()
    if lacking and counts_WxK.sum():
        raise InputError(
            f"processes {lacking} have no rows to measure, but others have: give each some, of any "
            "domain"
        )
    return [int(n) for n in counts_WxK.max(dim=0).values], spare


def _listed(rows_by_domain: Mapping[str, Rows] | Sequence[Rows]) -> list[Rows]:
    if isinstance(rows_by_domain, Tensor):
        raise InputError("rows_by_domain is a tensor: give one for each domain, as a list or dict")
    if isinstance(rows_by_domain, Mapping):
        return list(rows_by_domain.values())
    return list(rows_by_domain)


def _finished(sums: Sequence[_Sums]) -> Statistics:
    table = np.array([(s.squared_norm, s.variance, s.loss, s.rows) for s in sums], dtype=np.float64)
    squared_norm_K, variance_K, loss_K, rows_K = table.T
    return statistics_of(squared_norm_K, variance_K, loss_K, rows_K)
