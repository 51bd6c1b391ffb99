"""One run's, evaluation's or mixture's explicit settings, from the sections of a configuration."""

import dataclasses
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pike_mixing.finders import build_finder as finders
from pipeline.planning import dependencies, methods, normal_form
from pipeline.runtime.validate_settings import validate
from pipeline.settings import GRID, Model, Training

Settings = dict[str, Any]


def run_settings(config: Settings, run: dependencies.RunName) -> Settings:
    """The content of a run's run.json."""
    chosen = config["scenarios"][run.scenario]
    values = dependencies.method_settings(config, run.scenario, run.method)
    tuned = dependencies.grid_choices(config, run.scenario, run.method)
    return {
        "scenario": run.scenario,
        "model_name": run.model,
        "method_name": run.method,
        "seed": run.seed,
        "domains": chosen["domains"],
        "tokenizer": chosen["tokenizer"],
        "model": with_sorted_keys(config["models"][run.model]),
        "training": with_sorted_keys(config["training"][dependencies.recipe_name(config, run)]),
        "rule": values["rule"],
        "method": with_sorted_keys(
            methods.rule_settings(methods.fill_method_defaults(values, tuned))
        ),
        **({"tuned": with_sorted_keys(tuned)} if tuned else {}),
    }


def fill_run_defaults(run: Settings) -> Settings:
    """The content of a run.json with its defaults filled in, as that of a plan has them."""
    method = methods.fill_method_defaults(
        {**run["method"], "rule": run["rule"]}, run.get("tuned", ())
    )
    kinds: dict[str, type[Any]] = {"model": Model, "training": Training}
    parts = {
        name: normal_form.plain_without_empty_defaults(validate(k, run[name], name))
        for name, k in kinds.items()
    }
    return with_sorted_keys({**run, **parts, "method": methods.rule_settings(method)})


def evaluation_settings(
    config: Settings, run: dependencies.RunName, *, requested: bool, searched: bool
) -> Settings:
    """How a run is evaluated; of one that only serves others, the losses after its last step.

    Such a run is not `requested`. Of one that is `searched`, a grid or a finder reads the losses.
    """
    named = dict(config["evaluation"][config["scenarios"][run.scenario]["evaluation"]])
    if not run.is_among(named.pop("curves", {})):
        named["checkpoints"] = "last"
    if not requested:
        named |= {"checkpoints": "last", "choice": None, "few_shot": None, "tasks": []}
    if searched:
        named["search"] = True
    result: Settings = with_sorted_keys(named)
    if "tasks" in result:
        result["tasks"] = [one for entry in result["tasks"] for one in expand_tasks(entry)]
    return result


def probe_settings(config: Settings, run: dependencies.RunName) -> Settings | None:
    """How a run's gradients are compared; None where its scenario leaves it out."""
    named = config["scenarios"][run.scenario].get("probe")
    if named is None:
        return None
    values = dict(config["probe"][named])
    chosen = {key: values.pop(key) for key in dependencies.KEYS if key in values}
    result: Settings = with_sorted_keys(values)
    return result if run.is_among(chosen) else None


def expand_tasks(entry: Settings) -> list[Settings]:
    """Every way of asking that an entry of `evaluation.tasks` stands for, one task at a time."""
    combined = {"tasks": "task", "shots": "shots", "formulations": "formulation"}
    shared = {key: value for key, value in entry.items() if key not in combined}
    return [
        with_sorted_keys({**shared, **dict(zip(combined.values(), values, strict=True))})
        for values in itertools.product(*(entry[key] for key in combined))
    ]


def mixture_settings(
    config: Settings, mixture: dependencies.MixtureName, runs: Mapping[str, Settings]
) -> Settings:
    """What a finder, or a grid, is given: its options, and which of `runs` it reads, by name.

    Their folders are no part of it: results can be moved.
    """
    values = dependencies.mixture_or_grid_settings(config, mixture.mixture)
    names = [str(run) for run in dependencies.proxy_runs(config, mixture)]
    given, finder = values.get("settings", ()), values.get("finder", GRID)
    options, target = values.get("options", {}), config["scenarios"][mixture.scenario].get("target")
    kind = None if finder == GRID else finders.finder_class(finder)
    takes_target = kind is None or "target" in {field.name for field in dataclasses.fields(kind)}
    if target is not None and takes_target:
        options = {"target": target, **options}
    if kind is not None:
        options = normal_form.fill_top_level_class_defaults(kind, options)
    return with_sorted_keys(
        {
            "finder": finder,
            "domains": config["scenarios"][mixture.scenario]["domains"],
            "options": options,
            "proxies": {
                name: {
                    "weights_by_domain": runs[name]["method"].get("weights_by_domain"),
                    **({"gives": {s: runs[name]["method"][s] for s in given}} if given else {}),
                }
                for name in names
            },
            **({"order": names} if finder == GRID else {}),
        }
    )


def needs_method_states(finder: str) -> bool:
    """Whether a finder reads the states of its proxies' methods, not their losses."""
    return finder != GRID and finders.finder_class(finder).reads == "state"


def with_sorted_keys(value: Any) -> Any:
    """The same with sorted keys: Snakemake compares settings as texts, and order is no change."""
    if isinstance(value, dict):
        return {key: with_sorted_keys(value[key]) for key in sorted(value)}
    return value


def tokenizer_settings_without_sources(config: Settings, name: str) -> Settings:
    """What a tokenizer is made from, its sources left out."""
    values = {key: value for key, value in config["tokenizers"][name].items() if key != "sources"}
    if values["kind"] == "train":
        # It is trained on training documents only, by the rule that packing splits by.
        values["validation_share"] = config["packing"]["validation_share"]
        if how := config["packing"].get("hygiene", {}).get("normalisation"):
            values["normalisation"] = how
    result: Settings = with_sorted_keys(values)
    return result


def decontamination_tasks_by_path(config: Mapping[str, Any]) -> dict[str, str]:
    """Downstream tasks that no corpus may hold, by the path of their files in the results."""
    files = (config["packing"].get("hygiene", {}).get("decontaminate") or {}).get("files", [])
    folder, result = Path(config["results"], "tasks"), {}
    for path in [files] if isinstance(files, str) else files:
        # However the path is spelled.
        within = Path(os.path.relpath(path, folder)).parts
        if within and within[0] != os.pardir:
            result[path] = within[0]
    return result


def name_and_selection_by_output(selection_by_name: Mapping[str, Any]) -> dict[str, Settings]:
    """Settings of tables or figures by name."""
    return {name: {"name": name, "selection": dict(one)} for name, one in selection_by_name.items()}
