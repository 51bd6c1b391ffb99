"""Weights that a user writes down, in the order of the domains, normalised to sum to 1."""

from collections.abc import Mapping

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.settings import misplaced


def ordered(weights: Mapping[str, float], domains: tuple[str, ...], setting: str) -> Floats:
    """The weights in the order of the domains, divided by their sum.

    The DoReMi weights as printed in Table `tab: glam-dataset-overview`, for one, sum to 1.04.

    Raises:
        InputError: a weight names no domain of the run, or a domain has no weight.
    """
    weights_K = placed(weights, domains, setting, "weight")
    return weights_K / weights_K.sum()


def placed(
    values: Mapping[str, float], domains: tuple[str, ...], setting: str, what: str
) -> Floats:
    """The values in the order of the domains.

    Args:
        values: Numbers by domain's name.
        domains: The run's domains.
        setting: Name of the setting, for messages.
        what: What the numbers are, for messages: "weight".

    Raises:
        InputError: a value names no domain of the run, or a domain has no value.
    """
    problems = misplaced(values, domains, setting, f"has no {what}")
    if problems:
        raise InputError("\n".join(problems))
    return np.array([values[d] for d in domains], dtype=np.float64)
