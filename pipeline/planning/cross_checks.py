"""Checks across the sections of a configuration: undefined names, incompatible settings."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pike_mixing import RULES
from pike_mixing.finders import FINDERS
from pike_mixing.finders import build_finder as finders
from pike_mixing.setting_messages import domain_mismatch_problems, unknown_name_message
from pike_mixing.settings import settings_problems
from pipeline.planning import (
    dependencies,
    methods,
    paper_roles,
    schema,
    stage_settings,
    strict_yaml,
)
from pipeline.planning.configuration import Compare, Experiment
from pipeline.planning.dependencies import RunName
from pipeline.planning.paper_roles import NameUse
from pipeline.runtime.code_fingerprint import PACKAGE
from pipeline.settings import GRID, Training
from pipeline.tasks import TASK_PATTERNS
from pipeline.tasks.evaluation_settings import Choice, FewShot

Config = Mapping[str, Any]

QUERY_FOLDER = PACKAGE / "results" / "sql"
"""Each table and each figure has a query here: table_{name}.sql, figure_{name}.sql; the paper's own
are table1.sql, figure1.sql."""

SELECTIONS = ("runs", "tables", "figures")
NAME_USES = {
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
        *("predictions.hypotheses.*.method", "predictions.hypotheses.*.against"),
    ),
    "tables": ("quick.tables",),
    "figures": ("quick.figures",),
}
"""By section: where the configuration uses its names; finders are those of `FINDERS`."""


def consistency_problems(
    config: Config, experiment: Experiment, origin: str, files: Iterable[Path]
) -> list[str]:
    """All undefined names; if there are none, all settings that do not go together.

    `experiment` is the same configuration as dataclasses.
    A list with an anchor in one of `files`, which set the configuration, is named once.
    """
    if wrong := _undefined_name_problems(config, files) or [*_grid_and_swarm_problems(config)]:
        return [f"{origin}: {problem}" for problem in wrong]
    further = [*_incompatibility_problems(config, experiment.training)]
    if any(map(OTHER_DOMAIN.search, further)):
        lists = strict_yaml.anchor_text_by_place(files)
        further = [_with_domain_list_hint(problem, lists) for problem in further]
    return schema.contradictions(experiment, origin) + [
        f"{origin}: {problem}" for problem in further
    ]


def _undefined_name_problems(config: Config, files: Iterable[Path]) -> list[str]:
    dangling = [
        (use, name) for use in _name_uses(config) for name in use.names if name not in use.known
    ]
    lists = strict_yaml.anchor_text_by_place(files) if dangling else {}
    by_place: dict[tuple[str, str], str] = {}
    for (_, known, where), name in dangling:
        place = f"{where}, the list {lists[where]}" if where in lists else where
        problem = unknown_name_message(name, known, place)
        by_place.setdefault((lists.get(where, where), name), problem)
    return [*by_place.values()]


OTHER_DOMAIN = re.compile(r"(?:^scenarios\.(\S+)\.target|in scenario (\S+): \w+): .* is unknown: ")
"""A message on a weight of a domain that the scenario does not have."""


def _with_domain_list_hint(problem: str, list_by_place: Mapping[str, str]) -> str:
    """The problem, and where a domain is added, if that is another place than the scenario."""
    found = OTHER_DOMAIN.search(problem)
    place = list_by_place.get(f"scenarios.{found[1] or found[2]}.domains") if found else None
    return f"{problem}; domains are those of the list {place}" if place else problem


def _grid_and_swarm_problems(config: Config) -> Iterator[str]:
    """Names that a grid or a swarm takes from others, and settings that a grid cannot choose."""
    grids, mixtures = config.get("grids", {}), config.get("mixtures", {})
    for name in grids.keys() & mixtures.keys():
        yield f"grids.{name}: a mixture has this name, too: rename one"
    for name, grid in grids.items():
        for method, setting in itertools.product(grid["methods"], grid["settings"]):
            if setting not in config["methods"].get(method, {}):
                yield f"grids.{name}.settings: methods.{method} sets no {setting!r}: set it there"
    for name, member in dependencies.swarm_members(config).items():
        if name in config["methods"]:
            yield f"methods.{name}: swarms.{member.swarm} makes a method of this name: rename one"


def _name_uses(config: Config) -> Iterable[NameUse]:
    for section, paths in NAME_USES.items():
        known = FINDERS if section == "finders" else config.get(section, {})
        for path in paths:
            for place, names in _values_at(config, path.split(".")):
                # A method names one of each; its values have no schema.
                several = isinstance(names, Mapping | list) and "methods.*." not in path
                if names is not None:
                    yield NameUse(names if several else [str(names)], known, place)
    for kind in ("table", "figure"):
        available = {
            path.stem.removeprefix(f"{kind}_") for path in QUERY_FOLDER.glob(f"{kind}*.sql")
        }
        yield NameUse(config[f"{kind}s"], available, f"{kind}s")
    # One method alone is compared with nothing.
    if "baseline" not in config.get("compare", {}) and len(config["methods"]) > 1:
        place = "compare.baseline, which is not set"
        yield NameUse([Compare.baseline], config["methods"], place)
    yield from _uses_of_unknown_tasks(config)
    yield from paper_roles.name_uses_in_paper_section(config)


def _values_at(value: Any, path: Sequence[str], place: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that matches a path, with its place; `*` matches every name."""
    if not path:
        yield place, value
    elif isinstance(value, Mapping):
        for name in value if path[0] == "*" else {path[0]} & value.keys():
            yield from _values_at(value[name], path[1:], f"{place}.{name}" if place else name)
    else:
        for index, entry in enumerate(value):
            yield from _values_at(entry, path[1:], f"{place}[{index}]")


