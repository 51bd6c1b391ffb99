"""The rows of one step: those that each process draws for itself, and those that all know.

Both are `StepRows`. A loader gives each process micro-batches of its own (`StepRecord`), and only
sums by domain cross between processes. In the pipeline's loop every process knows all rows
(`DealtRows`): they are dealt in their order; where numbers depend on which rows pass together,
whole micro-batches are dealt, so that a variance is over the same ones as in one process.

Shapes: K domains, B rows of this process's micro-batch, R rows of all processes.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.torch import gradient_moments, parallel, rows
from pike_mixing.torch.losses import checked_losses
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.pass_interface import DomainRows, Passes, Piece
from pike_mixing.torch.rows import Rows
from pike_mixing.torch.step_gradient import StepResult


@dataclasses.dataclass
class StepRecord:
    """The rows of a step on this process (`StepRows`), and what was measured of them."""

    count_K: Ints
    """Rows of each domain over all processes."""
    domains_of: list[Ints] = dataclasses.field(default_factory=list)
    """Domain of each row, by micro-batch; none before the step has begun."""
    micro_batches: list[Rows] = dataclasses.field(default_factory=list)
    """The rows, where the method measures."""
    group: Group = None
    """The data-parallel processes."""
    spare: Rows = None
    """A row to pass without counting it, where this process has none and others have."""
    losses: list[Tensor] = dataclasses.field(default_factory=list)
    """Of each row, by micro-batch: those of the training's passes so far."""
    result: StepResult | None = None
    """What was measured of the batch before the training's passes, or what `Mixing.backward` left;
    None before."""

    @property
    def has_all_losses(self) -> bool:
        """Whether the losses of all micro-batches are there."""
        return 0 < len(self.domains_of) == len(self.losses)

    def note_losses_and_return_domains(self, loss_B: Tensor) -> Ints:
        """Notes the losses of the next micro-batch, and returns the domain of each row."""
        if len(self.losses) == len(self.domains_of):
            raise InputError(
                "losses without a step: take its micro-batches from mixing.data_loader, or give "
                "them all to begin_step; after the last, call end_step"
            )
        domain_B = self.domains_of[len(self.losses)]
        self.losses.append(checked_losses(loss_B, len(domain_B)).detach())
        return domain_B

    def row_weights(self, domain_B: Ints, share_K: Floats) -> Tensor:
        """Weight of each row: share_k / b_k, with b_k rows over all processes."""
        return torch.from_numpy((share_K / self.count_K.clip(min=1))[domain_B])

    def pieces(self, share_K: Floats | None = None) -> Iterator[Piece]:
        """The micro-batches, see `StepRows`."""
        for domain_B, batch in zip(self.domains_of, self.micro_batches, strict=True):
            B = len(domain_B)
            weight_B = torch.ones(B) if share_K is None else self.row_weights(domain_B, share_K)
            yield Piece(batch, weight_B, B, 1.0)

    def rows_by_domain(self, size: int, *, whole_micro_batches: bool) -> list[DomainRows]:
        """The rows by domain, see `StepRows`."""
        pieces_K: list[list[Rows]] = [[] for _ in self.count_K]
        for domain_B, batch in zip(self.domains_of, self.micro_batches, strict=True):
            for k, pieces in enumerate(pieces_K):
                own = torch.from_numpy(np.flatnonzero(domain_B == k))
                pieces += rows.split(rows.select(batch, own), size)
        return gradient_moments.domain_rows_with_equal_passes(pieces_K, self.group, self.spare)

    def gather_for_domain_means(self, parts: Sequence[tuple[Piece, Tensor]]) -> Tensor:
        """Sums of numbers by domain over all processes, then rows (2K)."""
        return self._sums_and_rows_over_processes([numbers for _, numbers in parts])

    def _sums_and_rows_over_processes(self, parts: Sequence[Tensor]) -> Tensor:
        sums_2xK = np.zeros((2, len(self.count_K)))
        for domain_B, number_B in zip(self.domains_of, parts, strict=True):
            np.add.at(sums_2xK[0], domain_B, number_B.double().cpu().numpy())
            np.add.at(sums_2xK[1], domain_B, 1)
        sums_2K = torch.from_numpy(sums_2xK.flatten()).to(parallel.communication_device(self.group))
        parallel.sum_in_place([sums_2K], self.group)
        return sums_2K

    def domain_means_of_gathered(self, gathered: Tensor) -> Floats:
        """Mean of each domain's rows; NaN for a domain without rows."""
        total_K, rows_K = gathered.cpu().numpy().reshape(2, -1)
        with np.errstate(invalid="ignore"):
            mean_K: Floats = total_K / rows_K
        return mean_K

    def training_losses(self) -> Floats | None:
        """Mean loss of each domain in the training's passes, where they are all there."""
        return (
            self.domain_means_of_gathered(self._sums_and_rows_over_processes(self.losses))
            if self.has_all_losses
            else None
        )


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
        device = rows.device(self.batch)
        weight_R = torch.ones(int(self.count_K.sum()), device=device)
        if share_K is not None:
            weights = np.repeat(share_K, self.count_K) / np.repeat(self.count_K, self.count_K)
            weight_R = torch.from_numpy(weights).float().to(device, non_blocking=True)
        return self.passes.pieces_of_this_process(self.batch, weight_R, self.size)

    def rows_by_domain(self, size: int, *, whole_micro_batches: bool) -> list[DomainRows]:
        """The rows by domain, see `StepRows`."""
        result, at = [], 0
        for R in self.count_K.tolist():
            n = math.ceil(R / size)
            whole = whole_micro_batches and (n > 1 or self.passes.fixed)
            batch = rows.select(self.batch, slice(at, at + R))
            weight_R = torch.ones(R, device=rows.device(batch))
            pieces = self.passes.pieces_of_this_process(
                batch, weight_R, size, whole_micro_batches=whole
            )
            result.append(DomainRows(pieces, R, n))
            at += R
        return result

    def gather_for_domain_means(self, parts: Sequence[tuple[Piece, Tensor]]) -> Tensor:
        """A number of each row, in their order."""
        own = [(numbers[: piece.size], piece.counts) for piece, numbers in parts]
        return parallel.gather_numbers_of_rows(own, int(self.count_K.sum()), self.passes.group)

    def domain_means_of_gathered(self, gathered: Tensor) -> Floats:
        """Mean of each domain's rows; NaN for a domain without rows."""
        of_domains = gathered.double().split(self.count_K.tolist())
        return torch.stack([of_rows.mean() for of_rows in of_domains]).numpy()
