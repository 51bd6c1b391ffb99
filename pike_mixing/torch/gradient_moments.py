"""Gradient statistics of the domains of any torch model.

The numbers are those of `pike_mixing.numerics.moments`. One loop over the domains leads to
them (`measure_domains`), on rows of their own or on a training batch's: there the gradients that
it makes are used as well. Beside the parameters' own gradients, one more is all the memory.

With several processes each brings rows of its own, and all get the statistics of all rows. They
must call with the same domains; the mean gradient is summed over them, as are the numbers.

Shapes: K domains, R rows of one domain.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.interface import Statistics
from pike_mixing.torch import parallel, rows
from pike_mixing.torch.domain_gradient import inner_product, measure_domain_gradient
from pike_mixing.torch.losses import RowLosses
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.pass_interface import DomainRows, Passes, Piece, Target
from pike_mixing.torch.rows import Rows


class DeviceStatistics(NamedTuple):
    """Statistics of the domains' gradients whose numbers are still on the device."""

    numbers: list[Tensor]
    """Squared norm, variance and loss (float64) of each domain with rows, in the domains' order."""
    count_K: Floats
    """Rows of each domain over all processes."""
    with_variance: bool
    """Whether the variances are wanted; without them, they are NaN."""

    def statistics(self, host: Tensor) -> Statistics:
        """The statistics of all numbers on the host, in a row; NaN for a domain without rows."""
        table_Kx3 = np.full((len(self.count_K), 3), np.nan)
        table_Kx3[self.count_K > 0] = host.view(-1, 3).numpy()
        squared_norm_K, variance_K, loss_K = np.ascontiguousarray(table_Kx3.T)
        return Statistics.of_moments(squared_norm_K, variance_K, loss_K, self.count_K)

    def fetch_statistics(self, passes: Passes) -> Statistics:
        """The statistics, once the device has made them: one transfer."""
        parts = self.numbers or [torch.empty(0, dtype=torch.float64)]
        return self.statistics(passes.begin_fetch(torch.cat(parts))())


class MeasuredGramian(NamedTuple):
    """All gradients of the domains, and what was measured of them."""

    gradient_K: list[list[Tensor] | None]
    """One tensor per trained parameter; None of a domain without rows."""
    gram_KxK: Floats
    """Inner products, float64; NaN for a domain without rows."""
    statistics: Statistics


def gradient_statistics(
    model: nn.Module,
    loss_fn: RowLosses,
    rows_by_domain: Mapping[str, Rows] | Sequence[Rows],
    *,
    micro_batch_rows: int = 1,
    coefficients: Sequence[float] | None = None,
    group: Group = None,
) -> Statistics:
    """Squared norm, variance and loss of each domain's gradient, in the domains' order.

    Without `coefficients` nothing of it remains: `.grad`, buffers, random numbers and mode are as
    they were. It runs under autocast, DistributedDataParallel, `fully_shard` and activation
    checkpointing; frozen parameters have no part in it, tied ones count once. Call it between two
    steps, not within the accumulation of one.

    Args:
        model: The model at the current weights, wrapped or not.
        loss_fn: Called with the model (without its DistributedDataParallel) and some rows: the loss
            of each row, or their mean loss, with a graph to the model's parameters.
        rows_by_domain: Rows of each of the K domains: tensors R x ..., or dictionaries, tuples or
            lists of them; None or no rows give NaN. With several processes, those of this one.
        micro_batch_rows: Rows of a pass. With 1 the variance is that of the rows themselves; more
            are faster and less exact. A domain needs two micro-batches for a variance. Gradients
            of passes add up in the parameters' dtype: bfloat16 wants few passes.
        coefficients: Factors c_k by which the passes are those of a training step: `.grad` grows by
            sum_k c_k g_k. It is summed over all processes: DistributedDataParallel does not reduce
            it again. Shares b_k / b make the gradient of the batch's mean loss.
        group: The data-parallel processes; all of them when absent.

    Raises:
        InputError: rows hold no tensors, or the model's gradients cannot be measured.
    """
    target, rows_K = _target_and_rows(model, loss_fn, rows_by_domain, micro_batch_rows, group)
    if coefficients is None:
        with target.passes.leave_no_trace(model, training=model.training):
            return measure_domains(target, rows_K).fetch_statistics(target.passes)
    if len(coefficients) != len(rows_K):
        raise InputError(f"coefficients: {len(coefficients)} for {len(rows_K)} domains")

    def add_to_gradient(k: int, parts: list[Tensor]) -> None:
        target.add_to_gradient(parts, coefficients[k])

    return measure_domains(target, rows_K, add_to_gradient).fetch_statistics(target.passes)


def gramian(
    model: nn.Module,
    loss_fn: RowLosses,
    rows_by_domain: Mapping[str, Rows] | Sequence[Rows],
    *,
    micro_batch_rows: int = 1,
    group: Group = None,
) -> tuple[Floats, Statistics]:
    """Inner products G_jk = g_j . g_k (K x K) of the domains' gradients, and their statistics.

    As `gradient_statistics`, with memory of K gradients; a domain without rows is NaN in G.

    Args:
        model: Any module.
        loss_fn: Loss of each row, from the model and rows.
        rows_by_domain: Rows of each of the K domains.
        micro_batch_rows: Rows of one pass.
        group: Processes that share the rows; None: all.
    """
    target, rows_K = _target_and_rows(model, loss_fn, rows_by_domain, micro_batch_rows, group)
    with target.passes.leave_no_trace(model, training=model.training):
        measured = measure_and_fetch_gramian(target, rows_K)
    return measured.gram_KxK, measured.statistics