def _uses_of_unknown_tasks(config: Config) -> Iterable[NameUse]:
    """Names of downstream tasks that match no pattern of `TASK_PATTERNS`."""
    used = dict(_values_at(config, ["evaluation", "*", "tasks", "*", "tasks"]))
    used["tasks"] = config.get("tasks", {})
    used["packing.hygiene.decontaminate.files"] = stage_settings.decontamination_tasks_by_path(
        config
    ).values()
    for place, names in used.items():
        fits_none = (n for n in names if not any(re.fullmatch(task, n) for task in TASK_PATTERNS))
        yield NameUse(fits_none, TASK_PATTERNS, place)


def _incompatibility_problems(config: Config, recipes: Mapping[str, Training]) -> Iterator[str]:
    """All settings that do not go together, of a configuration whose names are defined."""
    all_runs = dependencies.wanted_then_required_runs(config, dependencies.requested_runs(config))
    named = (
        dependencies.RunName(scenario, "", method, 0)
        for scenario, values in config["scenarios"].items()
        for method in values.get("methods", {})
    )
    every = (*all_runs, *named)
    pairs = {(r.scenario, r.method): dependencies.recipe_name(config, r) for r in every}
    yield from _target_problems(config)
    for name, values in config.get("mixtures", {}).items():
        if not {"swarm", "methods"} & values.keys():
            yield f"mixtures.{name}: swarm or methods: name what it is found from"
        where = f"mixtures.{name}.options"
        yield from settings_problems(
            finders.finder_class(values["finder"]), values.get("options", {}), where
        )
    yield from paper_roles.duplicate_role_problems(config)
    yield from _repeated_task_problems(config)
    yield from _unasked_headline_problems(config)
    for (scenario, method), recipe in sorted(pairs.items()):
        yield from _method_problems(config, scenario, method, recipes[recipe])
    yield from _too_long_item_problems(config)
    yield from _unequal_proxy_length_problems(config, all_runs)
    yield from _oracle_and_prediction_problems(config)
    yield from _unmatched_value_problems(config, all_runs)


def _target_problems(config: Config) -> Iterable[str]:
    """Targets without a weight for each domain, or beside `domains` of the evaluation."""
    for name, scenario in config["scenarios"].items():
        if (target := scenario.get("target")) is not None:
            yield from domain_mismatch_problems(
                target,
                scenario["domains"],
                f"scenarios.{name}.target",
                "has no weight: give it one, or 0 to leave it out",
            )
            if config["evaluation"][scenario["evaluation"]].get("domains"):
                yield (
                    f"evaluation.{scenario['evaluation']}.domains: scenario {name} has a target, "
                    "which is over its own domains: take one of the two out"
                )


