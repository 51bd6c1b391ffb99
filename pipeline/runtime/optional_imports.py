"""Modules that need packages which not everybody installs, or not every command wants."""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from pike_mixing.errors import InputError, install

_EXTRAS = {"datasets": "hub", "huggingface_hub": "hub"}


def import_optional(place: str, where: str, name: object) -> Any:
    """What lies at `module:attribute`.

    Args:
        place: Where it lies.
        where: Where it was asked for, for messages.
        name: As what it was asked for.

    Raises:
        InputError: a package that it needs is not installed.
    """
    module, _, attribute = place.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise InputError(
            f"{where}: {name!r} needs the package {error.name!r}, which is not installed: "
            f"run `{install(_EXTRAS[error.name])}`"
        ) from error


@contextlib.contextmanager
def without(package: str) -> Iterator[None]:
    """Makes importing a package fail, as if it were not installed; one that is imported stays."""
    finder = _Missing(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Missing(MetaPathFinder, Loader):
    """Finds a package and does not load it: whoever only asks for its place (torch) goes on."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == self.package else None

    def create_module(self, spec: ModuleSpec) -> None:
        raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        raise AssertionError("no module is made")
