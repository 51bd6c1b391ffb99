"""From one batch to the gradient that the mixing method wants, left in the parameters.

There are three ways, and a method's needs choose one: a single backward pass over weighted losses,
all K gradients combined by coefficients, or K gradients for an optimizer with K moments. Where
gradient statistics of the batch are due, each of them takes the rows domain by domain and measures
on its way, so that no other pass is made.

Shapes: K domains, B rows of a batch, L tokens of a row.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Signals, State
from pipeline.model import adamw, gradient_vectors, gradients
from pipeline.model.per_domain_adamw import PerDomainAdamW
from pipeline.model.transformer import Transformer
from pipeline.runtime import devices
from pipeline.runtime.timing import Timed, untimed


@dataclasses.dataclass(frozen=True)
class Batch:
    """The rows of one step, grouped by domain in the domains' order."""

    tokens_BxL1: Tensor
    count_K: Ints
    """Rows of each domain."""

    def shares(self) -> Floats:
        """b_k / b of equation `eq: mix_framework`."""
        share_K: Floats = self.count_K / self.count_K.sum()
        return share_K

    def by_domain(self) -> list[Tensor]:
        """Rows of each domain."""
        return list(self.tokens_BxL1.split(self.count_K.tolist()))

    def row_weights(self, share_K: Floats) -> Tensor:
        """Weights of the rows, of which each of the b_k of domain k counts share_k / b_k."""
        weight_B = np.repeat(share_K, self.count_K) / np.repeat(self.count_K, self.count_K)
        return torch.from_numpy(weight_B).float().to(self.tokens_BxL1.device)

    def means(self, row_B: Tensor) -> Floats:
        """Mean of each domain's rows; NaN for a domain without rows."""
        of_domains = devices.on_host(row_B).double().split(self.count_K.tolist())
        return torch.stack([of_rows.mean() for of_rows in of_domains]).numpy()

    def losses(self, model: Transformer, microbatch: int) -> Floats:
        """Mean loss of each domain's rows at the current weights; NaN for one without rows."""
        return self.means(gradients.losses(model, self.tokens_BxL1, microbatch))

    def excess(self, model: Transformer, reference: Transformer, microbatch: int) -> Floats:
        """Mean excess of each domain's tokens over the reference; NaN for one without rows."""
        return self.means(gradients.excess(model, reference, self.tokens_BxL1, microbatch))


@dataclasses.dataclass(frozen=True)
class BackwardResult:
    """What a backward pass leaves beside the gradient."""

    seen: Signals
    """What was measured on the way."""
    norm: float
    """The gradient's norm before clipping."""
    coefficient_K: Floats | None
    """Weights of the domains' losses, or of their gradients, where the method chose them."""

    @property
    def losses(self) -> Floats:
        """Mean loss of each domain's rows; NaN for a domain without rows."""
        assert self.seen.loss_K is not None
        return self.seen.loss_K

    def refuse_nan(self, domains: Sequence[str], folder: Path) -> None:
        """Makes sure that losses and norm are numbers.

        Args:
            domains: Names of the domains.
            folder: The run's folder, for the message.

        Raises:
            InputError: one is not.
        """
        count_K = self.seen.count_K
        assert count_K is not None
        bad_K = ~np.isfinite(self.losses) & (count_K > 0)
        bad = [domain for domain, is_bad in zip(domains, bad_K.tolist(), strict=True) if is_bad]
        if bad or not math.isfinite(self.norm):
            what = f"the loss of {', '.join(bad)}" if bad else "the gradient's norm"
            raise InputError(
                f"{folder}: {what} is not a finite number at step {self.seen.step}: lower "
                "training.peak_learning_rate or lengthen training.warmup_steps; the checkpoints "
                "before this step are sound"
            )


