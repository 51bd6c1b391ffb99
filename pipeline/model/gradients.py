"""Gradients of each domain's loss: their norms, variances and inner products.

The gradient of a domain is that of its mean loss over rows, which are taken in micro-batches;
`pike_mixing.numerics.gradient_moments` has the estimates.

One loop over the domains leads to these numbers (`gradient_statistics`), on rows of their own or on
a training batch's: there the gradients that it makes are used as well, and no other pass is made.

Numbers stay on the device until all domains are done. Several processes take some of the rows each
and sum gradients and numbers (`runtime.distributed`); whole micro-batches, where a variance is
asked for, so that it is over the same ones as in one process.

Shapes: K domains, B rows of a batch, R rows of one domain, L tokens.
"""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from pike_mixing.arrays import Floats
from pike_mixing.interface import Statistics
from pike_mixing.numerics.gradient_moments import variance_of_rows
from pike_mixing.torch.inner_products import products, total
from pipeline.model import microbatches
from pipeline.model.gradient_vectors import clear, inner, squared, trained
from pipeline.model.microbatches import MicroBatch
from pipeline.model.transformer import Transformer, token_losses, weighted_loss
from pipeline.runtime import devices, distributed
from pipeline.runtime.timing import Timed, untimed


@dataclasses.dataclass(frozen=True)
class DomainGradient:
    """Mean gradient of one domain's rows, with what its micro-batches tell: float64 scalars."""

    parts: list[Tensor]
    """One tensor per trainable parameter."""
    squared_norm: Tensor
    """|g|^2."""
    variance: Tensor
    """Unbiased estimate of one row's variance; NaN with fewer than two micro-batches."""
    loss: Tensor
    """Mean loss, nats per token."""


def domain_gradient(
    model: Transformer,
    tokens_RxL1: Tensor,
    microbatch: int,
    *,
    with_variance: bool = True,
    timed: Timed = untimed,
) -> DomainGradient:
    """Gradient of the mean loss of one domain's rows; at least one row.

    Micro-batches add up in place, and the norm of each is read as it arrives: one gradient is all
    the memory. What lies in the parameters' gradients stays as it is.

    Args:
        model: The model at the current weights.
        tokens_RxL1: The domain's rows.
        microbatch: Rows per backward pass.
        with_variance: Whether the variance is wanted; without it, it is NaN.
        timed: Clock of the passes.
    """
    parameters, device = trained(model), model.device
    kept = [p.grad for p in parameters]
    R, n = len(tokens_RxL1), math.ceil(len(tokens_RxL1) / microbatch)
    # A program that measures one micro-batch, and finds NaN, is the one that measures several.
    with_variance = with_variance and (n > 1 or devices.compiles(device))
    rows, degrees_of_freedom = (
        devices.number(x, device) for x in (R, n - 1 if n > 1 else math.nan)
    )
    every_R = torch.ones(R, device=tokens_RxL1.device)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    weighted_squares = torch.zeros_like(loss)
    clear(model)
    heard = model.gathered or parameters
    with _arriving(heard if with_variance else [], timed) as squares:
        for piece in microbatches.split_rows(
            tokens_RxL1, every_R, microbatch, device, whole=with_variance
        ):
            loss_s = _backward(model, piece, piece.weight_s / rows, timed)
            loss += (loss_s.double() * piece.weight_s).sum() / rows
            if with_variance:
                # What arrives is s / R of the micro-batch's mean gradient.
                weighted_squares += total(squares) * devices.number(R**2 / piece.rows, device)
                squares.clear()
            devices.mark_step(device)
    parts = [p.grad for p in parameters if p.grad is not None]
    for p, before in zip(parameters, kept, strict=True):
        p.grad = before
    distributed.all_reduce_gradients(parts)
    distributed.all_reduce_sum([loss, weighted_squares])
    with timed("statistics"):
        squared_norm, variance = squared(parts), torch.full_like(loss, math.nan)
    if with_variance:
        variance = variance_of_rows(weighted_squares, squared_norm, rows, degrees_of_freedom)
    devices.mark_step(device)
    return DomainGradient(parts, squared_norm, variance, loss)


def gradient_statistics(
    model: Transformer,
    rows_by_domain: Sequence[Tensor],
    microbatch: int,
    use: Callable[[int, list[Tensor]], None] | None = None,
    *,
    with_variance: bool = True,
    timed: Timed = untimed,
) -> Statistics:
    """Norms, variances and losses of each domain; memory of one gradient beside the model.

    Args:
        model: The model at the current weights.
        rows_by_domain: For each of the K domains its rows, R_k x (L+1); none gives NaN.
        microbatch: Rows per backward pass.
        use: Is given each domain's index and gradient, one tensor per trainable parameter. What it
            does not keep, the next domain's gradient takes the memory of.
        with_variance: Whether the variances are wanted; without them, they are NaN.
        timed: Clock of the passes.
    """
    found: list[Tensor | None] = []
    for k, rows in enumerate(rows_by_domain):
        if not len(rows):
            found.append(None)
            continue
        g = domain_gradient(model, rows, microbatch, with_variance=with_variance, timed=timed)
        found.append(torch.stack([g.squared_norm, g.variance, g.loss]))
        devices.mark_step(model.device)
        if use is not None:
            use(k, g.parts)
        del g
    return _on_host(found, np.array([len(rows) for rows in rows_by_domain], dtype=np.float64))


