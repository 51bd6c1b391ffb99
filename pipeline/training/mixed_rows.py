"""The rows of a run, as the library's engine draws them."""

from collections.abc import Mapping

import torch

from pike_mixing.arrays import Ints
from pike_mixing.torch.dealt_rows import DealtRows
from pike_mixing.torch.passes import Passes
from pipeline.data.batches import Mixture
from pipeline.runtime import devices


class MixedRows:
    """A `RowSource`: every process reads the rows of all, and passes some of them."""

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
        tokens_BxL1, _ = self._mixtures[purpose].batch(count_K, positions_K)
        batch = devices.moved(torch.from_numpy(tokens_BxL1), self._place)
        return DealtRows(self._passes, batch, count_K, self._micro_batch)
