"""What a mixing method is told: facts of the run, the signals of a step, and which it needs.

Shapes: K domains, always in the order of the run's list of domains. K-sized arrays are NumPy's, of
float64, counts of int64; a domain that a measurement does not cover is NaN in them, never 0. NaN of
a domain that has rows in the batch (`count_K`) is refused: the training diverges.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np

from pike_mixing.arrays import Array, Floats, Ints
from pike_mixing.numerics.moments import variance_of_rows
from pike_mixing.setting_limits import NonNegativeInt, PositiveInt
from pike_mixing.settings import CheckedSettings

State = dict[str, Array]
"""All that a method remembers. It lies in the checkpoint, so it holds NumPy arrays only."""


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """What a run knows before its first step, beside its settings."""

    tokens_by_domain: Mapping[str, float]
    """Training tokens of each domain's corpus."""
    budget_tokens: float
    """Tokens of the whole run: rows x length x steps."""
    mixture: Mapping[str, float] | None = None
    """Weights by domain that other runs found, where the method asks for them."""
    steps: int | None = None
    """Steps of the whole run, where they are known."""


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Gradient statistics of the K domains at one step, from `rows_K` rows each."""

    squared_norm_K: Floats
    """Plug-in estimate |g_k|^2 of the mean gradient of the rows; its bias is variance / rows."""
    squared_norm_unbiased_K: Floats
    """The same minus variance / rows; it can be negative."""
    variance_K: Floats
    """Trace of the covariance of one row's gradient (Assumption `as:assumption1`)."""
    loss_K: Floats
    """Mean loss in nats per token."""
    rows_K: Floats
    """Rows used."""

    @classmethod
    def of_rows(cls, gradients: Iterable[Floats], losses: Iterable[Floats]) -> Self:
        """The statistics of rows' gradients [R, P] and losses [R], nats per token, by domain.

        NaN where a domain has no rows; without two rows, no variance.
        """
        measured = []
        for gradient_RxP, loss_R in zip(gradients, losses, strict=True):
            rows, mean_P = len(gradient_RxP), gradient_RxP.sum(axis=0) / max(len(gradient_RxP), 1)
            square = float(mean_P @ mean_P) if rows else np.nan
            degrees_of_freedom = rows - 1 if rows > 1 else np.nan
            squares = float((gradient_RxP**2).sum())
            variance = variance_of_rows(squares, square, rows, degrees_of_freedom)
            measured.append((square, variance, float(loss_R.mean()) if rows else np.nan, rows))
        return cls.of_moments(*np.array(measured, dtype=np.float64).T)

    @classmethod
    def of_moments(
        cls, squared_norm_K: Floats, variance_K: Floats, loss_K: Floats, rows_K: Floats
    ) -> Self:
        """With |g|^2 - sigma^2 / R, the unbiased estimate of the true squared norm.

        NaN where a domain was not measured, with 0 rows.

        Args:
            squared_norm_K: |g|^2 of the mean gradient of R rows.
            variance_K: sigma^2 of one row's gradient.
            loss_K: Nats per token.
            rows_K: R.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            unbiased_K = squared_norm_K - variance_K / rows_K
        return cls(squared_norm_K, unbiased_K, variance_K, loss_K, rows_K)

    @classmethod
    def fieldwise_mean(cls, estimates: Sequence[Self]) -> Self:
        """The mean of several estimates from as many rows each; `rows_K` are those of one."""
        names = (field.name for field in dataclasses.fields(cls))
        return cls(*(np.mean([getattr(e, name) for e in estimates], axis=0) for name in names))


@dataclasses.dataclass(frozen=True)
class Signals:
    """What the loop measured. Only what the method needs is there; the rest is None.

    `loss_weights` and `gradient_coefficients` see the batch before the update, `observe` sees the
    whole step, or statistics alone when they are estimated before the batch is drawn. Statistics of
    the training batch are part of the step: what `observe` makes of them holds from the next step
    on.
    """

    step: int
    """0-based step."""
    batch_rows: int
    """Batch size b."""
    count_K: Ints | None = None
    """Rows of each domain in the training batch."""
    loss_K: Floats | None = None
    """Mean loss of each domain's rows in the training batch, nats per token."""
    gram_KxK: Floats | None = None
    """Inner products g_j . g_k of the gradients of the domains' mean losses on the batch; beside
    `statistics` of fresh rows, on those."""
    statistics: Statistics | None = None
    """Gradient statistics, when due."""
    loss_after_K: Floats | None = None
    """`loss_K` of the same rows after the optimizer's update."""
    excess_K: Floats | None = None
    """Mean over each domain's tokens of max(l - l_reference, 0), before the update."""
    validation_loss_K: Floats | None = None
    """Mean loss of each domain's rows of comparison, nats per token, when due."""


