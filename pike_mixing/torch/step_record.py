"""What is known of one step while it runs.

Shapes: K domains, B rows of this process's micro-batch.
"""

import dataclasses

import numpy as np
import torch
from torch import Tensor

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Signals, Statistics
from pike_mixing.torch.losses import DomainLosses, checked
from pike_mixing.torch.rows import Rows


@dataclasses.dataclass
class StepRecord:
    """The rows of a step on this process, and what was measured of them."""

    K: int
    """Domains."""
    domains_of: list[Ints] = dataclasses.field(default_factory=list)
    """Domain of each row, by micro-batch; none before the step has begun."""
    micro_batches: list[Rows] = dataclasses.field(default_factory=list)
    """The rows, where the method measures."""
    passed: int = 0
    """Micro-batches whose losses are there."""
    losses: DomainLosses = dataclasses.field(init=False)
    """Of the training's passes."""
    before_K: Floats | None = None
    """Losses before these passes, in evaluation mode as those after the update."""
    statistics: Statistics | None = None
    """Those of the step, before it or out of its batch."""
    gram_KxK: Floats | None = None
    """Inner products of the batch's gradients."""
    coefficient_K: Floats | None = None
    """Factors of the domains' mean losses; None: their shares of the batch."""

    def __post_init__(self) -> None:
        """Without losses yet."""
        self.losses = DomainLosses(self.K)

    @property
    def complete(self) -> bool:
        """Whether the losses of all micro-batches are there."""
        return 0 < len(self.domains_of) == self.passed

    def take(self, loss_B: Tensor) -> Ints:
        """Notes the losses of the next micro-batch, and returns the domain of each row.

        Raises:
            InputError: no step runs, or these are not the losses of each row.
        """
        if self.passed == len(self.domains_of):
            raise InputError(
                "losses without a step: take its micro-batches from mixing.data_loader, or give "
                "them all to begin_step; after the last, call end_step"
            )
        domain_B = self.domains_of[self.passed]
        self.losses.add(domain_B, checked(loss_B, len(domain_B)))
        self.passed += 1
        return domain_B

    def weights(self, domain_B: Ints, count_K: Ints) -> Tensor:
        """Factor of each row's loss: c_k / b_k, or 1 / b.

        Args:
            domain_B: Domain of each row.
            count_K: Rows of the whole step, over all processes.
        """
        factor_K = np.full(self.K, 1 / count_K.sum())
        if self.coefficient_K is not None:
            factor_K = self.coefficient_K / count_K.clip(min=1)
        return torch.from_numpy(factor_K[domain_B])

    def signals(self, step: int) -> Signals:
        """Counts of this process, and its losses where they are all there."""
        domain_B = np.concatenate(self.domains_of)
        count_K = np.bincount(domain_B, minlength=self.K).astype(np.int64)
        loss_K = self.losses.mean() if self.complete else None
        return Signals(step, int(count_K.sum()), count_K=count_K, loss_K=loss_K)
