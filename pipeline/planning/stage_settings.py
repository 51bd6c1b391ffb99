"""One run's, evaluation's or mixture's explicit settings, from the sections of a configuration."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.planning import dependencies

Settings = dict[str, Any]


def run_settings(config: Settings, run: dependencies.RunName) -> Settings:
    """The content of a run's run.json."""
    chosen = config["scenarios"][run.scenario]
    values = dependencies.method_settings(config, run.scenario, run.method)
    return {
        "scenario": run.scenario,
        "model_name": run.model,
        "method_name": run.method,
        "seed": run.seed,
        "domains": chosen["domains"],
        "tokenizer": chosen["tokenizer"],
        "model": ordered(config["models"][run.model]),
        "training": ordered(config["training"][dependencies.recipe(config, run)]),
        "rule": values["rule"],
        "method": ordered({key: value for key, value in values.items() if key != "rule"}),
    }


def evaluation(config: Settings, run: dependencies.RunName, *, asked: bool) -> Settings:
    """How a run is evaluated; of one that only serves others, the losses after its last step."""
    named = config["evaluation"][config["scenarios"][run.scenario]["evaluation"]]
    if not asked:
        named = {**named, "checkpoints": "last", "choice": None, "tasks": []}
    found: Settings = ordered(named)
    if "tasks" in found:
        found["tasks"] = [one for entry in found["tasks"] for one in _ways(entry)]
    return found


def probe(config: Settings, run: dependencies.RunName) -> Settings | None:
    """How a run's gradients are compared; None where its scenario leaves it out."""
    named = config["scenarios"][run.scenario].get("probe")
    if named is None:
        return None
    values = dict(config["probe"][named])
    wanted = {"methods": run.method, "models": run.model}
    if any(name not in values.pop(key, [name]) for key, name in wanted.items()):
        return None
    found: Settings = ordered(values)
    return found


def _ways(entry: Settings) -> list[Settings]:
    """Every way of asking that an entry of `evaluation.tasks` stands for, one task at a time."""
    combined = {"tasks": "task", "shots": "shots", "formulations": "formulation"}
    shared = {key: value for key, value in entry.items() if key not in combined}
    return [
        ordered({**shared, **dict(zip(combined.values(), values, strict=True))})
        for values in itertools.product(*(entry[key] for key in combined))
    ]


def mixture_settings(
    config: Settings, mixture: dependencies.MixtureName, runs: Mapping[str, Settings]
) -> Settings:
    """What a finder is given: its options, and the runs that it reads."""
    values, results = config["mixtures"][mixture.mixture], str(Path(config["results"]))
    names = [str(run) for run in dependencies.proxies_of(config, mixture)]
    return ordered(
        {
            "finder": values["finder"],
            "domains": config["scenarios"][mixture.scenario]["domains"],
            "options": values.get("options", {}),
            "proxies": {
                name: {
                    "folder": f"{results}/runs/{name}",
                    "weights_by_domain": runs[name]["method"].get("weights_by_domain"),
                }
                for name in names
            },
        }
    )


def ordered(value: Any) -> Any:
    """The same with sorted keys: Snakemake compares settings as texts, and order is no change."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value)}
    return value


def tokenizer(config: Settings, name: str) -> Settings:
    """What a tokenizer is made from, its sources left out."""
    values = {key: value for key, value in config["tokenizers"][name].items() if key != "sources"}
    if values["kind"] == "train":
        # It is trained on training documents only, by the rule that packing splits by.
        values["validation_share"] = config["packing"]["validation_share"]
    return values


def outputs(named: Mapping[str, Any]) -> dict[str, Settings]:
    """Tables or figures by name."""
    return {name: {"name": name, "selection": dict(values)} for name, values in named.items()}
