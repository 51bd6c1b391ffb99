"""Rows beside those of the training: for fresh statistics, and for comparison.

Shapes: K domains.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from pike_mixing.arrays import Ints
from pike_mixing.torch import parallel, rows
from pike_mixing.torch.mixed_dataset import MixedDataset
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.rows import Rows
from pike_mixing.torch.step_record import StepRecord
from pike_mixing.torch.streams import Stream


class StreamRows:
    """A `RowSource` over a mixed data set; each process reads what it passes."""

    def __init__(
        self,
        dataset: MixedDataset,
        collate_fn: Callable[[list[Any]], Rows],
        statistics_micro_batch: int,
        group: Group,
    ) -> None:
        """See `Mixing`."""
        self.dataset, self.collate_fn, self.group = dataset, collate_fn, group
        self.domains, self.batch_rows, self.seed = dataset.domains, dataset.batch_rows, dataset.seed
        self._statistics_micro_batch = statistics_micro_batch
        self._streams: dict[str, list[Stream]] = {}
        self._comparison: StepRecord | None = None

    def rows_of(self, purpose: str, positions_K: Ints, count_K: Ints) -> StepRecord:
        """The next rows of each domain, see `RowSource`; the loader draws those to train on."""
        if purpose == "comparison":
            # The same at every look; each process reads them all.
            if self._comparison is None:
                self._comparison = self._read(
                    purpose, positions_K, count_K, self.dataset.micro_batch, slice(None)
                )
            return self._comparison
        # Whole micro-batches go to each process.
        own = slice(parallel.rank(self.group), None, parallel.world_size(self.group))
        return self._read(purpose, positions_K, count_K, self._statistics_micro_batch, own)

    def _read(
        self, purpose: str, positions_K: Ints, count_K: Ints, size: int, own: slice
    ) -> StepRecord:
        if purpose not in self._streams:
            self._streams[purpose] = self.dataset.streams(purpose)
        record = StepRecord(count_K, group=self.group)
        for k, (stream, start, count) in enumerate(
            zip(self._streams[purpose], positions_K.tolist(), count_K.tolist(), strict=True)
        ):
            places = range(start, start + count)
            cut = [places[at : at + size] for at in range(0, count, size)]
            for piece in cut[own]:
                record.micro_batches.append(self.collate_fn([stream.row(at) for at in piece]))
                record.domains_of.append(np.full(rows.count(record.micro_batches[-1]), k))
        if not record.micro_batches:
            k = int(count_K.argmax())
            first = self._streams[purpose][k].row(int(positions_K[k]))
            record.spare = self.collate_fn([first])
        return record
