"""Weights that a user writes down: by domain's name, checked, normalised to sum to 1."""

from collections.abc import Mapping

import torch
from torch import Tensor

from pipeline.errors import InputError
from pipeline.settings import unknown


def checked(weights: Mapping[str, float], setting: str) -> list[str]:
    """Problems of written weights that show without knowing the domains."""
    found = [f"{setting}.{d}: {w} is negative" for d, w in weights.items() if w < 0]
    if not sum(weights.values()) > 0:
        found.append(f"{setting}: at least one weight must be positive")
    return found


def ordered(weights: Mapping[str, float], domains: tuple[str, ...], setting: str) -> Tensor:
    """The weights in the order of the domains, divided by their sum.

    The DoReMi weights as printed in Table `tab: glam-dataset-overview`, for one, sum to 1.04.

    Raises:
        InputError: a weight names no domain of the run, or a domain has no weight.
    """
    problems = [unknown(d, domains, setting) for d in weights if d not in domains]
    problems += [f"{setting}: domain {d!r} has no weight" for d in domains if d not in weights]
    if problems:
        raise InputError("\n".join(problems))
    weights_K = torch.tensor([weights[d] for d in domains], dtype=torch.float64)
    return weights_K / weights_K.sum()
