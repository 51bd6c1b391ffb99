"""Losses of rows, and their means by domain.

Shapes: B rows, L tokens, V vocabulary, K domains.
"""

from collections.abc import Callable

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


def causal_losses(model: nn.Module, batch: Rows) -> Tensor:
    """Loss of each row of a causal language model of Hugging Face: a RowLosses.

    Args:
        model: Takes the batch without its labels, and returns `logits`.
        batch: `input_ids` and `labels`, B x L, with what else the model takes.
    """
    inputs = {name: part for name, part in batch.items() if name != "labels"}
    return of_logits(model(**inputs).logits, batch["labels"])


def of_logits(logits_BxLxV: Tensor, labels_BxL: Tensor) -> Tensor:
    """Mean loss of each row's next tokens, nats per token; 0 for a row without targets."""
    target_BxL = labels_BxL[:, 1:].to(logits_BxLxV.device)
    loss_BxL = functional.cross_entropy(
        logits_BxLxV[:, :-1].float().transpose(1, 2),
        target_BxL,
        ignore_index=IGNORED,
        reduction="none",
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
