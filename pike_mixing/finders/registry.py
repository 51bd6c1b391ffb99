"""From a finder's name and plain settings to the finder itself."""

import importlib
from collections.abc import Mapping
from typing import Any, cast

from pike_mixing.errors import InputError, install
from pike_mixing.finders import FINDERS
from pike_mixing.finders.interface import Finder
from pike_mixing.settings import parse, unknown

EXTRA = ("lightgbm", "scipy")
"""Packages of the extra `finders`, which the other stages do without."""


def kind(finder: str) -> type[Any]:
    """The settings dataclass of a finder.

    Raises:
        InputError: there is no such finder, or a package that it needs is not there.
    """
    if finder not in FINDERS:
        raise InputError(unknown(finder, FINDERS, "finder"))
    module, _, name = FINDERS[finder].partition(":")
    try:
        return cast(type[Any], getattr(importlib.import_module(module), name))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA:
            raise
        raise InputError(
            f"the finder {finder!r} needs the package {package!r}, which is not installed: "
            f"run `{install('finders')}`"
        ) from None


def build(finder: str, values: Mapping[str, Any], where: str) -> Finder:
    """The finder of this name with its settings.

    Raises:
        InputError: unknown finder, or settings that do not fit it; all of them in one message.
    """
    return cast(Finder, parse(kind(finder), values, where))


def refuse(mixtures: Mapping[str, Mapping[str, Any]]) -> None:
    """Builds the finder of every mixture, so that no proxy is trained for one that cannot be found.

    Args:
        mixtures: Settings of mixtures by scenario/model/mixture/seed.

    Raises:
        InputError: every reason against every mixture's finder, each once.
    """
    problems: dict[str, None] = {}
    for name, values in mixtures.items():
        try:
            build(values["finder"], values["options"], f"mixtures.{name.split('/')[2]}.options")
        except InputError as error:
            problems |= dict.fromkeys(str(error).splitlines())
    if problems:
        raise InputError("\n".join(problems))


def modules(finder: str) -> tuple[str, str]:
    """The modules whose code a mixture of this finder is a function of."""
    return "pipeline.training.find_mixture", FINDERS[finder].partition(":")[0]
