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
from pike_mixing.torch import parallel, rows
from pike_mixing.torch.domain_pass import DomainPass, Gradient, Sums, Target, inner
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
    pieces_K = [rows.split(domain, micro_batch) for domain in _listed(rows_by_domain)]
    return of_pieces(model, loss_fn, pieces_K, group)


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
    pieces_K = [rows.split(domain, micro_batch) for domain in _listed(rows_by_domain)]
    return gramian_of_pieces(model, loss_fn, pieces_K, group)


def of_pieces(
    model: nn.Module, loss_fn: LossFunction, pieces_K: Sequence[Sequence[Rows]], group: Group = None
) -> Statistics:
    """`gradient_statistics` of each domain's rows in micro-batches."""
    sums = []
    for g in _measured(model, loss_fn, pieces_K, group):
        sums.append(g.sums)
        # The next domain's gradient takes this one's memory.
        del g
    return _finished(sums)


def gramian_of_pieces(
    model: nn.Module, loss_fn: LossFunction, pieces_K: Sequence[Sequence[Rows]], group: Group = None
) -> tuple[Floats, Statistics]:
    """`gramian` of each domain's rows in micro-batches."""
    gram_KxK = np.full((len(pieces_K), len(pieces_K)), np.nan)
    present: list[tuple[int, list[Tensor]]] = []
    sums = []
    for k, g in enumerate(_measured(model, loss_fn, pieces_K, group)):
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
        self._target = Target(model, group)
        self._sums: dict[str, Sums] = {}
        self._running: DomainPass | None = None

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
        self._running = DomainPass(self._target)
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
        return _finished([self._sums.get(d, Sums()) for d in self._domains])


def _measured(
    model: nn.Module,
    loss_fn: LossFunction,
    pieces_K: Sequence[Sequence[Rows]],
    group: Group,
) -> Iterator[Gradient]:
    """The gradient of each domain, one after the other."""
    target = Target(model, group)
    most_K, spare = _passes(pieces_K, target)
    with undisturbed(model), parallel.unsynchronized(model) as plain, torch.enable_grad():
        for pieces, most in zip(pieces_K, most_K, strict=True):
            passes = DomainPass(target)
            with passes.listening():
                for number in range(most):
                    piece = pieces[number] if number < len(pieces) else spare
                    # Torch 2.9 keeps a weight that was cast without a gradient, and so hides it.
                    torch.clear_autocast_cache()
                    size = rows.count(piece) if number < len(pieces) else 0
                    passes.backward(loss_fn(plain, piece), size)
            yield passes.finished()
        torch.clear_autocast_cache()


def _passes(pieces_K: Sequence[Sequence[Rows]], target: Target) -> tuple[list[int], Rows]:
    """Passes of each domain, as many on every process, and a row to make empty ones with."""
    spare = next((rows.select(p[0], slice(1)) for p in pieces_K if p), None)
    counts_WxK = parallel.gathered([len(p) for p in pieces_K], target.group)
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


def _finished(sums: Sequence[Sums]) -> Statistics:
    return Statistics.of_moments(*np.array(sums, dtype=np.float64).T)
