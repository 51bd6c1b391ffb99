"""Losses of rows by a model of transformers, compared with the model's own.

Shapes: B rows, L tokens.
"""

import inspect
import math
import weakref
from typing import Any

import torch
from torch import Tensor, nn

from pike_mixing.errors import InputError
from pike_mixing.torch import rows
from pike_mixing.torch.losses import (
    RowLosses,
    losses_of_outputs,
    row_means,
    token_losses_and_target_mask,
)
from pike_mixing.torch.pass_interface import current_mode_losses_without_trace, in_mode
from pike_mixing.torch.rows import Rows

COMPARED = 8
"""Rows whose loss is compared with the model's own."""
TOLERANCE = 1e-4
"""Of a loss in float32, in nats or relative where it is above one."""
HALF_TOLERANCE = 0.02
"""The same in half precision."""

_compared: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def causal_losses(model: nn.Module, batch: Rows) -> Tensor:
    """Loss of each row of a causal language model, or of another that `losses_of_outputs` knows.

    It is a `RowLosses`. At a model's first batch they are compared with the losses that the model
    itself makes of single rows, if it takes `labels`. The model takes the batch (`input_ids`, ...,
    B x L) without its labels, and returns `logits`.

    Raises:
        InputError: the model's own loss is another.
    """
    if model not in _compared:
        if _is_or_wraps_transformers_model(model):
            refuse_differing_losses(
                model,
                batch,
                _row_losses_from_logits,
                _loss_of_single_row,
                "by the model",
                "Mixing(loss_fn=...)",
            )
        _compared.add(model)
    return _row_losses_from_logits(model, batch)


def causal_excess(reference: nn.Module) -> RowLosses:
    """The excess of each row over a frozen reference, for DoReMi: `Mixing(excess_fn=...)`.

    The mean over the row's targets of max(l - l_reference, 0), clipped before the mean. The
    reference takes what `causal_losses` gives a model, on the same device.
    """

    def clipped_excess_per_row(model: nn.Module, batch: Rows) -> Tensor:
        (ours_BxL, is_target_BxL), (theirs_BxL, _) = (
            token_losses_and_target_mask(one(**inputs_without_labels(one, batch)), batch["labels"])
            for one in (model, reference)
        )
        return row_means((ours_BxL - theirs_BxL).clamp(min=0), is_target_BxL)

    return clipped_excess_per_row


def inputs_without_labels(model: nn.Module, batch: Rows) -> dict[str, Any]:
    """What a model gets in place of a batch with `labels`: the tokens that a decoder reads."""
    result = {name: part for name, part in batch.items() if name != "labels"}
    name = "prepare_decoder_input_ids_from_labels"
    shift = getattr(model, name, None) or getattr(getattr(model, "module", None), name, None)
    if shift is not None and "decoder_input_ids" not in result:
        result["decoder_input_ids"] = shift(labels=batch["labels"])
    return result


def refuse_differing_losses(
    model: nn.Module,
    batch: Rows,
    row_losses: RowLosses,
    own_loss: RowLosses,
    made_by: str,
    remedy: str,
) -> None:
    """Refuses losses of single rows that are not the own ones; nothing remains of the passes.

    The own loss is NaN where a row has no targets. The message says who made it, and the remedy.
    """
    place = next((p.device.type for p in model.parameters()), "cpu")
    halves = (torch.bfloat16, torch.float16)
    half = torch.is_autocast_enabled(place) or any(p.dtype in halves for p in model.parameters())
    tolerance = HALF_TOLERANCE if half else TOLERANCE
    with in_mode(model, training=False):
        for row in rows.split(batch, 1)[:COMPARED]:
            own, result = (
                float(current_mode_losses_without_trace(model, f, row))
                for f in (own_loss, row_losses)
            )
            if not (math.isnan(own) or abs(result - own) <= tolerance * max(1, abs(own))):
                raise InputError(
                    f"the loss of a row is {own:.6g} {made_by} and {result:.6g} by its logits and "
                    "labels: other targets, label smoothing, class weights or an auxiliary loss? "
                    f"Give {remedy}, the losses that the method is to see"
                )


def _row_losses_from_logits(model: nn.Module, batch: Rows) -> Tensor:
    return losses_of_outputs(model(**inputs_without_labels(model, batch)), batch["labels"])


def _loss_of_single_row(model: nn.Module, row: Rows) -> Tensor:
    outputs: Any = model(**row)
    loss = outputs[0] if isinstance(outputs, tuple) else outputs["loss"]
    result: Tensor = loss.reshape(1)
    return result


def _is_or_wraps_transformers_model(model: nn.Module) -> bool:
    """Whether it is a model of transformers, or only hands a batch on to one."""
    inner: nn.Module = getattr(model, "module", model)
    taken = inspect.signature(inner.forward).parameters
    if "labels" in taken:
        return hasattr(inner, "config")
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values()):
        return False
    return any(
        hasattr(child, "config") and _is_or_wraps_transformers_model(child)
        for child in inner.children()
    )
