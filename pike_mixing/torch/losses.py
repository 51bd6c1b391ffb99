"""Losses of rows, and their means by domain.

Shapes: B rows, L tokens, V vocabulary, K domains.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.torch import parallel, rows
from pike_mixing.torch.rows import Rows
from pike_mixing.torch.undisturbed import undisturbed

IGNORED = -100
"""Label of a token that is no target."""

RowLosses = Callable[[nn.Module, Rows], Tensor]
"""The loss of each row, B numbers with a graph."""


UNSHIFTED = ("MaskedLM", "Seq2SeqLM", "TokenClassifier")
"""In the names of the outputs' classes, where a label stands at its own logits."""


def causal_losses(model: nn.Module, batch: Rows) -> Tensor:
    """Loss of each row of a causal language model, or another that `of_outputs` knows: a RowLosses.

    Args:
        model: Takes the batch without its labels, and returns `logits`.
        batch: `input_ids` and `labels`, B x L, with what else the model takes.
    """
    inputs = {name: part for name, part in batch.items() if name != "labels"}
    return of_outputs(model(**inputs), batch["labels"])


def logits_of(outputs: Any) -> Tensor | None:
    """The logits among a model's outputs, if there are any."""
    if isinstance(outputs, tuple):
        return next((part for part in outputs if isinstance(part, Tensor) and part.ndim > 1), None)
    if isinstance(outputs, Mapping):
        return outputs.get("logits")
    return getattr(outputs, "logits", None)


def of_outputs(outputs: Any, labels: Tensor) -> Tensor:
    """Loss of each row by the outputs of a model of Hugging Face: next tokens where they are alone.

    Masked and encoder-decoder models and classifiers are told by the class of their outputs.

    Raises:
        InputError: there are no logits that fit the labels.
    """
    logits = logits_of(outputs)
    shifted = not any(name in type(outputs).__name__ for name in UNSHIFTED)
    if logits is not None and logits.ndim == 2 and logits.shape[1] > 1:
        logits, labels, shifted = logits[:, None], labels[:, None], False
    if logits is None or labels.is_floating_point() or logits.shape[:-1] != labels.shape:
        raise InputError(
            f"{type(outputs).__name__}: logits of shape {tuple(getattr(logits, 'shape', ()))} for "
            f"{labels.dtype} labels of shape {tuple(labels.shape)}: give the loss of each row "
            "(attach(row_losses=...), Mixing(loss_fn=...))"
        )
    return of_logits(logits, labels, shifted=shifted)


def of_logits(logits_BxLxV: Tensor, labels_BxL: Tensor, *, shifted: bool = True) -> Tensor:
    """Mean loss of each row's next tokens, nats per token; 0 for a row without targets.

    Args:
        logits_BxLxV: The model's.
        labels_BxL: Target tokens; IGNORED where there is none.
        shifted: Whether logits are those of the next label, or of the one at their place.
    """
    if shifted:
        logits_BxLxV, labels_BxL = logits_BxLxV[:, :-1], labels_BxL[:, 1:]
    target_BxL = labels_BxL.to(logits_BxLxV.device)
    loss_BxL = functional.cross_entropy(
        logits_BxLxV.float().transpose(1, 2), target_BxL, ignore_index=IGNORED, reduction="none"
    )
    return loss_BxL.sum(dim=1) / (target_BxL != IGNORED).sum(dim=1).clamp(min=1)


def checked(loss_B: Tensor, B: int) -> Tensor:
    """The losses of B rows.

    Raises:
        InputError: it is another number of losses.
    """
    if loss_B.shape != (B,):
        raise InputError(
            f"losses of shape {tuple(loss_B.shape)} for {B} rows: give the loss of each row "
            '(reduction="none", then the mean over its tokens)'
        )
    return loss_B


def without_gradient(model: nn.Module, loss_fn: RowLosses, batch: Rows) -> Tensor:
    """Losses of the rows of a batch, in a pass of which nothing remains."""
    with undisturbed(model), parallel.unsynchronized(model) as plain, torch.no_grad():
        torch.clear_autocast_cache()
        loss_B = checked(loss_fn(plain, batch), rows.count(batch))
        torch.clear_autocast_cache()
    for unit in parallel.sharded_units(model):
        # Weights that stay put together would be the old ones after the optimizer's update.
        unit.reshard()  # type: ignore[operator]
    return loss_B


class DomainLosses:
    """Mean loss of each domain's rows, of losses that come in pieces."""

    def __init__(self, K: int) -> None:
        self._K = K
        self._found: list[tuple[Ints, Tensor]] = []

    def add(self, domain_B: Ints, loss_B: Tensor) -> None:
        """Takes the losses of some rows; they stay on the device until the means are asked for."""
        self._found.append((domain_B, loss_B.detach()))

    def mean(self) -> Floats:
        """Means by domain; NaN for one without rows."""
        total_K, rows_K = np.zeros(self._K), np.zeros(self._K)
        for domain_B, loss_B in self._found:
            np.add.at(total_K, domain_B, loss_B.double().cpu().numpy())
            np.add.at(rows_K, domain_B, 1)
        with np.errstate(invalid="ignore"):
            mean_K: Floats = total_K / rows_K
        return mean_K
