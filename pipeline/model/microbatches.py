"""Micro-batches as a device takes them.

A device that compiles what it runs does so for each shape. There every micro-batch has the same
number of rows, whatever is left of a domain's: the first row fills it up, with a weight of 0, and
what a row weighs is a tensor like any other.

Shapes: R rows in all, s rows of a micro-batch, L tokens of a row.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.runtime import chips, devices, distributed


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch, on the device."""

    tokens_sxL1: Tensor
    weight_s: Tensor
    """What each row counts: 0 for one that fills up, or stands in for a process without rows."""
    rows: int
    """Rows without those that fill it up; they come first."""
    counts: float
    """Whether it counts, 1 or 0: another process's stands in where this one has none."""


def split_rows(
    tokens_RxL1: Tensor,
    weight_R: Tensor,
    microbatch: int,
    device: torch.device,
    *,
    whole: bool = False,
) -> Iterator[MicroBatch]:
    """The micro-batches that this process passes, as `distributed.shard_microbatches` deals them.

    Args:
        tokens_RxL1: Rows of all processes; at least one.
        weight_R: What each row counts.
        microbatch: Rows of a pass.
        device: Where the passes are made.
        whole: Whether micro-batches are dealt as one process would make them, rather than rows.
    """
    # Chips share a pass's rows evenly.
    size = chips.count(device) * math.ceil(microbatch / chips.count(device))
    tokens = distributed.shard_microbatches(tokens_RxL1, microbatch, whole=whole)
    weights = distributed.shard_microbatches(weight_R, microbatch, whole=whole)
    for (tokens_sxL1, counts), (weight_s, _) in zip(tokens, weights, strict=True):
        rows = len(tokens_sxL1)
        missing = size - rows if devices.compiles(device) else 0
        if missing:
            tokens_sxL1 = torch.cat([tokens_sxL1, tokens_sxL1[:1].expand(missing, -1)])
            weight_s = F.pad(weight_s, (0, missing))
        weight_s = chips.spread((weight_s * counts).to(device))
        yield MicroBatch(chips.spread(tokens_sxL1.to(device)), weight_s, rows, counts)


def join_rows(found: Sequence[tuple[MicroBatch, Tensor]], R: int) -> Tensor:
    """Numbers of all R rows, from those of each micro-batch of this process."""
    return distributed.gather_rows([(all_s[: p.rows], p.counts) for p, all_s in found], R)
