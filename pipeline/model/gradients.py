"""Gradients of each domain's loss: their norms, variances and inner products.

The gradient of a domain is that of its mean loss over rows. Rows are taken in micro-batches; with
n micro-batches of s_i rows (R in all), gradients g_i and their row-weighted mean g,

    sum_i s_i |g_i|^2 - R |g|^2 = (n - 1) sigma^2    in expectation

gives an unbiased estimate of the variance sigma^2 of one row's gradient for micro-batches of any
size, and |g|^2 - sigma^2 / R an unbiased one of the true squared norm. With micro-batches of one
row it is the variance of the rows themselves.

Three ways lead to these numbers, all of them through `of_domain`: `statistics` measures rows of
their own in a pass of its own; `of_batch_measured` and `gramian` measure the rows of a training
batch on the way to its gradient, in passes that the step makes anyway.

The model is ours, in shards or whole, or any other whole one that `model.token_losses` takes.

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
from torch import Tensor, nn

from pike_mixing.arrays import Floats
from pike_mixing.interface import Statistics
from pipeline.model import microbatches
from pipeline.model.gradient_vectors import add, clear, inner, products, squared, total, trained
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
    rows: int
    """Rows used."""


def domain_gradient(
    model: nn.Module,
    tokens_RxL1: Tensor,
    microbatch: int,
    *,
    spread: bool = True,
    timed: Timed = untimed,
) -> DomainGradient:
    """Gradient of the mean loss of one domain's rows; at least one row.

    Micro-batches add up in place, and the norm of each is read as it arrives: one gradient is all
    the memory. What lies in the parameters' gradients stays as it is.

    Args:
        model: The model at the current weights.
        tokens_RxL1: The domain's rows.
        microbatch: Rows per backward pass.
        spread: Whether the variance is wanted; without it, it is NaN.
        timed: Clock of the passes.
    """
    parameters, device = trained(model), _device(model)
    kept = [p.grad for p in parameters]
    R, n = len(tokens_RxL1), math.ceil(len(tokens_RxL1) / microbatch)
    # A program that measures one micro-batch, and finds NaN, is the one that measures several.
    spread = spread and (n > 1 or devices.compiles(device))
    rows, others = (devices.number(x, device) for x in (R, n - 1 if n > 1 else math.nan))
    every_R = torch.ones(R, device=tokens_RxL1.device)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    weighted_squares = torch.zeros_like(loss)
    clear(model)
    heard = getattr(model, "gathered", None) or parameters
    with _arriving(heard if spread else [], timed) as squares:
        for piece in microbatches.split_rows(
            tokens_RxL1, every_R, microbatch, device, whole=spread
        ):
            loss_s = _backward(model, piece, piece.weight_s / rows, timed)
            loss += (loss_s.double() * piece.weight_s).sum() / rows
            if spread:
                # What arrives is s / R of the micro-batch's mean gradient.
                weighted_squares += total(squares) * devices.number(R**2 / piece.rows, device)
                squares.clear()
            devices.mark_step(device)
    # A parameter that takes no part in the loss has a gradient of zero.
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    for p, before in zip(parameters, kept, strict=True):
        p.grad = before
    distributed.all_reduce_gradients(parts)
    distributed.all_reduce_sum([loss, weighted_squares])
    with timed("statistics"):
        squared_norm, variance = squared(parts), torch.full_like(loss, math.nan)
    if spread:
        variance = (weighted_squares - rows * squared_norm) / others
    devices.mark_step(device)
    return DomainGradient(parts, squared_norm, variance, loss, R)


def gradient_statistics(
    model: nn.Module, rows_by_domain: Sequence[Tensor], microbatch: int
) -> Statistics:
    """Norms, variances and losses of each domain; memory of one gradient beside the model.

    Args:
        model: The model at the current weights.
        rows_by_domain: For each of the K domains its rows, R_k x (L+1); none gives NaN.
        microbatch: Rows per backward pass.
    """
    measured = []
    for rows in rows_by_domain:
        # Only the numbers are kept: the next domain takes the gradient's memory.
        measured.append(to_scalars(domain_gradient(model, rows, microbatch) if len(rows) else None))
    return stack_statistics(measured)


def measured_batch_gradient(
    model: nn.Module,
    rows_by_domain: Sequence[Tensor],
    share_K: Floats,
    microbatch: int,
    timed: Timed = untimed,
) -> Statistics:
    """Adds the gradient of sum_k share_k L_k to the parameters' and returns what it is made of.

    `of_batch` and `statistics` in one: the domains' gradients are made one after the other, and
    each is measured and added to the sum. Beside the sum, memory of one gradient.

    Args:
        model: The model at the current weights.
        rows_by_domain: The batch's rows, R_k x (L+1) for each of the K domains; none gives NaN.
        share_K: Weight of each domain's mean loss; b_k / b is equation `eq: mix_framework`.
        microbatch: Rows per backward pass.
        timed: Clock of the passes.
    """
    measured = []
    for rows, share in zip(rows_by_domain, share_K.tolist(), strict=True):
        g = domain_gradient(model, rows, microbatch, timed=timed) if len(rows) else None
        measured.append(to_scalars(g))
        if g is not None:
            add(model, g.parts, share)
        # The next domain's gradient takes this one's memory.
        del g
    return stack_statistics(measured)


def gramian(
    model: nn.Module,
    rows_by_domain: Sequence[Tensor],
    microbatch: int,
    *,
    spread: bool = True,
    timed: Timed = untimed,
) -> tuple[list[list[Tensor] | None], Floats, Statistics]:
    """All K gradients, their inner products G_jk = g_j . g_k (float64) and their statistics.

    A domain without rows has no gradient (None), and NaN in its row and column of G. Memory of K
    gradients.

    Args:
        model: The model at the current weights.
        rows_by_domain: For each of the K domains its rows, R_k x (L+1).
        microbatch: Rows per backward pass.
        spread: Whether the variances are wanted; without them, they are NaN.
        timed: Clock of the passes.
    """
    gradients = [
        domain_gradient(model, rows, microbatch, spread=spread, timed=timed) if len(rows) else None
        for rows in rows_by_domain
    ]
    measured = stack_statistics([to_scalars(g) for g in gradients])
    gram_KxK = np.full((len(gradients), len(gradients)), np.nan)
    np.fill_diagonal(gram_KxK, measured.squared_norm_K)
    present = [(k, g.parts) for k, g in enumerate(gradients) if g is not None]
    pairs = list(itertools.combinations(present, 2))
    if pairs:
        with timed("statistics"):
            found = []
            for (_, first), (_, second) in pairs:
                found.append(inner(first, second))
                devices.mark_step(_device(model))
        for ((j, _), (k, _)), product in zip(pairs, found, strict=True):
            gram_KxK[j, k] = gram_KxK[k, j] = float(devices.on_host(product))
    return [None if g is None else g.parts for g in gradients], gram_KxK, measured


def batch_gradient(
    model: nn.Module,
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
    for piece in microbatches.split_rows(tokens_BxL1, weight_B, microbatch, _device(model)):
        loss_s = _backward(model, piece, piece.weight_s, timed)
        devices.mark_step(_device(model))
        found.append((piece, loss_s))
    distributed.all_reduce_gradients([p.grad for p in trained(model) if p.grad is not None])
    return microbatches.join_rows(found, len(tokens_BxL1))


def _backward(model: nn.Module, piece: MicroBatch, weight_s: Tensor, timed: Timed) -> Tensor:
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
def losses(model: nn.Module, tokens_BxL1: Tensor, microbatch: int) -> Tensor:
    """Loss of each row, nats per token, without gradients."""
    return _of_rows(
        model, tokens_BxL1, microbatch, lambda tokens: token_losses(model, tokens).mean(dim=1)
    )


@torch.no_grad()
def excess(model: nn.Module, reference: nn.Module, tokens_BxL1: Tensor, microbatch: int) -> Tensor:
    """Mean over each row's tokens of max(l - l_reference, 0), nats.

    Every token is clipped before the mean (DoReMi, Algorithm 1 of arXiv 2305.10429).
    """

    def of_rows(tokens: Tensor) -> Tensor:
        over = token_losses(model, tokens) - token_losses(reference, tokens)
        return over.clamp(min=0).mean(dim=1)

    return _of_rows(model, tokens_BxL1, microbatch, of_rows)


def _of_rows(
    model: nn.Module, tokens_BxL1: Tensor, microbatch: int, of_rows: Callable[[Tensor], Tensor]
) -> Tensor:
    """A number of each row, from passes without gradients."""
    found, every_B = [], torch.ones(len(tokens_BxL1), device=tokens_BxL1.device)
    for piece in microbatches.split_rows(tokens_BxL1, every_B, microbatch, _device(model)):
        number_s = of_rows(piece.tokens_sxL1)
        devices.mark_step(_device(model))
        found.append((piece, number_s))
    if isinstance(model, Transformer):
        model.reshard()
    return microbatches.join_rows(found, len(tokens_BxL1))


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def to_scalars(g: DomainGradient | None) -> tuple[Tensor | None, int]:
    """What `gathered` keeps of a gradient."""
    if g is None:
        return None, 0
    found = torch.stack([g.squared_norm, g.variance, g.loss])
    devices.mark_step(found.device)
    return found, g.rows


def stack_statistics(measured: Sequence[tuple[Tensor | None, int]]) -> Statistics:
    """The statistics of K domains, read from the device; NaN for a domain without."""
    present = [found for found, _ in measured if found is not None]
    table_3xK = np.full((3, len(measured)), np.nan)
    rows_K = np.array([rows for _, rows in measured], dtype=np.float64)
    if present:
        table_3xK[:, rows_K > 0] = torch.stack([devices.on_host(p) for p in present], dim=1).numpy()
    squared_norm_K, variance_K, loss_K = table_3xK
    return Statistics(
        squared_norm_K=squared_norm_K,
        squared_norm_unbiased_K=squared_norm_K - variance_K / rows_K,
        variance_K=variance_K,
        loss_K=loss_K,
        rows_K=rows_K,
    )
