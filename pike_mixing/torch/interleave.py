"""The call of `datasets.interleave_datasets`, over a mixed data set."""

from collections.abc import Mapping, Sequence
from typing import Any

from pike_mixing.errors import InputError
from pike_mixing.torch.mixed_dataset import ENDS, MixedDataset


def interleave_datasets(
    datasets: Sequence[Any] | Mapping[str, Any],
    probabilities: Sequence[float] | Mapping[str, float] | None = None,
    seed: int | None = None,
    info: Any = None,
    split: Any = None,
    stopping_strategy: str | None = None,
    *,
    batch_rows: int | None = None,
    **options: Any,
) -> MixedDataset:
    """What `datasets.interleave_datasets` gives, with exact shares that can be changed on the way.

    It ends as there, with whole batches; a column that a data set lacks is None, as there.
    `set_weights` changes the shares. A method's `Mixing` sets them itself, and takes one without
    `probabilities`.

    Args:
        datasets: The domains; of a list their names are "0", "1", ....
        probabilities: Shares in the same form, with the sum 1; in turn when absent.
        seed: Seed of the order of rows with `shuffle=True`; 0 when absent.
        info: Not taken: rows are passed on as they are.
        split: Not taken.
        stopping_strategy: "first_exhausted", or "all_exhausted"; `steps` may take its place.
        batch_rows: Rows among which the shares are kept as closely as whole rows can; 1 when
            absent, or one of each data set.
        options: Further arguments of `MixedDataset`.

    Raises:
        InputError: shares and data sets do not fit together, or it is not known where to end.
    """
    if not isinstance(datasets, Mapping):
        if not isinstance(datasets, list | tuple):
            raise InputError(
                f"datasets: {type(datasets).__name__}: give a list of data sets, or a dictionary "
                "of them by domain"
            )
        datasets = {str(i): dataset for i, dataset in enumerate(datasets)}
    if probabilities is not None and not isinstance(probabilities, Mapping):
        if len(probabilities) != len(datasets):
            raise InputError(
                f"probabilities: {len(probabilities)} for {len(datasets)} data sets: give as many"
            )
        probabilities = dict(zip(datasets, probabilities, strict=True))
    if probabilities is not None and abs(sum(probabilities.values()) - 1) > 1e-8:
        raise InputError(f"probabilities: {dict(probabilities)} must sum to 1")
    if info is not None or split is not None:
        raise InputError(
            "info, split: rows are passed on as they are: leave both away, and name the others: "
            'stopping_strategy="all_exhausted"'
        )
    if "steps" in options and stopping_strategy:
        raise InputError("stopping_strategy: `steps` says already where to end: give one of them")
    if "steps" not in options:
        options["ends"] = stopping_strategy or "first_exhausted"
        if options["ends"] not in ENDS:
            raise InputError(
                f"stopping_strategy: {stopping_strategy!r}: shares that hold to the end go with "
                f"{' or '.join(ENDS)}; for any other take datasets.interleave_datasets"
            )
    b = batch_rows or (1 if probabilities else max(1, len(datasets)))
    given: dict[str, Any] = {"weights": probabilities, "seed": seed or 0}
    given |= {"columns": "union", "shuffle": False} | options
    return MixedDataset(datasets, b, **given)
