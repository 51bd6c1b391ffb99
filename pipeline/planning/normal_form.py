"""One form for all configurations that mean the same: settings that are silent are filled in.

A default that is written out, one file in place of a list of one, `./text` in place of `text`: what
is made from them is the same, so that settings files, manifests and comparisons have one form.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Any, get_args

from pike_mixing.setting_fields import bare_type, default_value, type_hints
from pipeline.planning.configuration import Compare, Experiment, Paper

PATH_SETTINGS = {
    "sources": ("files", "validation_files", "exclude"),
    "tokenizers": ("path",),
    "models": ("transformers",),
    "tasks": ("files",),
}
"""Settings of a section's entries that are paths, or patterns of such."""


def normalise_config(experiment: Experiment, first_sections: Collection[str]) -> dict[str, Any]:
    """A configuration with every default filled in, but those of rules and finders.

    Sections are in the order of `first_sections`, then of the dataclass.
    """
    compare, paper = experiment.compare or Compare(), experiment.paper or Paper()
    whole = dataclasses.replace(experiment, compare=compare, paper=paper)
    result: dict[str, Any] = plain_without_empty_defaults(whole)
    result["results"] = _normalise_paths(result["results"])
    for section, names in PATH_SETTINGS.items():
        for values in result.get(section, {}).values():
            # On the Hub, names are no paths of this machine.
            if values.get("kind") in (None, "local", "file"):
                values |= {name: _normalise_paths(values[name]) for name in names if name in values}
    if unwanted := result["packing"]["hygiene"].get("decontaminate"):
        unwanted["files"] = _normalise_paths(unwanted["files"])
    return {name: result[name] for name in [*first_sections, *result] if name in result}


def _normalise_paths(paths: Any) -> Any:
    """Without `./` and doubled slashes; `..` may lead through a link, and stays."""
    if isinstance(paths, Mapping):
        return {name: _normalise_paths(one) for name, one in paths.items()}
    if isinstance(paths, list):
        return [*map(_normalise_paths, paths)]
    return str(PurePosixPath(paths))


def plain_without_empty_defaults(value: Any) -> Any:
    """Plain JSON values of validated settings; what is absent or empty by default is left out."""
    if dataclasses.is_dataclass(value):
        kept = {
            field.name: one
            for field in dataclasses.fields(value)
            if (one := getattr(value, field.name)) != default_value(field)
            or not _is_none_or_empty_collection(one)
        }
        return {name: plain_without_empty_defaults(one) for name, one in kept.items()}
    if isinstance(value, Mapping):
        return {name: plain_without_empty_defaults(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [*map(plain_without_empty_defaults, value)]
    return value


def _is_none_or_empty_collection(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping | list | tuple) and not value)


def fill_top_level_class_defaults(settings_class: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a rule or finder of this dataclass, its defaults filled in."""
    defaults, real_names = _defaults_and_float_names(settings_class)
    return fill_top_level_defaults(defaults, given, real_names)


@functools.cache
def _defaults_and_float_names(settings_class: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The defaults of a dataclass's fields, and the names of those that are real numbers."""
    defaults = {field.name: default_value(field) for field in dataclasses.fields(settings_class)}
    types = {name: bare_type(hint) for name, hint in type_hints(settings_class).items()}
    return defaults, frozenset(
        n for n, one in types.items() if float in (one, *map(bare_type, get_args(one)))
    )


def fill_top_level_defaults(
    defaults: Mapping[str, Any], given: Mapping[str, Any], real_names: Collection[str] = ()
) -> dict[str, Any]:
    """Given settings with defaults where they are silent, but for those that JSON cannot hold.

    Whole numbers become real ones for `real_names`, and where the default is a real number.
    """
    silent = {name for name, value in defaults.items() if value is None}
    known = {n: v for n, v in defaults.items() if _is_json_without_empty_parts(v)}
    real = {*real_names, *(name for name, value in known.items() if isinstance(value, float))}
    result = known | {n: v for n, v in given.items() if not (v is None and n in silent)}
    return {
        name: _as_floats(v) if name in real else plain_without_empty_defaults(v)
        for name, v in result.items()
    }


def _is_json_without_empty_parts(value: Any) -> bool:
    if isinstance(value, list | tuple | Mapping):
        inner = value.values() if isinstance(value, Mapping) else value
        return bool(value) and all(map(_is_json_without_empty_parts, inner))
    return isinstance(value, bool | int | float | str)


def _as_floats(value: Any) -> Any:
    """A whole number as a real one, alone or in a list or mapping."""
    if isinstance(value, Mapping):
        return {name: _as_floats(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_as_floats, value)]
    return float(value) if type(value) is int else value
