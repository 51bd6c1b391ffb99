"""Names within a configuration that nothing bears, and settings that do not fit together."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pike_mixing import RULES
from pike_mixing.finders import FINDERS
from pike_mixing.finders import registry as finders
from pike_mixing.settings import check, domain_problems, unknown
from pipeline.planning import dependencies, methods, paper_roles, schema
from pipeline.planning.configuration import Experiment
from pipeline.runtime import validation
from pipeline.runtime.code_fingerprint import PACKAGE
from pipeline.settings import Training
from pipeline.tasks import TASKS

Config = Mapping[str, Any]

QUERIES = PACKAGE / "results" / "sql"
"""Each table and each figure has a query here: table_{name}.sql, figure_{name}.sql; the paper's own
are table1.sql, figure1.sql."""


SELECTIONS = ("runs", "tables", "figures")
USES = {
    "sources": ("tokenizers.*.sources", "evaluation.*.domains", "scenarios.*.domains"),
    "tokenizers": ("scenarios.*.tokenizer",),
    "training": (
        *("scenarios.*.training", "swarms.*.training"),
        *("methods.*.training", "scenarios.*.methods.*.training"),
    ),
    "evaluation": ("scenarios.*.evaluation",),
    "probe": ("scenarios.*.probe",),
    "swarms": ("mixtures.*.swarm",),
    "mixtures": ("methods.*.mixture", "scenarios.*.methods.*.mixture"),
    "grids": ("methods.*.grid", "scenarios.*.methods.*.grid"),
    "finders": ("mixtures.*.finder",),
    "scenarios": tuple(f"{section}.*.scenarios" for section in SELECTIONS),
    "models": (
        *(f"{section}.*.models" for section in (*SELECTIONS, "probe")),
        *("evaluation.*.curves.models", "swarms.*.model", "mixtures.*.model", "grids.*.model"),
    ),
    "methods": (
        *(f"{section}.*.methods" for section in (*SELECTIONS, "probe", "scenarios", "mixtures")),
        "runs.*.without",
        *("methods.*.reference", "scenarios.*.methods.*.reference", "grids.*.methods"),
        "grids.*.of",
        *("evaluation.*.curves.methods", "compare.baseline", "compare.oracle"),
    ),
    "tables": ("quick.tables",),
    "figures": ("quick.figures",),
}
"""Each section (finders: the table of them), and where its names are used."""


def problems(config: Config, origin: str) -> list[str]:
    """Every dangling name, or else every method whose settings do not fit a scenario.

    Args:
        config: A configuration that obeys the schema.
        origin: Where it was set, for messages.
    """
    dangling = [
        unknown(name, known, f"{origin}: {where}")
        for names, known, where in _uses(config)
        for name in names
        if name not in known
    ]
    return dangling or _of_grids(config, origin) or _misfits(config, origin)


def _of_grids(config: Config, origin: str) -> list[str]:
    """Grids whose methods do not set what they choose, or that have a mixture's name."""
    grids, mixtures = config.get("grids", {}), config.get("mixtures", {})
    result = [
        f"{origin}: grids.{name}: a mixture has this name, too: rename one"
        for name in grids.keys() & mixtures.keys()
    ]
    for name, grid in grids.items():
        result += [
            f"{origin}: grids.{name}.settings: methods.{method} sets no {setting!r}: set it there"
            for method, setting in itertools.product(grid["methods"], grid["settings"])
            if setting not in config["methods"].get(method, {})
        ]
    return result


def _uses(config: Config) -> Iterable[tuple[Iterable[str], Iterable[str], str]]:
    """All uses of names: the names, those that exist, and where they are used."""
    for section, paths in USES.items():
        known = FINDERS if section == "finders" else config.get(section, {})
        for path in paths:
            for where, names in _at(config, path.split(".")):
                if isinstance(names, str):
                    yield [names], known, where
                elif isinstance(names, Mapping | list):
                    yield names, known, where
    for kind in ("table", "figure"):
        drawn = {path.stem.removeprefix(f"{kind}_") for path in QUERIES.glob(f"{kind}*.sql")}
        yield config[f"{kind}s"], drawn, f"{kind}s"
    yield from _uses_of_tasks(config)
    yield from paper_roles.uses(config)


