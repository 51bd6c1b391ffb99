"""What a configuration may say in short, written out: plans and checks know the long form alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message
from pipeline.runtime import model_folders

Config = Mapping[str, Any]


def expand_shorthand(config: Config) -> dict[str, Any]:
    """The configuration in its long form; what does not have a section's shape stays as it is.

    - `scenarios.NAME.like`: what another scenario sets and this one does not.
    - `runs` without `methods`: all that the section `methods` names, but for those of `without`.
    - `models.NAME.transformers`: the sizes and the content of its `config.json`, and the digest of
      its weights where training goes on from them.
    - `grids.NAME.of` and `values`: a method `{grid}-{place}` for each place in the lists of values.
    """
    whole = dict(config)
    if isinstance(scenarios := config.get("scenarios"), Mapping):
        whole["scenarios"] = {name: _expand_scenario(scenarios, name) for name in scenarios}
    if isinstance(models := config.get("models"), Mapping):
        whole["models"] = {
            name: _expand_model_entry(models[name], f"models.{name}") for name in models
        }
    if not isinstance(methods := config.get("methods"), Mapping):
        return whole
    if isinstance(runs := config.get("runs"), list):
        whole["runs"] = [
            _run_entry_with_default_methods(methods, entry, f"runs[{n}]")
            for n, entry in enumerate(runs)
        ]
    if isinstance(grids := config.get("grids"), Mapping):
        made = {name: _zipped_grid_methods(methods, name, grid) for name, grid in grids.items()}
        whole["methods"] = {**methods, **{m: v for grid in made.values() for m, v in grid.items()}}
        whole["grids"] = {
            name: {"methods": list(made[name]), "settings": list(grid["values"]), **grid}
            if made[name]
            else grid
            for name, grid in grids.items()
        }
    return whole


def _expand_scenario(scenarios: Config, name: str) -> Any:
    values = scenarios[name]
    if not isinstance(values, Mapping) or not isinstance(other := values.get("like"), str):
        return values
    alone = [n for n, v in scenarios.items() if isinstance(v, Mapping) and "like" not in v]
    if other not in alone:
        raise InputError(unknown_name_message(other, alone, f"scenarios.{name}.like"))
    return {**scenarios[other], **values}


def _expand_model_entry(values: Any, where: str) -> Any:
    if not isinstance(values, Mapping) or not isinstance(place := values.get("transformers"), str):
        return values
    own = model_folders.read_model_settings_from_config(place, f"{where}.transformers")
    result = {**own, **values}
    if values.get("continued") is True:
        result["weights_sha256"] = model_folders.folder_weights_digest(Path(place))
    return result


def _run_entry_with_default_methods(methods: Config, entry: Any, place: str) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    if "methods" in entry:
        if "without" in entry:
            raise InputError(f"{place}.without: stands in place of methods: take one out")
        return entry
    without = entry.get("without")
    left_out = without if isinstance(without, list) else []
    return {**entry, "methods": [name for name in methods if name not in left_out]}


def _zipped_grid_methods(methods: Config, name: str, grid: Any) -> dict[str, Any]:
    """The methods that a grid compares, by name; none where it names them itself."""
    if not isinstance(grid, Mapping) or not isinstance(grid.get("values"), Mapping):
        return {}
    values, of = grid["values"], str(grid.get("of"))
    if of not in methods:
        raise InputError(unknown_name_message(of, methods, f"grids.{name}.of"))
    for setting, each in values.items():
        if not isinstance(each, list):
            where = f"grids.{name}.values.{setting}"
            raise InputError(f"{where}: {each!r} is not a list: give a value for each run")
    if not isinstance(methods[of], Mapping):
        return {}
    sizes = {len(each) for each in values.values()}
    if len(sizes) != 1 or 0 in sizes:
        counted = f"grids.{name}.values: lists of {sorted(sizes)} values"
        raise InputError(f"{counted}: give each setting one at least, and all equally many")
    made = {
        f"{name}-{place}": {**methods[of], **{s: each[place] for s, each in values.items()}}
        for place in range(sizes.pop())
    }
    if taken := sorted(made.keys() & methods.keys()):
        raise InputError(f"methods.{taken[0]}: grids.{name} makes a method of this name: rename it")
    return made
