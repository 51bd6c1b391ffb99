"""Reuse of a mixture when domains come, go or change (Olmix, arXiv 2602.12237, section 4).

Of an old mixture the ratios among unchanged domains stay: together they are one virtual domain. New
proxies vary the share of that one and of the changed domains, 1 + |changed| numbers and not all of
them, and what a finder makes of those proxies is expanded to all domains. Where domains were only
removed nothing is to be found: the ratios of the others are the new mixture. The paper's partial
reuse counts some unchanged domains among the changed ones.
"""

import math
from collections.abc import Collection, Mapping

from pike_mixing.errors import InputError, refuse
from pike_mixing.setting_messages import unknown_name_message


def kept_weights(
    old_mixture: Mapping[str, float], changed: Collection[str] = ()
) -> dict[str, float]:
    """Weights within the virtual domain: those of the unchanged domains, divided by their sum.

    Changed are domains that are removed, revised or split, or whose ratio is not to be kept.

    Raises:
        InputError: `changed` names no domain of the old mixture, or no weight is left.
    """
    problems = [
        unknown_name_message(domain, old_mixture, "changed")
        for domain in changed
        if domain not in old_mixture
    ]
    rest = {domain: weight for domain, weight in old_mixture.items() if domain not in changed}
    total = math.fsum(rest.values())
    if any(weight < 0 for weight in rest.values()) or not 0 < total < math.inf:
        problems.append(
            "old: the unchanged domains have no ratios to keep: weights must not be negative, and "
            "at least one must be positive"
        )
    refuse(problems)
    return {domain: weight / total for domain, weight in rest.items()}


def expand_mixture(
    mixture: Mapping[str, float], virtual_domain: str, weights_within: Mapping[str, float]
) -> dict[str, float]:
    """The mixture of all domains: the virtual domain's weight goes to its domains by their ratios.

    The proxies' mixtures are expanded in the same way before they are trained.

    Args:
        mixture: Of the virtual domain and the changed or new ones.
        virtual_domain: Name of the virtual domain in it.
        weights_within: Weights within the virtual domain, from `kept`.

    Raises:
        InputError: there is no such virtual domain, a domain is in both, or a weight is negative.
    """
    if virtual_domain not in mixture:
        raise InputError(unknown_name_message(virtual_domain, mixture, "virtual"))
    if negative := [f"{d}={weight:g}" for d, weight in mixture.items() if not weight >= 0]:
        raise InputError(f"mixture: {', '.join(negative)}: weights must not be negative")
    rest = {domain: weight for domain, weight in mixture.items() if domain != virtual_domain}
    twice = sorted(rest.keys() & weights_within.keys())
    if twice:
        raise InputError(
            f"mixture: {', '.join(twice)} also lies within {virtual_domain!r}: name it in "
            "`changed` of `kept`, or give the new domain another name"
        )
    return {
        domain: mixture[virtual_domain] * weight for domain, weight in weights_within.items()
    } | rest
