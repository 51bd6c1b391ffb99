"""What a measurement does not cover: a domain without rows in a batch is NaN, never 0."""

import torch
from torch import Tensor


def filled(value_K: Tensor, last_K: Tensor) -> Tensor:
    """Gaps filled by the domain's last known value, else by the mean of the domains that have one.

    All NaN when nothing is known of any domain.
    """
    value_K = torch.where(value_K.isnan(), last_K, value_K)
    return torch.where(value_K.isnan(), value_K.nanmean(), value_K)