def _asked_tasks(evaluation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The downstream tasks of an evaluation, one by one."""
    for entry in evaluation.get("tasks", []):
        yield from stage_settings.expand_tasks(entry)


def _repeated_task_problems(config: Config) -> Iterable[str]:
    """Downstream tasks that are asked twice."""
    for name, evaluation in config["evaluation"].items():
        asked = _asked_tasks(evaluation)
        ways = Counter((one["task"], one["shots"], one["formulation"]) for one in asked)
        for (task, shots, formulation), times in sorted(ways.items()):
            if times > 1:
                yield (
                    f"evaluation.{name}.tasks: {task}, {shots}-shot, {formulation} is asked twice: "
                    "take it out of one entry"
                )


def _unasked_headline_problems(config: Config) -> Iterable[str]:
    """A headline formulation in which no downstream task is asked."""
    evaluations = config["evaluation"].values()
    requested = {one["formulation"] for each in evaluations for one in _asked_tasks(each)}
    headline = config.get("paper", {}).get("headline")
    if headline and requested and headline not in requested:
        yield (
            f"paper.headline: no task is asked in the formulation {headline!r}: name one of "
            f"{', '.join(sorted(requested))}, or add it to evaluation"
        )


def _method_problems(config: Config, scenario: str, method: str, recipe: Training) -> Iterable[str]:
    """Settings of a method that are invalid in a scenario, and unknown domains of its mixture."""
    given = dependencies.method_settings(config, scenario, method)
    chosen = config["scenarios"][scenario]
    rule, domains = given["rule"], chosen["domains"]
    tuned = dependencies.grid_choices(config, scenario, method)
    values = methods.method_settings_with_first_choices(
        {"method": methods.rule_settings(given), "tuned": tuned}
    )
    where = f"methods.{method} in scenario {scenario}"
    if isinstance(rule, str) and rule in RULES:
        yield from methods.construction_problems(rule, values, domains, recipe, where)
    else:
        yield from methods.rule_name_and_type_problems({"rule": rule}, where)
    mixture = config.get("mixtures", {}).get(values.get("mixture"))
    if mixture is None:
        return
    evaluation = chosen["evaluation"]
    kept = config["evaluation"][evaluation].get("token_losses")
    if finders.finder_class(mixture["finder"]).reads == "predictions" and not kept:
        yield (
            f"mixtures.{values['mixture']}: the finder {mixture['finder']} reads the "
            f"losses of tokens, which scenario {scenario} does not keep: set "
            f"evaluation.{evaluation}.token_losses: true"
        )
    for key in ("target", "prior"):
        if (shares := mixture.get("options", {}).get(key)) is not None:
            at = f"mixtures.{values['mixture']}.options.{key} in scenario {scenario}"
            yield from domain_mismatch_problems(shares, domains, at, "is missing")


def _too_long_item_problems(config: Config) -> Iterable[str]:
    """Multiple-choice items longer than the rows of the training that they are asked after."""
    requested = dependencies.requested_runs(config)
    pairs = ((run.scenario, dependencies.recipe_name(config, run)) for run in requested)
    for name, recipe in dict.fromkeys(pairs):
        evaluation = config["scenarios"][name]["evaluation"]
        length = config["training"][recipe]["length"]
        for key, kind in (("choice", Choice), ("few_shot", FewShot)):
            values = config["evaluation"][evaluation].get(key)
            if values and (tokens := kind(**values).question_and_answer_tokens) - 1 > length:
                yield (
                    f"evaluation.{evaluation}.{key}.context: questions of {tokens} tokens, "
                    f"candidates included, do not fit into the {length} tokens of "
                    f"training.{recipe} in scenario {name}: lower it"
                )


def _unequal_proxy_length_problems(config: Config, all_runs: Iterable[RunName]) -> Iterable[str]:
    """Mixtures or settings chosen by losses of runs of several lengths: the longest would win."""
    every = (dependencies.mixture_or_grid_of_run(config, run) for run in all_runs)
    for found in dict.fromkeys(filter(None, every)):
        finder = dependencies.mixture_or_grid_settings(config, found.mixture).get("finder", GRID)
        proxies = dependencies.proxy_runs(config, found)
        if stage_settings.needs_method_states(finder):
            if len(proxies) > 1:
                yield (
                    f"mixtures.{found.mixture}: the finder {finder} reads one run, here are "
                    f"{len(proxies)}: name one method and one seed"
                )
            continue
        tokens = sorted({dependencies.training_tokens(config, run) for run in proxies})
        if len(tokens) > 1:
            yield (
                f"{'grids' if finder == GRID else 'mixtures'}.{found.mixture}: scenario "
                f"{found.scenario}: it is found from runs of {tokens[0]:,} and of {tokens[-1]:,} "
                "tokens, whose losses do not compare: give its swarm and its methods recipes of "
                "the same length (`training`)"
            )


def _oracle_and_prediction_problems(config: Config) -> Iterable[str]:
    """Comparisons that no run allows: regret to an oracle without runs, several models in one."""
    oracle = config.get("compare", {}).get("oracle")
    for name in sorted({"ladder", "leaderboard"} & config["tables"].keys()):
        if oracle is None:
            yield f"tables.{name}: it shows regret to an oracle: name a method in compare.oracle"
        elif not any(oracle in entry["methods"] for entry in config["runs"]):
            yield f"tables.{name}: it shows regret to {oracle}, which has no run: add it to runs"
    # A hypothesis counts scenarios: of two models each would count twice.
    models = sorted({model for entry in config["runs"] for model in entry["models"]})
    if config.get("predictions") and len(models) > 1:
        yield f"predictions: a hypothesis is about one model, runs have {', '.join(models)}"


def _unmatched_value_problems(config: Config, all_runs: Sequence[RunName]) -> Iterable[str]:
    """Values that tables and figures select and no run has."""
    requested = set(dependencies.requested_runs(config))
    for section in ("tables", "figures"):
        for name, selection in config[section].items():
            chosen = dependencies.select_runs(all_runs, requested, selection)
            for key, values in selection.items():
                there = {run[dependencies.KEYS.index(key)] for run in chosen}
                for value in (one for one in values if one not in there):
                    yield (
                        f"{section}.{name}.{key}: no run that is selected has {value!r}: take it "
                        "out, or add such a run to runs"
                    )