def _at(value: Any, path: Sequence[str], where: str = "") -> Iterator[tuple[str, Any]]:
    """Each value at a path, with its place; `*` stands for every name or entry."""
    if not path:
        yield where, value
    elif isinstance(value, Mapping):
        for name in value if path[0] == "*" else {path[0]} & value.keys():
            yield from _at(value[name], path[1:], f"{where}.{name}" if where else name)
    else:
        for index, entry in enumerate(value):
            yield from _at(entry, path[1:], f"{where}[{index}]")


def _uses_of_tasks(config: Config) -> Iterable[tuple[Iterable[str], Iterable[str], str]]:
    """Names of downstream tasks that no pattern of `TASKS` fits."""
    used = {
        f"evaluation.{name}.tasks[{index}].tasks": entry["tasks"]
        for name, evaluation in config["evaluation"].items()
        for index, entry in enumerate(evaluation.get("tasks", []))
    }
    for where, names in {**used, "tasks": config.get("tasks", {})}.items():
        fits_none = (n for n in names if not any(re.fullmatch(task, n) for task in TASKS))
        yield fits_none, TASKS, where


def _misfits(config: Config, origin: str) -> list[str]:
    whole = validation.validate(Experiment, config, origin, together=False)
    problems = schema.contradictions(whole, origin)
    problems += [f"{origin}: {problem}" for problem in _too_long(config)]
    every = dependencies.closure(config, dependencies.requested_runs(config))
    pairs = {(r.scenario, r.method): dependencies.recipe(config, r) for r in every}
    for scenario, values in config["scenarios"].items():
        named = (dependencies.RunName(scenario, "", m, 0) for m in values.get("methods", {}))
        pairs |= {(scenario, run.method): dependencies.recipe(config, run) for run in named}
    problems += [f"{origin}: {problem}" for problem in _of_targets(config)]
    for name, values in config.get("mixtures", {}).items():
        if not {"swarm", "methods"} & values.keys():
            problems.append(
                f"{origin}: mixtures.{name}: swarm or methods: name what it is found from"
            )
        where = f"{origin}: mixtures.{name}.options"
        problems += check(finders.kind(values["finder"]), values.get("options", {}), where)
    problems += paper_roles.problems(config, origin)
    problems += [f"{origin}: {problem}" for problem in _asked_twice(config)]
    problems += [f"{origin}: {problem}" for problem in _headline(config)]
    for (scenario, method), recipe in sorted(pairs.items()):
        problems += _of_method(config, origin, scenario, method, whole.training[recipe])
    problems += [f"{origin}: {problem}" for problem in _without_oracle(config)]
    return [*problems, *_unselected(config, origin, every)]


def _too_long(config: Config) -> Iterable[str]:
    """Items of multiple choice that do not fit into the rows of a scenario's training."""
    for name, scenario in config["scenarios"].items():
        choice = config["evaluation"][scenario["evaluation"]].get("choice")
        length = config["training"][scenario["training"]]["length"]
        if choice and choice["context"] + choice["candidate"] - 1 > length:
            yield (
                f"evaluation.{scenario['evaluation']}.choice.context: {choice['context']} tokens "
                f"and {choice['candidate']} of a candidate do not fit into the {length} tokens of "
                f"training.{scenario['training']} in scenario {name}: lower it"
            )


def _of_targets(config: Config) -> Iterable[str]:
    """Targets that do not weigh all domains of their scenario, or where others are evaluated."""
    for name, scenario in config["scenarios"].items():
        if (target := scenario.get("target")) is not None:
            yield from domain_problems(
                target, scenario["domains"], f"scenarios.{name}.target", "has no weight"
            )
            if config["evaluation"][scenario["evaluation"]].get("domains"):
                yield (
                    f"evaluation.{scenario['evaluation']}.domains: scenario {name} has a target, "
                    "which is over its own domains: take one of the two out"
                )


