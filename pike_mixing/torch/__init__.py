"""What a training loop in torch needs beside the rules.

    from pike_mixing.torch import MixedDataset, Mixing, gradient_statistics

`Mixing` lets a method choose what a training reads; `MixedDataset` reads it. `gradient_statistics`
measures the gradients of any model's domains, `all_reduce` pools measurements of several processes.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pike_mixing.torch.gradients import StatisticsAccumulator, gradient_statistics, gramian

__all__ = ["StatisticsAccumulator", "gradient_statistics", "gramian"]

_PLACES = {
    "StatisticsAccumulator": "gradients",
    "gradient_statistics": "gradients",
    "gramian": "gradients",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"pike_mixing.torch.{_PLACES[name]}"), name)
