"""Losses of rows.

Shapes: B rows, L tokens, V vocabulary.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pike_mixing.errors import InputError
from pike_mixing.torch import chunked_loss
from pike_mixing.torch.rows import Rows

IGNORED = -100
"""Label of a token that is no target."""

RowLosses = Callable[[nn.Module, Rows], Tensor]
"""The loss of each row, B numbers with a graph."""


UNSHIFTED = ("MaskedLM", "Seq2SeqLM", "TokenClassifier")
"""In the names of the outputs' classes, where a label stands at its own logits."""


def logits_of(outputs: Any) -> Tensor | None:
    """The logits among a model's outputs, if there are any."""
    if isinstance(outputs, tuple):
        return next((part for part in outputs if isinstance(part, Tensor) and part.ndim > 1), None)
    if isinstance(outputs, Mapping):
        return outputs.get("logits")
    return getattr(outputs, "logits", None)


def losses_of_outputs(outputs: Any, labels: Tensor) -> Tensor:
    """Loss of each row by the outputs of a model of Hugging Face: next tokens where they are alone.

    Masked and encoder-decoder models and classifiers are told by the class of their outputs.

    Raises:
        InputError: there are no logits that fit the labels.
    """
    return row_means(*token_losses_and_target_mask(outputs, labels))


def losses_of_logits(logits_BxLxV: Tensor, labels_BxL: Tensor, *, shifted: bool = True) -> Tensor:
    """Mean loss of each row's next tokens, nats per token; 0 for a row without targets.

    Args:
        logits_BxLxV: The model's.
        labels_BxL: Target tokens; IGNORED where there is none.
        shifted: Whether logits are those of the next label, or of the one at their place.
    """
    return row_means(*_token_losses_and_mask_of_logits(logits_BxLxV, labels_BxL, shifted=shifted))


def token_losses_and_target_mask(outputs: Any, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each token, and whether it is a target, as of `losses_of_outputs`.

    Raises:
        InputError: there are no logits that fit, or a loss of the model's own beside them.
    """
    logits = logits_of(outputs)
    if getattr(outputs, "aux_loss", None) is not None:
        raise InputError(
            f"{type(outputs).__name__}: the model adds an auxiliary loss of its routers to that of "
            "the tokens, which belongs to no row: set output_router_logits=False in its config, or "
            "give losses that hold it (attach(row_losses=...), Mixing(loss_fn=...))"
        )
    shifted = not any(name in type(outputs).__name__ for name in UNSHIFTED)
    if logits is not None and logits.ndim == 2 and logits.shape[1] > 1:
        logits, labels, shifted = logits[:, None], labels[:, None], False
    if logits is None or labels.is_floating_point() or logits.shape[:-1] != labels.shape:
        raise InputError(
            f"{type(outputs).__name__}: logits of shape {tuple(getattr(logits, 'shape', ()))} for "
            f"{labels.dtype} labels of shape {tuple(labels.shape)}: give the loss of each row "
            "(attach(row_losses=...), Mixing(loss_fn=...))"
        )
    return _token_losses_and_mask_of_logits(logits, labels, shifted=shifted)


def _token_losses_and_mask_of_logits(
    logits_BxLxV: Tensor, labels_BxL: Tensor, *, shifted: bool
) -> tuple[Tensor, Tensor]:
    target_BxL = labels_BxL.to(logits_BxLxV.device)
    if shifted:
        # The logits themselves would have to be copied.
        target_BxL = functional.pad(target_BxL[:, 1:], (0, 1), value=IGNORED)
    loss_N: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits_BxLxV.flatten(0, 1), target_BxL.flatten()
    )
    return loss_N.view(target_BxL.shape), target_BxL != IGNORED


class _CrossEntropy(torch.autograd.Function):
    """Loss of each token in nats, float32; 0 for an IGNORED one.

    No other copy of the logits is made than their gradient: single chunks of tokens are float32.
    """

    @staticmethod
    def forward(ctx: Any, logits_NxV: Tensor, target_N: Tensor) -> Tensor:
        ctx.save_for_backward(logits_NxV, target_N)
        rows = chunked_loss.tokens_per_chunk(*logits_NxV.shape)
        pieces = zip(logits_NxV.split(rows), target_N.split(rows), strict=True)
        result = [
            functional.cross_entropy(logits.float(), target, ignore_index=IGNORED, reduction="none")
            for logits, target in pieces
        ]
        return torch.cat(result)

    @staticmethod
    def backward(ctx: Any, slope_N: Tensor) -> tuple[Tensor, None]:
        logits_NxV, target_N = ctx.saved_tensors
        if torch.is_grad_enabled():
            # Of a gradient that is to be differentiated: in steps that torch follows.
            loss_N = functional.cross_entropy(
                logits_NxV.float(), target_N, ignore_index=IGNORED, reduction="none"
            )
            return torch.autograd.grad(loss_N, logits_NxV, slope_N, create_graph=True)[0], None
        weight_N = slope_N.where(target_N != IGNORED, 0)
        of_logits_NxV = torch.empty_like(logits_NxV)
        rows = chunked_loss.tokens_per_chunk(*logits_NxV.shape)
        for begin in range(0, len(target_N), rows):
            piece = slice(begin, begin + rows)
            slope_nxV = logits_NxV[piece].float().softmax(dim=1)
            hit_nx1 = target_N[piece, None].clamp(min=0)
            slope_nxV.scatter_add_(1, hit_nx1, -torch.ones_like(hit_nx1, dtype=slope_nxV.dtype))
            of_logits_NxV[piece] = slope_nxV.mul_(weight_N[piece, None])
        return of_logits_NxV, None


def row_means(loss_BxL: Tensor, is_target_BxL: Tensor) -> Tensor:
    """Mean loss of each row's targets; 0 for a row without."""
    return loss_BxL.sum(dim=1) / is_target_BxL.sum(dim=1).clamp(min=1)


def checked_losses(loss_B: Tensor, B: int) -> Tensor:
    """The losses of B rows.

    Raises:
        InputError: it is another number of losses, or no tensor.
    """
    if not isinstance(loss_B, Tensor):
        raise InputError(f"losses: a {type(loss_B).__name__}: give a tensor of {B} losses")
    if loss_B.shape != (B,):
        raise InputError(
            f"losses of shape {tuple(loss_B.shape)} for {B} rows: give the loss of each row "
            '(reduction="none", then the mean over its tokens)'
        )
    return loss_B
