"""From a finder's name, in `FINDERS` of this package, and plain settings to the finder itself."""

import importlib
from collections.abc import Mapping
from typing import Any, cast

from pike_mixing import errors
from pike_mixing.errors import InputError
from pike_mixing.finders import FINDERS
from pike_mixing.finders.interface import Finder
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.settings import parse_settings


def finder_class(finder: str) -> type[Any]:
    """The settings dataclass of a finder; its packages are imported when it finds."""
    if finder not in FINDERS:
        raise InputError(unknown_name_message(finder, FINDERS, "finder"))
    module, _, name = FINDERS[finder].partition(":")
    return cast(type[Any], getattr(importlib.import_module(module), name))


def build_finder(finder: str, values: Mapping[str, Any], place: str) -> Finder:
    """The finder of this name with plain JSON settings, ready to find.

    `place` says where they were set, for messages. A package that is missing is refused, too.
    """
    built = cast(Finder, parse_settings(finder_class(finder), values, place))
    if problem := missing_finder_package_message(finder):
        raise InputError(problem)
    return built


def missing_finder_package_message(finder: str) -> str | None:
    """Which package a finder needs and this Python lacks; None when it has all."""
    problem = errors.missing_package_message(
        f"the finder {finder!r}", finder_class(finder).packages
    )
    if problem is None:
        return None
    return f"{problem} (for the clone's .venv: `{errors.clone_setup_command('finders')}`)"


def finder_module(finder: str) -> str:
    """The module of a finder: a mixture that it finds is a function of its code."""
    return FINDERS[finder].partition(":")[0]
