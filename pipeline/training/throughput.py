"""How fast a step was, and what it held; and what a finished run's time went to."""

import math
import re
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyarrow.parquet as pq
import torch
from torch import nn

from pike_mixing.torch import parallel
from pipeline import settings
from pipeline.runtime import accelerators, chips, devices
from pipeline.runtime.accelerators import ACCELERATORS


class Pace(NamedTuple):
    """Of one step."""

    tokens_per_second: float
    model_flops_utilisation: float
    """Model FLOPs over the peak (Chowdhery et al. 2022, Appendix B); NaN where no peak is known."""
    memory_bytes: int
    """The most that was held so far: by tensors on a GPU, by the process on a CPU."""


class Meter:
    """Turns a step's seconds into its pace."""

    def __init__(self, model: nn.Module, work: settings.Run, device: torch.device) -> None:
        self._tokens, self._device = work.training.rows * work.training.length, device
        self._devices = parallel.world_size() * chips.count(device)
        self._flops = training_flops(model, work.model, work.training.length) * self._tokens
        self.peak = known_peak(devices.describe(device), work.training.precision)
        """FLOP/s that one device can reach; None where that is not known."""

    def of(self, seconds: float) -> Pace:
        """The pace of a step that took so many seconds."""
        peak = (self.peak or math.nan) * self._devices
        share = self._flops / seconds / peak
        return Pace(self._tokens / seconds, share, devices.peak_memory(self._device))


def training_flops(model: nn.Module, shape: settings.Model, length: int) -> float:
    """FLOPs of training on one token, by the weights that the model has.

    Args:
        model: The model.
        shape: Its shape.
        length: Tokens of a row.
    """
    matrices = sum(p.numel() for p in model.parameters() if p.ndim > 1)
    return accelerators.training_flops(matrices, shape, length)


def known_peak(device: str, precision: str) -> float | None:
    """The data sheet's FLOP/s of a GPU by torch's name of it, such as "cuda: NVIDIA H200".

    The rows are of whole GPUs on SXM boards; cards for a PCIe slot, NVL pairs and parts of a GPU
    (MIG) may have lower peaks, which are not known here.
    """
    words = set(re.findall(r"[a-z0-9]+", device.lower()))
    if not device.startswith("cuda") or words & {"pcie", "nvl", "mig"}:
        return None
    fitting = [row for name, row in ACCELERATORS.items() if name.partition("-")[0] in words]
    return fitting[0].peak[precision] if fitting else None


MEANINGS = {
    "data": "rows read and moved to the device",
    "forward": "forward passes, with the loss and its gradient by the logits",
    "backward": "backward passes",
    "statistics": "norms and products of gradients; rows of their own, their passes too",
    "gradient": "clipping, combination, waiting for the device",
    "optimizer": "AdamW",
    "method": "the mixing method, and losses after the update where it wants them",
    "validation": "losses on held-out rows or rows of comparison",
    "records": "what is written down of a step",
    "checkpoint": "copies of weights and states, waiting for the disk",
    "loop": "the rest of the loop",
}
"""Phases of a step in their order, and what they hold."""


def time_table(folder: Path) -> str:
    """Table of a finished run: milliseconds per step, share of each phase, and what stands out."""
    timings = pq.read_table(folder / "timings.parquet").to_pydict()
    seconds = dict(zip(timings["phase"], timings["seconds"], strict=True))
    steps = pq.read_table(folder / "steps.parquet", columns=["step", "seconds"]).to_pydict()
    number, whole = len(steps["step"]), sum(seconds.values())
    lines = [f"{'phase':<12}{'ms a step':>12}{'share':>9}"]
    for phase in sorted(seconds, key=list(MEANINGS).index):
        milliseconds, share = 1e3 * seconds[phase] / number, seconds[phase] / whole
        lines.append(f"{phase:<12}{milliseconds:>12.3f}{share:>9.2%}  {MEANINGS[phase]}")
    lines.append(f"{'all':<12}{1e3 * whole / number:>12.3f}{1:>9.2%}  {number:,} steps")
    first, *others = steps["seconds"]
    if others:
        lines.append(
            f"the first step, which compiles what is compiled, took {first:,.3f} s; of the others "
            f"the median {median(others):.3f} s"
        )
    measured = pq.read_table(folder / "gradient_statistics.parquet", columns=["step"])
    firing = set(measured["step"].to_pylist())
    taken = list(zip(steps["step"], steps["seconds"], strict=True))
    fired = [s for step, s in taken if step in firing]
    plain = [s for step, s in taken if step not in firing]
    if fired and plain:
        ratio, extra = median(fired) / median(plain), sum(fired) - len(fired) * median(plain)
        lines.append(
            f"{len(fired):,} steps with gradient statistics took {ratio:.2f} times a step without "
            f"(medians), {extra / whole:.2%} of all time"
        )
    return "\n".join(lines)
