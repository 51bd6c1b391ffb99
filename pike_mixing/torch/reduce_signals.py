"""Signals of several processes as one."""

import dataclasses
from typing import Any

import numpy as np
import torch

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.interface import Signals, Statistics
from pike_mixing.signal_checks import LOSSES
from pike_mixing.torch import parallel
from pike_mixing.torch.parallel import Group


def all_reduce(signals: Signals, group: Group = None) -> Signals:
    """The signals of all processes, of which each gives those of its own rows.

    Counts and rows of the batch add up; losses are weighed by counts. A process without rows of a
    domain does not count, nor a validation loss or a statistic that is NaN. Without
    `torch.distributed` they stay as they are. Statistics that `gradient_statistics` made are of all
    processes already: add them afterwards.

    Statistics of several processes are pooled so that they stay unbiased: variances are weighed by
    rows - 1, unbiased squared norms by rows; the plug-in norm follows from both.

    Raises:
        InputError: inner products (`gram_KxK`) of single processes, which do not add up, or losses
            without counts.
    """
    if parallel.world_size(group) == 1:
        return signals
    if signals.gram_KxK is not None:
        raise InputError(
            "gram_KxK of one process's rows cannot be reduced: measure it over all of them with "
            "pike_mixing.torch.gramian"
        )
    measured = {
        name: getattr(signals, name) for name in LOSSES if getattr(signals, name) is not None
    }
    if measured and signals.count_K is None and set(measured) != {"validation_loss_K"}:
        raise InputError("count_K is missing: losses of several processes are weighed by counts")
    reduced: dict[str, Any] = {}
    for name, value_K in measured.items():
        if name == "validation_loss_K":
            rows_K = _weights_of_measured(value_K, np.ones(len(value_K)))
        else:
            rows_K = np.asarray(signals.count_K, np.float64)
        reduced[name] = _mean_over_processes(value_K, rows_K, group)
    if signals.count_K is not None:
        reduced["count_K"] = _sum_over_processes(signals.count_K.astype(np.float64), group).astype(
            np.int64
        )
    if signals.statistics is not None:
        reduced["statistics"] = _pooled_statistics(signals.statistics, group)
    rows = int(_sum_over_processes(np.array([float(signals.batch_rows)]), group)[0])
    return dataclasses.replace(signals, batch_rows=rows, **reduced)


def _pooled_statistics(statistics: Statistics, group: Group) -> Statistics:
    rows_K = _sum_over_processes(statistics.rows_K, group)
    loss_K, variance_K, unbiased_K = (
        _mean_over_processes(value_K, _weights_of_measured(value_K, weight_K), group)
        for value_K, weight_K in (
            (statistics.loss_K, statistics.rows_K),
            (statistics.variance_K, statistics.rows_K - 1),
            (statistics.squared_norm_unbiased_K, statistics.rows_K),
        )
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        plug_in_K = unbiased_K + variance_K / rows_K
    return Statistics.of_moments(plug_in_K, variance_K, loss_K, rows_K)


def _weights_of_measured(value_K: Floats, weight_K: Floats) -> Floats:
    """The weights, without those of what was not measured."""
    return np.where(np.isnan(value_K), 0, weight_K)


def _mean_over_processes(value_K: Floats, weight_K: Floats, group: Group) -> Floats:
    """Weighted mean over the processes that have a weight; NaN where none has."""
    weight_K = weight_K.clip(min=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        own_K = np.where(weight_K > 0, value_K * weight_K, 0)
        total_K, weights_K = _sum_over_processes(np.stack([own_K, weight_K]), group)
        mean_K: Floats = total_K / weights_K
    return mean_K


def _sum_over_processes(numbers: Floats, group: Group) -> Floats:
    result = torch.from_numpy(numbers.astype(np.float64)).to(parallel.communication_device(group))
    parallel.sum_in_place([result], group)
    return result.cpu().numpy()
