"""Numbers that a user writes down by domain's name, in the order of the run's domains."""

from collections.abc import Mapping

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError, refuse
from pike_mixing.setting_limits import Proportions
from pike_mixing.setting_messages import domain_mismatch_problems
from pike_mixing.settings import arrays_to_python, value_problems


def equal_weights(k: int) -> Floats:
    """Weights 1/K.

    Raises:
        InputError: there is no domain.
    """
    if k < 1:
        raise InputError("domains: there is none: name at least one")
    return np.full(k, 1 / k)


def shares_in_order(
    values: Mapping[str, float] | None, domains: tuple[str, ...], setting: str
) -> Floats:
    """Numbers by domain in any unit, divided by their sum; 1/K each when absent.

    The DoReMi weights as printed in Table `tab: glam-dataset-overview`, for one, sum to 1.04.
    Messages name the `setting`.

    Raises:
        InputError: a value names no domain of the run or is no share, or a domain has none.
    """
    if values is None:
        return equal_weights(len(domains))
    refuse(value_problems(arrays_to_python(values), Proportions, setting))
    placed_K = values_in_order(values, domains, setting, "weight")
    return placed_K / placed_K.sum()


def log_shares_in_order(
    values: Mapping[str, float] | None, domains: tuple[str, ...], setting: str
) -> Floats:
    """Logarithms of the `shares_in_order`; a domain of share 0 stays at -infinity."""
    with np.errstate(divide="ignore"):
        return np.log(shares_in_order(values, domains, setting))


def required_tokens_in_order(
    tokens_by_domain: Mapping[str, float] | None, domains: tuple[str, ...]
) -> Floats:
    """Tokens of each domain's corpus.

    Raises:
        InputError: no sizes are known, one names no domain of the run, or a domain has none.
    """
    if tokens_by_domain is None:
        raise InputError("tokens_by_domain: the sizes of the corpora are not known: give them")
    return values_in_order(tokens_by_domain, domains, "tokens_by_domain", "size")


def values_in_order(
    values: Mapping[str, float], domains: tuple[str, ...], setting: str, quantity: str
) -> Floats:
    """The values in the order of the domains.

    Messages name the setting and the quantity ("weight").

    Raises:
        InputError: a value names no domain of the run, or a domain has none.
    """
    refuse(domain_mismatch_problems(values, domains, setting, f"has no {quantity}"))
    return np.array([values[d] for d in domains], dtype=np.float64)
