"""Rows that every process knows: how they are divided among the processes.

Rows are dealt in their order; where numbers depend on which rows pass together, whole micro-batches
are dealt, so that a variance is over the same ones as in one process.

Shapes: K domains, R rows.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from pike_mixing.arrays import Floats, Ints
from pike_mixing.torch import parallel
from pike_mixing.torch import rows as rows_
from pike_mixing.torch.passes import DomainRows, Passes, Piece
from pike_mixing.torch.rows import Rows


@dataclasses.dataclass(eq=False)
class DealtRows:
    """Rows in the domains' order; `Passes.pieces` deals them."""

    passes: Passes
    """How passes are made."""
    batch: Rows
    """The rows of all domains; at least one."""
    count_K: Ints
    """Rows of each."""
    size: int
    """Rows of a pass."""

    def pieces(self, share_K: Floats | None = None) -> Iterator[Piece]:
        """The passes over all rows, see `StepRows`."""
        device = rows_.device(self.batch)
        weight_R = torch.ones(int(self.count_K.sum()), device=device)
        if share_K is not None:
            weights = np.repeat(share_K, self.count_K) / np.repeat(self.count_K, self.count_K)
            weight_R = torch.from_numpy(weights).float().to(device, non_blocking=True)
        return self.passes.pieces(self.batch, weight_R, self.size)

    def domains(self, size: int, *, with_variance: bool) -> list[DomainRows]:
        """The rows by domain, see `StepRows`."""
        result, at = [], 0
        for R in self.count_K.tolist():
            n = math.ceil(R / size)
            whole = with_variance and (n > 1 or self.passes.fixed)
            batch = rows_.select(self.batch, slice(at, at + R))
            weight_R = torch.ones(R, device=rows_.device(batch))
            result.append(DomainRows(self.passes.pieces(batch, weight_R, size, whole=whole), R, n))
            at += R
        return result

    def joined(self, parts: Sequence[tuple[Piece, Tensor]]) -> Tensor:
        """A number of each row, in their order."""
        own = [(numbers[: piece.size], piece.counts) for piece, numbers in parts]
        return parallel.join_rows(own, int(self.count_K.sum()), self.passes.group)

    def means(self, joined: Tensor) -> Floats:
        """Mean of each domain's rows; NaN for a domain without rows."""
        of_domains = joined.double().split(self.count_K.tolist())
        return torch.stack([of_rows.mean() for of_rows in of_domains]).numpy()
