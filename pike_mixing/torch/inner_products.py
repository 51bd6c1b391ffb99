"""Inner products of gradients: float32 within a piece of a tensor, float64 over pieces."""

from collections.abc import Sequence

import torch
from torch import Tensor

PIECE_NUMBERS = 2**18
"""Products that a CPU adds up in float32 at a time: 10^8 of them at once are off by 0.4 %."""


def products(first: Sequence[Tensor], second: Sequence[Tensor]) -> list[Tensor]:
    """The terms of an inner product of lists of tensors, one per piece of a tensor."""
    return [
        torch.dot(a, b)
        for whole_a, whole_b in zip(first, second, strict=True)
        for a, b in zip(pieces(whole_a), pieces(whole_b), strict=True)
    ]


def total(terms: Sequence[Tensor]) -> Tensor:
    """Their sum, in float64."""
    return torch.stack(list(terms)).double().sum()


def pieces(part: Tensor) -> tuple[Tensor, ...]:
    """A tensor's numbers in a row, in pieces that float32 adds up well."""
    flat = part.flatten()
    # Accelerators add up in a tree, and a piece of this size would not fill them.
    whole = len(flat) <= PIECE_NUMBERS or not flat.is_cpu
    return (flat,) if whole else flat.split(PIECE_NUMBERS)
