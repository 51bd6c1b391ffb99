"""The rows of a run, as the library's engine draws them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pike_mixing.arrays import Ints
from pike_mixing.torch import parallel
from pike_mixing.torch.dealt_rows import DealtRows
from pike_mixing.torch.passes import Passes
from pike_mixing.torch.rows import Rows, Unread
from pipeline.data.batches import Mixture
from pipeline.runtime import devices


class MixedRows:
    """A `RowSource`; of several processes each reads the rows that it passes."""

    def __init__(
        self,
        mixtures: Mapping[str, Mixture],
        passes: Passes,
        *,
        rows: int,
        seed: int,
        micro_batch: int,
        device: torch.device,
    ) -> None:
        """Keeps where rows come from.

        Args:
            mixtures: By purpose.
            passes: How passes are made.
            rows: Rows b of a step.
            seed: The run's.
            micro_batch: Rows of a pass.
            device: Where the passes are made.
        """
        self.domains = next(iter(mixtures.values())).domains
        self.batch_rows, self.seed = rows, seed
        self._mixtures, self._passes, self._micro_batch = mixtures, passes, micro_batch
        self._place = devices.of_rows(device)

    def rows_of(self, purpose: str, positions_K: Ints, count_K: Ints) -> DealtRows:
        """The next rows of each domain for a purpose, see `RowSource`."""
        mixture = self._mixtures[purpose]

        def read(which: range) -> Tensor:
            tokens_BxL1 = mixture.batch(count_K, positions_K, which)
            return devices.moved(torch.from_numpy(tokens_BxL1), self._place)

        batch: Rows = Unread(read, range(int(count_K.sum())), self._place)
        if parallel.world_size() == 1:
            # At once, which is faster than part by part.
            batch = batch.read()
        return DealtRows(self._passes, batch, count_K, self._micro_batch)
