"""What a method may ask to be measured of a model: losses and gradients of given rows.

Shapes: K domains, B rows.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, State, Statistics
from pike_mixing.torch import gradients, losses, parallel, rows
from pike_mixing.torch.mixed_dataset import MixedDataset
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.rows import Rows
from pike_mixing.torch.signals import all_reduce
from pike_mixing.torch.step_record import StepRecord
from pike_mixing.torch.streams import Stream
from pike_mixing.torch.undisturbed import in_mode


class Measuring:
    """Passes over a model beside its training.

    Gradients are those of the training mode, with its dropout; losses those of evaluation.
    """

    def __init__(
        self,
        dataset: MixedDataset,
        model: nn.Module | None,
        loss_fn: losses.RowLosses | None,
        collate_fn: Callable[[list[Any]], Rows],
        micro_batch: int,
        group: Group,
    ) -> None:
        """See `Mixing`."""
        self.dataset, self.model, self.loss_fn = dataset, model, loss_fn
        self.collate_fn, self.micro_batch, self.group = collate_fn, micro_batch, group
        self._fresh: list[Stream] | None = None
        self._comparison: list[list[Rows]] | None = None

    def coefficients(
        self, method: Method, state: State, step: int, at: StepRecord
    ) -> Floats | None:
        """A method's factors c_K of the domains' mean losses; None: their shares of the batch.

        What it wants to know of the batch before the training's passes stays in the record.

        Args:
            method: The method.
            state: Its state before the step.
            step: 0-based step.
            at: The step's rows.
        """
        needs = method.needs()
        seen, wanted = at.signals(step), needs.batch_statistics(step)
        if needs.weighs_losses:
            at.before_K = self.losses(at.domains_of, at.micro_batches)
            seen = dataclasses.replace(seen, loss_K=at.before_K)
        seen = all_reduce(seen, self.group)
        if needs.gramian or wanted:
            size = self.micro_batch if wanted else self.dataset.micro_batch
            pieces_K = self.pieces(at.domains_of, at.micro_batches, size)
            if needs.gramian:
                at.gram_KxK, measured = self.gramian(pieces_K)
            else:
                measured = self.statistics(pieces_K)
            if wanted:
                at.statistics = measured
            seen = dataclasses.replace(seen, gram_KxK=at.gram_KxK, loss_K=measured.loss_K)
        return method.combine(state, seen) if needs.gramian else method.loss_weights(state, seen)

    def losses(self, domains_of: Sequence[Ints], micro_batches: Sequence[Rows]) -> Floats:
        """Mean loss of each domain's rows on this process."""
        found, model = losses.DomainLosses(len(self.dataset.domains)), self._trained()
        with in_mode(model, training=False):
            for domain_B, batch in zip(domains_of, micro_batches, strict=True):
                found.add(domain_B, losses.without_gradient(model, self._losses, batch))
        return found.mean()

    def fresh_pieces(self, positions_K: Ints, count_K: Ints) -> list[list[Rows]]:
        """Rows from their own stream by domain; whole micro-batches go to each process."""
        if self._fresh is None:
            self._fresh = self.dataset.streams("statistics")
        rank, world = parallel.rank(self.group), parallel.world_size(self.group)
        pieces_K = []
        for stream, start, count in zip(
            self._fresh, positions_K.tolist(), count_K.tolist(), strict=True
        ):
            places = range(start, start + count)
            cut = [places[at : at + self.micro_batch] for at in range(0, count, self.micro_batch)]
            pieces_K.append([self._collated(stream, piece) for piece in cut[rank::world]])
        return pieces_K

    def statistics(self, pieces_K: Sequence[Sequence[Rows]]) -> Statistics:
        """Statistics of each domain's rows in micro-batches, over all processes."""
        with in_mode(self._trained(), training=True):
            return gradients.of_pieces(self._trained(), self._losses, pieces_K, self.group)

    def gramian(self, pieces_K: Sequence[Sequence[Rows]]) -> tuple[Floats, Statistics]:
        """Inner products of the domains' gradients, and their statistics."""
        with in_mode(self._trained(), training=True):
            return gradients.gramian_of_pieces(self._trained(), self._losses, pieces_K, self.group)

    def pieces(
        self, domains_of: Sequence[Ints], micro_batches: Sequence[Rows], size: int
    ) -> list[list[Rows]]:
        """The rows of a step on this process by domain, in micro-batches of `size`."""
        pieces_K: list[list[Rows]] = [[] for _ in self.dataset.domains]
        for domain_B, batch in zip(domains_of, micro_batches, strict=True):
            for k, pieces in enumerate(pieces_K):
                own = torch.from_numpy(np.flatnonzero(domain_B == k))
                pieces += rows.split(rows.select(batch, own), size)
        return pieces_K

    def comparison(self, count: int) -> Floats:
        """Mean loss of each domain on the same rows at every look; each process reads them all."""
        size = self.dataset.micro_batch
        if self._comparison is None:
            cut = [range(count)[at : at + size] for at in range(0, count, size)]
            self._comparison = [
                [self._collated(stream, piece) for piece in cut]
                for stream in self.dataset.streams("comparison")
            ]
        batches = [(k, b) for k, of_domain in enumerate(self._comparison) for b in of_domain]
        domains_of = [np.full(rows.count(batch), k) for k, batch in batches]
        return self.losses(domains_of, [batch for _, batch in batches])

    def _collated(self, stream: Stream, places: range) -> Rows:
        return self.collate_fn([stream.row(place) for place in places])

    def _trained(self) -> nn.Module:
        if self.model is None:
            raise InputError("Mixing has no model to measure: give it one, or set `mixing.model`")
        return self.model

    def _losses(self, model: nn.Module, batch: Rows) -> Tensor:
        assert self.loss_fn is not None, "refused where it is needed"
        batch = rows.to(batch, next(model.parameters()).device)
        return losses.checked(self.loss_fn(model, batch), rows.count(batch))