def domain_rows_with_equal_passes(
    pieces_K: Sequence[Sequence[Rows]], group: Group = None, spare: Rows = None
) -> list[DomainRows]:
    """Each domain's rows, from the micro-batches of every process: as many passes on each.

    Where this process has no row of its own, the spare one is passed without counting.
    """
    K = len(pieces_K)
    spare = next((rows.select(p[0], slice(1)) for p in pieces_K if p), spare)
    sizes_K = [[rows.row_count(piece) for piece in pieces] for pieces in pieces_K]
    counts_WxN = parallel.gather_numbers(
        [*map(len, sizes_K), *(sum(sizes) for sizes in sizes_K), spare is not None], group
    ).long()
    passes_WxK, rows_WxK = counts_WxN[:, :K], counts_WxN[:, K:-1]
    lacking = (counts_WxN[:, -1] == 0).nonzero().flatten().tolist()
    if lacking and passes_WxK.sum():
        raise InputError(
            f"processes {lacking} have no rows to measure, but others have: give each some, of any "
            "domain"
        )
    result = []
    for k, (pieces, sizes) in enumerate(zip(pieces_K, sizes_K, strict=True)):
        own = [Piece(p, torch.ones(s), s, 1.0) for p, s in zip(pieces, sizes, strict=True)]
        lacks = int(passes_WxK[:, k].max()) - len(own)
        own += [Piece(spare, torch.zeros(1), 1, 0.0)] * lacks
        result.append(DomainRows(own, int(rows_WxK[:, k].sum()), int(passes_WxK[:, k].sum())))
    return result


def measure_domains(
    target: Target,
    rows_K: Sequence[DomainRows],
    take_gradient: Callable[[int, list[Tensor]], None] | None = None,
    *,
    with_variance: bool = True,
) -> DeviceStatistics:
    """Norms, variances and losses of each domain; memory of one gradient beside the model.

    Nothing waits for the device. `take_gradient` is given each domain's index and gradient, one
    tensor per trained parameter; what it does not keep, the next gradient takes the memory of.
    """
    wrappers = [m for m in target.model.modules() if isinstance(m, DistributedDataParallel)]
    if any(wrapper.static_graph for wrapper in wrappers):
        raise InputError(
            "static_graph: DistributedDataParallel counts the backward passes before its first "
            "one, and after those that measure it would sum no gradient any more: leave "
            "static_graph away"
        )
    result = []
    with parallel.without_ddp_synchronization(target.model) as plain, torch.enable_grad():
        for k, of_domain in enumerate(rows_K):
            if not of_domain.rows:
                continue
            measured = measure_domain_gradient(
                plain, target, of_domain, with_variance=with_variance
            )
            result.append(measured.numbers_3)
            target.passes.launch_recorded_operations()
            if take_gradient is not None:
                take_gradient(k, measured.parts)
            del measured
    count_K = np.array([of_domain.rows for of_domain in rows_K], dtype=np.float64)
    return DeviceStatistics(result, count_K, with_variance)


def measure_and_fetch_gramian(
    target: Target, rows_K: Sequence[DomainRows], *, with_variance: bool = True
) -> "MeasuredGramian":
    """All K gradients, their inner products G_jk = g_j . g_k (float64) and their statistics.

    A domain without rows has no gradient (None), and NaN in its row and column of G. Memory of K
    gradients; one wait for the device.
    """
    passes, products = target.passes, {}
    parts_K: list[list[Tensor] | None] = [None] * len(rows_K)
    moments = measure_domains(target, rows_K, parts_K.__setitem__, with_variance=with_variance)
    with passes.timed("statistics"):
        for (j, first), (k, second) in itertools.combinations(enumerate(parts_K), 2):
            if first is not None and second is not None:
                products[j, k] = inner_product(first, second)
                passes.launch_recorded_operations()
    numbers = [*moments.numbers, *(product[None] for product in products.values())]
    host = (
        passes.begin_fetch(torch.cat(numbers))() if numbers else torch.empty(0, dtype=torch.float64)
    )
    statistics = moments.statistics(host[: 3 * len(moments.numbers)])
    gram_KxK = np.full((len(parts_K), len(parts_K)), np.nan)
    np.fill_diagonal(gram_KxK, statistics.squared_norm_K)
    for (j, k), product in zip(products, host[3 * len(moments.numbers) :].tolist(), strict=True):
        gram_KxK[j, k] = gram_KxK[k, j] = product
    return MeasuredGramian(parts_K, gram_KxK, statistics)


def _target_and_rows(
    model: nn.Module,
    loss_fn: RowLosses,
    own_rows_by_domain: Mapping[str, Rows] | Sequence[Rows],
    micro_batch_rows: int,
    group: Group,
) -> tuple[Target, list[DomainRows]]:
    if isinstance(own_rows_by_domain, Tensor):
        raise InputError("rows_by_domain is a tensor: give one for each domain, as a list or dict")
    if isinstance(own_rows_by_domain, Mapping):
        own_rows_by_domain = list(own_rows_by_domain.values())
    pieces_K = [rows.split(domain, micro_batch_rows) for domain in own_rows_by_domain]
    return Target(model, Passes(loss_fn, group=group)), domain_rows_with_equal_passes(
        pieces_K, group
    )