@dataclasses.dataclass(frozen=True)
class GradientComputer:
    """What one backward pass needs beside the batch."""

    model: Transformer
    optimizer: torch.optim.Optimizer
    clip_norm: float
    """Longest gradient that is not shortened."""
    microbatch: int
    """Rows per backward pass."""
    reference: Transformer | None = None
    """The frozen model that the excess is over."""
    timed: Timed = untimed
    """Clock of its phases: forward, backward and statistics."""

    def compute_gradients(
        self, method: Method, state: State, step: int, batch: Batch, measured_by: int | None = None
    ) -> BackwardResult:
        """Leaves the clipped gradient in the parameters, or in the moments of each domain.

        Args:
            method: The mixing method.
            state: Its state before the step.
            step: 0-based step.
            batch: The step's rows.
            measured_by: Rows per backward pass from which the batch's gradient statistics are
                wanted, taken domain by domain; None where none are.
        """
        needs = method.needs()
        seen = Signals(step, int(batch.count_K.sum()), count_K=batch.count_K)
        self.optimizer.zero_grad()
        if needs.moments_per_domain:
            return self._into_moments(method, state, seen, batch, measured_by)
        if needs.gramian:
            return self._combined(method, state, seen, batch, measured_by)
        return self._weighted(method, state, seen, batch, measured_by)

    def _weighted(
        self, method: Method, state: State, seen: Signals, batch: Batch, measured_by: int | None
    ) -> BackwardResult:
        if method.needs().reference:
            assert self.reference is not None, "a run is refused without its reference"
            excess_K = batch.excess(self.model, self.reference, self.microbatch)
            seen = dataclasses.replace(seen, excess_K=excess_K)
        if method.needs().weighs_losses:
            loss_K = batch.losses(self.model, self.microbatch)
            seen = dataclasses.replace(seen, loss_K=loss_K)
        coefficient_K = method.loss_weights(state, seen)
        share_K = batch.shares() if coefficient_K is None else coefficient_K
        if measured_by is not None:

            def add(k: int, parts: list[Tensor]) -> None:
                gradient_vectors.add(self.model, parts, float(share_K[k]))

            seen = self._measured(seen, batch, measured_by, add)
            return BackwardResult(seen, self._clipped(), coefficient_K)
        weight_B = batch.row_weights(share_K)
        loss_B = gradients.batch_gradient(
            self.model, batch.tokens_BxL1, weight_B, self.microbatch, self.timed
        )
        norm = adamw.clip_(self.model, self.clip_norm)
        # One transfer, and so one wait for the device.
        numbers = devices.on_host(torch.cat([loss_B, norm[None]]).double())
        seen = dataclasses.replace(seen, loss_K=batch.means(numbers[:-1]))
        return BackwardResult(seen, float(numbers[-1]), coefficient_K)

    def _combined(
        self, method: Method, state: State, seen: Signals, batch: Batch, measured_by: int | None
    ) -> BackwardResult:
        with_variance = measured_by is not None
        parts_K, gram_KxK, measured = gradients.gramian(
            self.model,
            batch.by_domain(),
            measured_by or self.microbatch,
            with_variance=with_variance,
            timed=self.timed,
        )
        seen = dataclasses.replace(
            seen,
            loss_K=measured.loss_K,
            gram_KxK=gram_KxK,
            statistics=measured if with_variance else None,
        )
        coefficient_K = method.combine(state, seen)
        gradient_vectors.add_all(
            self.model, parts_K, batch.shares() if coefficient_K is None else coefficient_K
        )
        return BackwardResult(seen, self._clipped(), coefficient_K)

    def _clipped(self) -> float:
        """Shortens the gradient; its norm before."""
        return float(devices.on_host(adamw.clip_(self.model, self.clip_norm)))

    def _into_moments(
        self, method: Method, state: State, seen: Signals, batch: Batch, measured_by: int | None
    ) -> BackwardResult:
        """Each domain's gradient is clipped on its own; the norm is their mean by share."""
        optimizer = self.optimizer
        assert isinstance(optimizer, PerDomainAdamW)
        coefficient_K = method.combine(state, seen)
        chosen_K = batch.shares() if coefficient_K is None else coefficient_K
        norms = []

        def take(k: int, parts: list[Tensor]) -> None:
            gradient_vectors.add(self.model, parts, 1.0)
            norms.append(float(batch.shares()[k]) * self._clipped())
            optimizer.take(k, float(chosen_K[k]))
            optimizer.zero_grad()

        seen = self._measured(seen, batch, measured_by, take)
        return BackwardResult(seen, sum(norms), coefficient_K)

    def _measured(
        self,
        seen: Signals,
        batch: Batch,
        measured_by: int | None,
        use: Callable[[int, list[Tensor]], None],
    ) -> Signals:
        """Makes each domain's gradient for `use`; the signals with what was measured."""
        with_variance = measured_by is not None
        measured = gradients.gradient_statistics(
            self.model,
            batch.by_domain(),
            measured_by or self.microbatch,
            use,
            with_variance=with_variance,
            timed=self.timed,
        )
        return dataclasses.replace(
            seen, loss_K=measured.loss_K, statistics=measured if with_variance else None
        )
