"""What a plan tells that is no mistake: what nothing uses, short searches, and what is next."""

import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.planning import dependencies
from pipeline.planning.dependencies import RunName
from pipeline.planning.plan import Plan
from pipeline.runtime import atomic_files
from pipeline.settings import GRID


def used(plan: Plan) -> dict[str, set[str]]:
    """By section, the names that a run, or something behind one, uses."""
    config, runs = plan.config, [RunName.parse(run) for run in plan.runs]
    result = {f"{key}s": {getattr(r, key) for r in runs} for key in ("scenario", "model", "method")}
    result["training"] = {dependencies.recipe(config, run) for run in runs}
    chosen = [config["scenarios"][name] for name in result["scenarios"]]
    for section, key in {"tokenizers": "tokenizer", "evaluation": "evaluation"}.items():
        result[section] = {scenario[key] for scenario in chosen}
    result["probe"] = {scenario["probe"] for scenario in chosen if "probe" in scenario}
    searches = {name.split("/")[2] for name in plan.mixtures}
    result |= {"mixtures": searches, "grids": searches, "tasks": set(plan.tasks)}
    result["swarms"] = {dependencies.search(config, name).get("swarm", "") for name in searches}
    result["sources"] = {corpus.partition("/")[2] for corpus in plan.corpora}
    result["sources"].update(s for t in result["tokenizers"] for s in plan.tokenizer_sources[t])
    return result


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


def short_searches(plan: Plan) -> list[str]:
    """A line for each mixture that runs of at most half a training's tokens find for it."""
    tokens = {
        run: math.prod(values["training"][key] for key in ("rows", "length", "steps"))
        for run, values in plan.runs.items()
    }
    told = dict[str, str]()
    for run, found in plan.found.items():
        search, name = plan.mixtures[found], found.split("/")[2]
        read = max(tokens[proxy] for proxy in search["proxies"])
        if search["finder"] != GRID and 2 * read <= tokens[run]:
            told[name] = (
                f"{plan.origin}: mixtures.{name}: runs of {read:,} tokens find it for trainings of "
                f"{tokens[run]:,}: mixtures of runs an eighth as long were worse than equal shares "
                "(docs/leaderboard.md): let those runs be as long"
            )
    return list(told.values())


def closing(plan: Plan) -> list[str]:
    """What a reader of a finished workflow needs next.

    Args:
        plan: The plan; its corpora that are not packed have nothing to tell.

    Returns:
        A line for each doubt about a corpus's validation text, and the commands that read the
        database, where it is there.
    """
    manifests = [Path(plan.manifest("pack", corpus)) for corpus in plan.corpora]
    doubts = [
        doubt
        for manifest in manifests
        if manifest.exists()
        for doubt in atomic_files.read_mapping(manifest).get("warnings", ())
    ]
    database = Path(plan.results) / "pike.duckdb"
    if not database.exists():
        return doubts
    return [
        *doubts,
        f"What to train with: {os.path.relpath(Path(sys.executable).with_name('pike'))} advise "
        f"{database}",
        f"The report: {database.with_name('report') / 'index.html'}",
    ]
