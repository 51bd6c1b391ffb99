"""Sizes of the corpora in tokens: by domain's name, checked, in the order of the domains."""

from collections.abc import Mapping

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError


def checked(tokens_by_domain: Mapping[str, float] | None) -> list[str]:
    """Problems of the sizes that show without knowing the domains."""
    given = tokens_by_domain or {}
    return [f"tokens_by_domain.{d}: {n} is not positive" for d, n in given.items() if not n > 0]


def ordered(tokens_by_domain: Mapping[str, float] | None, domains: tuple[str, ...]) -> Floats:
    """Tokens of each domain, in the order of the domains.

    Raises:
        InputError: no sizes are known, one names no domain of the run, or a domain has none.
    """
    if tokens_by_domain is None:
        raise InputError("tokens_by_domain: the sizes of the corpora are not known: give them")
    return by_domain.placed(tokens_by_domain, domains, "tokens_by_domain", "size")
