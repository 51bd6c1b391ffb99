"""How the pipeline's model passes: what it gives to the library's engine.

A device that compiles what it runs does so for each shape. There every micro-batch has the same
number of rows, whatever is left of a domain's: the first row fills it up, with a weight of 0, and
what a row weighs is a tensor like any other.

Shapes: R rows in all, s rows of a micro-batch, L tokens of a row.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pike_mixing.torch.pass_interface import Passes, Piece, Timed
from pipeline.model.transformer import Transformer, token_losses, weighted_sum_and_row_losses
from pipeline.runtime import devices, xla_chips


class PipelinePasses(Passes):
    """The chunked loss, passes of one shape for XLA, numbers on the device."""

    modes = False

    def __init__(
        self,
        model: Transformer,
        reference: Transformer | None = None,
        timed: Timed = contextlib.nullcontext,
    ) -> None:
        def clipped_excess_per_row(model: Any, tokens_sxL1: Tensor) -> Tensor:
            assert reference is not None

            # Every token is clipped before the mean (DoReMi, Algorithm 1 of arXiv 2305.10429).
            over = token_losses(model, tokens_sxL1) - token_losses(reference, tokens_sxL1)
            return over.clamp(min=0).mean(dim=1)

        excess = None if reference is None else clipped_excess_per_row
        super().__init__(row_losses, excess, timed=timed)
        self.device, self.fixed = model.device, devices.is_xla(model.device)

    def weighted_sum_with_graph_and_losses(
        self, model: Any, batch: Tensor, weight_B: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The chunked loss, which wants its weights beforehand."""
        return weighted_sum_and_row_losses(model, batch, weight_B)

    def pieces_of_this_process(
        self, batch: Tensor, weight_R: Tensor, size: int, *, whole_micro_batches: bool = False
    ) -> Iterator[Piece]:
        """The passes of this process, on the device; of one shape where it compiles."""
        # Chips share a pass's rows evenly.
        full = xla_chips.round_up_rows(size, self.device)
        pieces = super().pieces_of_this_process(
            batch, weight_R, size, whole_micro_batches=whole_micro_batches
        )
        for piece in pieces:
            tokens_sxL1, weight_s = piece.rows, piece.weight_B
            missing = full - piece.size if self.fixed else 0
            if missing:
                tokens_sxL1 = torch.cat([tokens_sxL1, tokens_sxL1[:1].expand(missing, -1)])
                weight_s = F.pad(weight_s, (0, missing))
            yield piece._replace(
                rows=xla_chips.shard_tensor(tokens_sxL1.to(self.device)),
                weight_B=xla_chips.shard_tensor(weight_s.to(self.device)),
            )

    def device_number(self, value: float) -> float | Tensor:
        """A datum where the device compiles: a plain number would be part of the program."""
        return devices.number_on_device(value, self.device)

    def clear_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Zeros where the device compiles: the first pass is then like all others."""
        for parameter in parameters:
            parameter.grad = xla_chips.zeros_divided_like(parameter) if self.fixed else None
        self.launch_recorded_operations()

    def launch_recorded_operations(self) -> None:
        """Ends a program."""
        devices.mark_step(self.device)

    def begin_fetch(self, tensor: Tensor) -> Callable[[], Tensor]:
        """Ends a program, whose tensor the function waits for."""
        if not self.fixed:
            return super().begin_fetch(tensor)
        # What is read before it was started is computed for the reader alone, and then once more.
        xla_chips.replicate_on_chips(tensor)
        self.launch_recorded_operations()
        return tensor.cpu

    def leave_no_trace(
        self, model: nn.Module, *, training: bool
    ) -> contextlib.AbstractContextManager[object]:
        """Nothing of this model changes in a pass: no buffer that changes, no dropout."""
        return contextlib.nullcontext()


def row_losses(model: Any, tokens_sxL1: Tensor) -> Tensor:
    """Mean loss of each row of L + 1 tokens, nats per token: a `RowLosses`."""
    return token_losses(model, tokens_sxL1).mean(dim=1)
