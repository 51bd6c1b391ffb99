"""The rules by name: their classes, and methods made of them."""

from collections.abc import Iterator, Mapping
from typing import Any

from pike_mixing import RULES, registry
from pike_mixing.interface import Method


class _Methods(Mapping[str, type[Any]]):
    """From a rule's name to its class, which is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Any]:
        if name not in RULES:
            raise KeyError(name)
        return registry.kind(name)

    def __iter__(self) -> Iterator[str]:
        return iter(RULES)

    def __len__(self) -> int:
        return len(RULES)


METHODS = _Methods()
"""The classes of all rules by name: `METHODS["pike"] is PiKE`."""


def make(rule: str, /, **settings: Any) -> Method:
    """The method of a rule: `make("pike", zeta1=0.05, zeta2=0.005)`.

    Args:
        rule: A name in `METHODS`, or one's own `package.module:Class`.
        settings: Those of its class.

    Raises:
        InputError: unknown rule, or settings that do not fit it, with the nearest names.
    """
    return registry.build(rule, settings, registry.kind(rule).__name__)