@dataclasses.dataclass(frozen=True)
class _Due(CheckedSettings):
    """Steps at which something is measured."""

    first: NonNegativeInt
    """The first of them."""
    every: PositiveInt
    """Steps from one to the next (the paper's T_0)."""

    def is_due(self, step: int) -> bool:
        """Whether step `step` measures."""
        return step >= self.first and (step - self.first) % self.every == 0


@dataclasses.dataclass(frozen=True)
class StatisticsNeed(_Due):
    """When and from which rows a method wants gradient statistics."""

    fresh: bool
    """From rows of their own stream, before the batch is drawn; else from the training batch.

    Where rows have one order alone (iterables, `shuffle=False`), that stream is the training's read
    anew: the model may have been trained on them."""
    rows: int
    """At least this many rows of each domain; fresh rows only."""
    estimates: int = 1
    """Estimates from rows of their own each, whose mean is taken; fresh rows only."""
    inner_products: bool = False
    """Whether `Signals.gram_KxK` of the same rows is wanted, too; of one estimate of fresh rows."""


@dataclasses.dataclass(frozen=True)
class ValidationNeed(_Due):
    """When a method wants the domains' losses on rows of comparison, before the batch is drawn.

    They are the same at every look and come from a stream of their own through the training text,
    so that no method learns from what it is evaluated on.
    """

    rows: int
    """Rows of each domain."""


@dataclasses.dataclass(frozen=True)
class Needs:
    """The signals that a method wants; the loop computes nothing else."""

    losses: bool = False
    """Per-domain losses of every training batch, for `observe`; beside a Gramian for
    `gradient_coefficients`."""
    statistics: StatisticsNeed | None = None
    """Gradient statistics, for `observe`."""
    gramian: bool = False
    """All K gradients of every batch and their inner products, for `gradient_coefficients` and
    `observe`."""
    weighs_losses: bool = False
    """Per-domain losses of every training batch before its backward pass, for `loss_weights`."""
    losses_after: bool = False
    """Per-domain losses of every training batch after the update, for `observe`; `losses` beside
    them are of passes of their own, without dropout as these."""
    reference: bool = False
    """Excess of every batch over a frozen reference model, for `loss_weights` and `observe`."""
    validation: ValidationNeed | None = None
    """Losses of each domain on its rows of comparison, for `observe`."""
    moments_per_domain: bool = False
    """An optimizer with moments for each domain, whose steps `gradient_coefficients` weighs by
    counts alone."""

    def has_extra_passes(self) -> bool:
        """Whether passes over the model beside those of the training are wanted."""
        measured = (self.statistics, self.validation, self.gramian, self.losses_after)
        return any(measured) or self.has_domain_factors() or self.moments_per_domain

    def has_domain_factors(self) -> bool:
        """Whether the domains' losses or gradients have factors of their own."""
        return self.gramian or self.weighs_losses or self.reference

    def has_inner_products(self) -> bool:
        """Whether all K gradients are ever there at once."""
        return self.gramian or (self.statistics is not None and self.statistics.inner_products)

    def has_batch_statistics(self, step: int) -> bool:
        """Whether gradient statistics of the rows of a step's training batch are wanted."""
        due = self.statistics
        return due is not None and not due.fresh and due.is_due(step)
