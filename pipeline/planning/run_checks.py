"""Checks of the runs that a configuration makes: what asks for others than there are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.planning import dependencies, stage_settings
from pipeline.planning.dependencies import RunName
from pipeline.settings import GRID
from pipeline.tasks.evaluation_settings import Choice, FewShot

Config = Mapping[str, Any]


def problems(config: Config, all_runs: Sequence[RunName]) -> Iterator[str]:
    """All that does not fit the runs: those that are asked for, and those that they stand on."""
    yield from _too_long_items(config)
    yield from _searches_of_several_lengths(config, all_runs)
    yield from _without_oracle(config)
    yield from _predictions_of_several_models(config)
    yield from _selections_without_runs(config, all_runs)


def _too_long_items(config: Config) -> Iterable[str]:
    """Multiple-choice items longer than the rows of the training that they are asked after."""
    requested = dependencies.requested_runs(config)
    pairs = ((run.scenario, dependencies.recipe(config, run)) for run in requested)
    for name, recipe in dict.fromkeys(pairs):
        evaluation = config["scenarios"][name]["evaluation"]
        length = config["training"][recipe]["length"]
        for key, kind in (("choice", Choice), ("few_shot", FewShot)):
            values = config["evaluation"][evaluation].get(key)
            if values and (tokens := kind(**values).tokens) - 1 > length:
                yield (
                    f"evaluation.{evaluation}.{key}.context: questions of {tokens} tokens, "
                    f"candidates included, do not fit into the {length} tokens of "
                    f"training.{recipe} in scenario {name}: lower it"
                )


def _searches_of_several_lengths(config: Config, all_runs: Iterable[RunName]) -> Iterable[str]:
    """Mixtures or settings chosen by losses of runs of several lengths: the longest would win."""
    every = (found for run in all_runs if (found := dependencies.mixture(config, run)))
    for found in dict.fromkeys(every):
        finder = dependencies.search(config, found.mixture).get("finder", GRID)
        proxies = dependencies.proxies_of(config, found)
        if stage_settings.reads_states(finder):
            if len(proxies) > 1:
                yield (
                    f"mixtures.{found.mixture}: the finder {finder} reads one run, here are "
                    f"{len(proxies)}: name one method and one seed"
                )
            continue
        tokens = sorted({dependencies.tokens(config, run) for run in proxies})
        if len(tokens) > 1:
            yield (
                f"{'grids' if finder == GRID else 'mixtures'}.{found.mixture}: scenario "
                f"{found.scenario}: it is found from runs of {tokens[0]:,} and of {tokens[-1]:,} "
                "tokens, whose losses do not compare: give its swarm and its methods recipes of "
                "the same length (`training`)"
            )


def _without_oracle(config: Config) -> Iterable[str]:
    """Tables of regret to an oracle that no setting names, or no run has."""
    oracle = config.get("compare", {}).get("oracle")
    for name in sorted({"ladder", "leaderboard"} & config["tables"].keys()):
        if oracle is None:
            yield f"tables.{name}: it shows regret to an oracle: name a method in compare.oracle"
        elif not any(oracle in entry["methods"] for entry in config["runs"]):
            yield f"tables.{name}: it shows regret to {oracle}, which has no run: add it to runs"


def _predictions_of_several_models(config: Config) -> Iterable[str]:
    """A hypothesis counts scenarios: of two models each would count twice."""
    models = sorted({model for entry in config["runs"] for model in entry["models"]})
    if config.get("predictions") and len(models) > 1:
        yield f"predictions: a hypothesis is about one model, runs have {', '.join(models)}"


def _selections_without_runs(config: Config, all_runs: Sequence[RunName]) -> Iterable[str]:
    """Values that tables and figures select and no run has."""
    requested = set(dependencies.requested_runs(config))
    for section in ("tables", "figures"):
        for name, selection in config[section].items():
            chosen = dependencies.selected(all_runs, requested, selection)
            for key, values in selection.items():
                there = {run[dependencies.KEYS.index(key)] for run in chosen}
                for value in (one for one in values if one not in there):
                    yield (
                        f"{section}.{name}.{key}: no run that is selected has {value!r}: take it "
                        "out, or add such a run to runs"
                    )
