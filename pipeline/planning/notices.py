"""What a plan tells that is no mistake: names that a configuration defines and nothing uses."""

from collections.abc import Mapping
from typing import Any

from pipeline.planning import dependencies
from pipeline.planning.dependencies import RunName
from pipeline.planning.plan import Plan


def used(plan: Plan) -> dict[str, set[str]]:
    """By section, the names that a run, or something behind one, uses."""
    config, runs = plan.config, [RunName.parse(run) for run in plan.runs]
    found = {f"{key}s": {getattr(r, key) for r in runs} for key in ("scenario", "model", "method")}
    found["training"] = {dependencies.recipe(config, run) for run in runs}
    chosen = [config["scenarios"][name] for name in found["scenarios"]]
    for section, key in {"tokenizers": "tokenizer", "evaluation": "evaluation"}.items():
        found[section] = {scenario[key] for scenario in chosen}
    found["probe"] = {scenario["probe"] for scenario in chosen if "probe" in scenario}
    searches = {name.split("/")[2] for name in plan.mixtures}
    found |= {"mixtures": searches, "grids": searches, "tasks": set(plan.tasks)}
    found["swarms"] = {dependencies.search(config, name).get("swarm", "") for name in searches}
    found["sources"] = {corpus.partition("/")[2] for corpus in plan.corpora}
    found["sources"].update(s for t in found["tokenizers"] for s in plan.tokenizer_sources[t])
    return found


def unused(plan: Plan, own: Mapping[str, Any]) -> list[str]:
    """A line for each section that defines what is not used.

    Args:
        plan: The plan.
        own: The configuration without what it includes, which others may use.
    """
    idle = {s: [n for n in own.get(s, {}) if n not in names] for s, names in used(plan).items()}
    return [
        f"{plan.origin}: {section}: defined, and used by no run: {', '.join(names)}"
        for section, names in idle.items()
        if names
    ]
