"""The call of `datasets.interleave_datasets`, over a mixed data set."""

from collections.abc import Mapping, Sequence
from typing import Any

from pike_mixing.errors import InputError
from pike_mixing.torch.mixed_dataset import MixedDataset


def interleave_datasets(
    datasets: Sequence[Any] | Mapping[str, Any],
    probabilities: Sequence[float] | Mapping[str, float] | None = None,
    seed: int | None = None,
    *,
    batch_rows: int = 1,
    **options: Any,
) -> MixedDataset:
    """What `datasets.interleave_datasets` gives, with exact shares that can be changed on the way.

    Rows of map-style data sets come in random order, domains again and again; `set_weights` and a
    method's `Mixing` change the shares.

    Args:
        datasets: The domains; of a list their names are "0", "1", ....
        probabilities: Shares in the same form; equal when absent.
        seed: Seed of the rows' order; 0 when absent.
        batch_rows: Rows among which the shares are kept as closely as whole rows can.
        options: Further arguments of `MixedDataset`.

    Raises:
        InputError: shares and data sets do not fit together.
    """
    if not isinstance(datasets, Mapping):
        datasets = {str(i): dataset for i, dataset in enumerate(datasets)}
    if probabilities is not None and not isinstance(probabilities, Mapping):
        if len(probabilities) != len(datasets):
            raise InputError(
                f"probabilities: {len(probabilities)} for {len(datasets)} data sets: give as many"
            )
        probabilities = dict(zip(datasets, probabilities, strict=True))
    return MixedDataset(datasets, batch_rows, weights=probabilities, seed=seed or 0, **options)
