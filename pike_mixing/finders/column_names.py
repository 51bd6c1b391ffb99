"""Names of a table's columns, as patterns with a * for the name of a domain or a loss."""

from collections.abc import Iterable

from pike_mixing.errors import InputError


def matching(columns: Iterable[str], pattern: str) -> dict[str, str]:
    """The columns of a pattern, by what stands in the place of its *.

    Raises:
        InputError: the pattern has not one *.
    """
    if pattern.count("*") != 1:
        raise InputError(f"{pattern!r} is no name with one * where domains or losses differ")
    before, after = pattern.split("*")
    return {
        name[len(before) : len(name) - len(after)]: name
        for name in columns
        if name.startswith(before) and name.endswith(after) and len(name) > len(before + after)
    }


def named(losses: Iterable[str], pattern: str) -> list[str]:
    """Names of losses, of which some may be those of their columns."""
    return [next(iter(matching([name], pattern)), name) for name in losses]