def gramian(
    model: Transformer,
    rows_by_domain: Sequence[Tensor],
    microbatch: int,
    *,
    with_variance: bool = True,
    timed: Timed = untimed,
) -> tuple[list[list[Tensor] | None], Floats, Statistics]:
    """All K gradients, their inner products G_jk = g_j . g_k (float64) and their statistics.

    A domain without rows has no gradient (None), and NaN in its row and column of G. Memory of K
    gradients. The arguments are those of `gradient_statistics`.
    """
    parts_K: list[list[Tensor] | None] = [None] * len(rows_by_domain)
    measured = gradient_statistics(
        model,
        rows_by_domain,
        microbatch,
        parts_K.__setitem__,
        with_variance=with_variance,
        timed=timed,
    )
    gram_KxK = np.full((len(parts_K), len(parts_K)), np.nan)
    np.fill_diagonal(gram_KxK, measured.squared_norm_K)
    products = {}
    with timed("statistics"):
        for (j, first), (k, second) in itertools.combinations(enumerate(parts_K), 2):
            if first is not None and second is not None:
                products[j, k] = inner(first, second)
                devices.mark_step(model.device)
    for (j, k), product in products.items():
        gram_KxK[j, k] = gram_KxK[k, j] = float(devices.on_host(product))
    return parts_K, gram_KxK, measured


def batch_gradient(
    model: Transformer,
    tokens_BxL1: Tensor,
    weight_B: Tensor,
    microbatch: int,
    timed: Timed = untimed,
) -> Tensor:
    """Makes the gradient of sum_b weight_b l_b the parameters' and returns the rows' losses l_B.

    The parameters have none before. Weights of 1 / b are equation `eq: mix_framework`. Losses are
    in nats per token, on the device.

    Args:
        model: The model at the current weights.
        tokens_BxL1: The batch's rows.
        weight_B: Weight of each row's mean loss, float32.
        microbatch: Rows per backward pass.
        timed: Clock of the passes.
    """
    clear(model)
    found = []
    for piece in microbatches.split_rows(tokens_BxL1, weight_B, microbatch, model.device):
        loss_s = _backward(model, piece, piece.weight_s, timed)
        devices.mark_step(model.device)
        found.append((piece, loss_s))
    distributed.all_reduce_gradients([p.grad for p in trained(model) if p.grad is not None])
    return microbatches.join_rows(found, len(tokens_BxL1))


def _backward(model: Transformer, piece: MicroBatch, weight_s: Tensor, timed: Timed) -> Tensor:
    """One pass: adds the gradient of sum_s weight_s l_s, and returns the rows' losses l_s."""
    with timed("forward"):
        weighted, loss_s = weighted_loss(model, piece.tokens_sxL1, weight_s)
    with timed("backward"):
        weighted.backward()
    return loss_s


@contextlib.contextmanager
def _arriving(parameters: Sequence[Tensor], timed: Timed) -> Iterator[list[Tensor]]:
    """Lists the terms of the squared norm of what a pass brings, before it adds up.

    Nothing is copied: a gradient is read where the pass has made it.
    """
    squares: list[Tensor] = []

    def listen(gradient: Tensor) -> None:
        with timed("statistics"):
            squares.extend(products([gradient], [gradient]))

    handles = [p.register_hook(listen) for p in parameters]
    try:
        yield squares
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def losses(model: Transformer, tokens_BxL1: Tensor, microbatch: int) -> Tensor:
    """Loss of each row, nats per token, without gradients."""
    return _of_rows(
        model, tokens_BxL1, microbatch, lambda tokens: token_losses(model, tokens).mean(dim=1)
    )


@torch.no_grad()
def excess(
    model: Transformer, reference: Transformer, tokens_BxL1: Tensor, microbatch: int
) -> Tensor:
    """Mean over each row's tokens of max(l - l_reference, 0), nats.

    Every token is clipped before the mean (DoReMi, Algorithm 1 of arXiv 2305.10429).
    """

    def of_rows(tokens: Tensor) -> Tensor:
        over = token_losses(model, tokens) - token_losses(reference, tokens)
        return over.clamp(min=0).mean(dim=1)

    return _of_rows(model, tokens_BxL1, microbatch, of_rows)


def _of_rows(
    model: Transformer, tokens_BxL1: Tensor, microbatch: int, of_rows: Callable[[Tensor], Tensor]
) -> Tensor:
    """A number of each row, from passes without gradients."""
    found, every_B = [], torch.ones(len(tokens_BxL1), device=tokens_BxL1.device)
    for piece in microbatches.split_rows(tokens_BxL1, every_B, microbatch, model.device):
        number_s = of_rows(piece.tokens_sxL1)
        devices.mark_step(model.device)
        found.append((piece, number_s))
    model.reshard()
    return microbatches.join_rows(found, len(tokens_BxL1))


def _on_host(found: Sequence[Tensor | None], rows_K: Floats) -> Statistics:
    """The statistics of K domains, read from the device; NaN for a domain without."""
    table_3xK = np.full((3, len(found)), np.nan)
    for k, numbers_3 in enumerate(found):
        if numbers_3 is not None:
            table_3xK[:, k] = devices.on_host(numbers_3).numpy()
    squared_norm_K, variance_K, loss_K = table_3xK
    return Statistics.of_moments(squared_norm_K, variance_K, loss_K, rows_K)
