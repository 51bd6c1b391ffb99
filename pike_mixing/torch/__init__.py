"""What a training loop in torch needs beside the rules.

    from pike_mixing.torch import MixedDataset, Mixing, gradient_statistics

`Mixing` lets a method choose what a training reads; `MixedDataset` reads it. `gradient_statistics`
measures the gradients of any model's domains, `all_reduce` pools measurements of several processes.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pike_mixing.torch.gradient_moments import gradient_statistics as gradient_statistics
    from pike_mixing.torch.gradient_moments import gramian as gramian
    from pike_mixing.torch.mixed_dataset import MixedDataset as MixedDataset
    from pike_mixing.torch.mixed_dataset import interleave_datasets as interleave_datasets
    from pike_mixing.torch.mixing import Mixing as Mixing
    from pike_mixing.torch.model_losses import causal_excess as causal_excess
    from pike_mixing.torch.model_losses import causal_losses as causal_losses
    from pike_mixing.torch.per_domain_adamw import PerDomainAdamW as PerDomainAdamW
    from pike_mixing.torch.reduce_signals import all_reduce as all_reduce

_PLACES = {
    "MixedDataset": "mixed_dataset",
    "Mixing": "mixing",
    "PerDomainAdamW": "per_domain_adamw",
    "all_reduce": "reduce_signals",
    "causal_excess": "model_losses",
    "causal_losses": "model_losses",
    "gradient_statistics": "gradient_moments",
    "gramian": "gradient_moments",
    "interleave_datasets": "mixed_dataset",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"pike_mixing.torch.{_PLACES[name]}"), name)
