"""The loader of a mixed data set, which draws a step's rows when they are needed."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

from pike_mixing.errors import InputError
from pike_mixing.torch.rows import Rows


def micro_batches_ahead(options: Mapping[str, Any]) -> int:
    """Micro-batches that the workers of a DataLoader with these options draw ahead."""
    workers: int = options.get("num_workers", 0)
    return workers * (options.get("prefetch_factor") or 2)


class MixedLoader:
    """Micro-batches of this process, step after step; before a step, the method prepares it.

    Each iteration begins at the step where the method stands.
    """

    def __init__(self, mixing: Any, options: dict[str, Any]) -> None:
        """See `Mixing.data_loader`."""
        # The workers' seeds come from here: dropout draws the same in a training that goes on.
        generator = torch.Generator().manual_seed(mixing.dataset.seed)
        self._mixing, self._options = mixing, {"generator": generator} | options
        self._ended: int | None = None
        if {"batch_size", "sampler", "batch_sampler", "shuffle"} & set(options):
            raise InputError(
                "data_loader: batch_size is the data set's micro_batch_rows, and the order its "
                "own: leave batch_size, shuffle and samplers away"
            )
        if not options.get("in_order", True):
            raise InputError(
                "data_loader: in_order=False gives rows in another order than the method counts "
                "them: leave it away"
            )

    @property
    def dataset(self) -> Any:
        """What it reads."""
        return self._mixing.dataset

    @property
    def batch_size(self) -> int:
        """Rows of a micro-batch."""
        return self._mixing.dataset.micro_batch_rows

    def __len__(self) -> int:
        """Micro-batches of the whole training, where the data set's steps are limited."""
        return len(self.dataset) // self.batch_size

    def __iter__(self) -> Iterator[Rows]:
        """The micro-batches."""
        mixing, dataset = self._mixing, self._mixing.dataset
        in_step, batches = dataset.micro_batches, micro_batches_ahead(self._options)
        spare = mixing.latency - (ahead := math.ceil(batches / in_step))
        if spare < 0:
            raise InputError(
                f"data_loader: {self._options['num_workers']} workers draw {batches} micro-batches "
                f"ahead, {ahead} steps: set Mixing's latency to {ahead}, so that new weights act "
                f"{ahead} steps later, or num_workers to 0"
            )
        if self._ended == mixing.step:
            raise InputError(
                f"the loader is read again after all {self._ended} steps: give MixedDataset the "
                "`steps` of all epochs together, without `ends`"
            )
        # Rows that were drawn for a step that has not ended come again.
        mixing.drop_unfinished_steps()
        dataset.seek(mixing.step, mixing.positions_K)
        step, loaded = mixing.step, None
        while dataset.steps is None or step < dataset.steps:
            if step > mixing.step + spare:
                hint = (
                    ""
                    if mixing.is_step_complete
                    else "; if your trainer draws ahead, set `latency`"
                )
                raise InputError(
                    f"step {step} is drawn before step {mixing.step} has ended: call "
                    f"mixing.end_step() after the optimizer's step{hint}"
                )
            if step == mixing.step:
                mixing.prepare_step()
            if loaded is None:
                loaded = iter(DataLoader(dataset, self.batch_size, **self._options))
            if len(drawn := list(itertools.islice(loaded, in_step))) < in_step:
                break
            mixing.begin_step(drawn)
            yield from drawn
            step += 1
        self._ended = step
