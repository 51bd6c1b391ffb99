"""Counts of each step, published by one process for its workers.

Shapes: K domains.
"""

from collections.abc import Sequence

import torch

from pike_mixing.arrays import Ints
from pike_mixing.errors import InputError

RING = 1024
"""Steps whose counts are kept for workers: far more than any of them lags behind."""


class PublishedCounts:
    """The counts of the last steps, in memory that workers share."""

    def __init__(self, K: int, batch_rows: int) -> None:
        """Begins without any; those of a step will sum to `batch_rows`."""
        self._rows = batch_rows
        self._ring = torch.zeros(RING, K, dtype=torch.int64).share_memory_()
        self._last = torch.full((), -1, dtype=torch.int64).share_memory_()

    @property
    def last(self) -> int:
        """The last step that has counts; -1 before the first."""
        return int(self._last)

    def add(self, step: int, count_K: Ints) -> None:
        """Fixes the counts of the next step.

        Raises:
            InputError: another step is next, or the counts do not sum to the batch.
        """
        if step != self.last + 1:
            raise InputError(f"publish: step {step} is not the next one, {self.last + 1}")
        K = self._ring.shape[1]
        if count_K.shape != (K,) or count_K.min() < 0 or count_K.sum() != self._rows:
            raise InputError(
                f"publish: {count_K.tolist()} are no counts of {K} domains that sum to {self._rows}"
            )
        self._ring[step % RING] = torch.from_numpy(count_K)
        self._last.fill_(step)

    def counts(self, step: int) -> Ints:
        """Rows of each domain in a step.

        Raises:
            InputError: they are not published yet.
        """
        if step > self.last:
            raise InputError(
                f"step {step} is drawn before the weights of that step are known (they are up to "
                f"step {self.last}): end_step was not called, or the loader prefetches. Use "
                "Mixing.data_loader, or set Mixing's `latency` to the steps that it draws ahead: "
                "ceil((num_workers * prefetch_factor + 1) / micro-batches of a step)"
            )
        assert step > self.last - RING, "a worker lags behind by the whole ring"
        count_K: Ints = self._ring[step % RING].numpy().copy()
        return count_K

    def since(self, step: int) -> list[list[int]]:
        """The counts from a step on, as far as they are kept."""
        steps = range(max(step, self.last - RING + 1), self.last + 1)
        return [self.counts(step).tolist() for step in steps]

    def load(self, last: int, counts: Sequence[Sequence[int]], *, keep: bool) -> None:
        """Goes on from what `since` gave.

        Args:
            last: The last step that has counts; -1 for none.
            counts: Those of the steps up to it.
            keep: Whether later steps stay published: a worker that goes on knows less than the
                process that publishes.
        """
        for step, count_K in zip(range(last - len(counts) + 1, last + 1), counts, strict=True):
            self._ring[step % RING] = torch.tensor(count_K)
        self._last.fill_(max(last, self.last) if keep else last)
