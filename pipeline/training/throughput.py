"""How fast a step was, and what it held: tokens a second, share of the device's peak, memory."""

import math
import re
from typing import NamedTuple

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