def _asked_twice(config: Config) -> Iterable[str]:
    """Ways of asking a downstream task that two entries of an evaluation stand for."""
    for name, evaluation in config["evaluation"].items():
        ways = [
            (task, shots, formulation)
            for entry in evaluation.get("tasks", [])
            for task in entry["tasks"]
            for shots in entry["shots"]
            for formulation in entry["formulations"]
        ]
        for way in sorted({way for way in ways if ways.count(way) > 1}):
            yield (
                f"evaluation.{name}.tasks: {way[0]}, {way[1]}-shot, {way[2]} is asked twice: take "
                "it out of one entry"
            )


def _headline(config: Config) -> Iterable[str]:
    """A headline formulation in which no downstream task is asked: tables would be empty."""
    entries = [entry for each in config["evaluation"].values() for entry in each.get("tasks", [])]
    requested = sorted({formulation for entry in entries for formulation in entry["formulations"]})
    headline = config.get("paper", {}).get("headline")
    if headline and requested and headline not in requested:
        yield (
            f"paper.headline: no task is asked in the formulation {headline!r}: name one of "
            f"{', '.join(requested)}, or add it to evaluation"
        )


def _of_method(
    config: Config, origin: str, scenario: str, method: str, recipe: Training
) -> Iterable[str]:
    """Settings with which a method cannot train in a scenario, and domains that it has not."""
    values = dict(dependencies.method_settings(config, scenario, method))
    domains, rule = config["scenarios"][scenario]["domains"], values.pop("rule")
    values = {key: value for key, value in values.items() if key not in methods.OF_PLAN}
    tuned = dependencies.tuned(config, scenario, method)
    values = methods.planned({"method": values, "tuned": tuned})
    where = f"{origin}: methods.{method} in scenario {scenario}"
    if isinstance(rule, str) and rule in RULES:
        yield from methods.misfits(rule, values, domains, recipe, where)
    else:
        yield from methods.problems({"rule": rule}, where)
    mixture = config.get("mixtures", {}).get(values.get("mixture"))
    if mixture is None:
        return
    evaluation = config["scenarios"][scenario]["evaluation"]
    kept = config["evaluation"][evaluation].get("token_losses")
    if finders.kind(mixture["finder"]).reads == "predictions" and not kept:
        yield (
            f"{origin}: mixtures.{values['mixture']}: the finder {mixture['finder']} reads the "
            f"losses of tokens, which scenario {scenario} does not keep: set "
            f"evaluation.{evaluation}.token_losses: true"
        )
    for key in ("target", "prior"):
        if (given := mixture.get("options", {}).get(key)) is not None:
            at = f"{origin}: mixtures.{values['mixture']}.options.{key} in scenario {scenario}"
            yield from domain_problems(given, domains, at, "is missing")


def _without_oracle(config: Config) -> Iterable[str]:
    """Tables of regret to an oracle that no setting names."""
    if config.get("compare", {}).get("oracle") is None:
        for name in sorted({"ladder", "leaderboard"} & config["tables"].keys()):
            yield f"tables.{name}: it shows regret to an oracle: name a method in compare.oracle"


def _unselected(
    config: Config, origin: str, every: Sequence[dependencies.RunName]
) -> Iterable[str]:
    """What tables and figures select and no run has: they would be refused after all training."""
    requested = set(dependencies.requested_runs(config))
    for section in ("tables", "figures"):
        for name, selection in config[section].items():
            chosen = [run.by_key() for run in dependencies.selected(every, requested, selection)]
            for key, values in selection.items():
                there = {run[key] for run in chosen}
                for value in values:
                    if value not in there:
                        yield (
                            f"{origin}: {section}.{name}.{key}: no run that is selected has "
                            f"{value!r}: take it out, or add such a run to runs"
                        )
