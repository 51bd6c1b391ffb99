"""Runs that other runs stand on: references, and proxies from which mixtures are found.

A method may name a method whose run is its reference model (DoReMi's proxy), or a mixture that
other runs find (`fixed`). A mixture is found from the runs of a swarm, of named methods, or both;
those may in turn stand on others. All of them are runs of the same loop.
"""

import itertools
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pike_mixing.errors import InputError
from pipeline.planning import methods
from pipeline.planning.configuration import Swarm

Config = Mapping[str, Any]

KEYS = ("scenarios", "models", "methods", "seeds")
"""What selects runs, in the order of their names."""


class RunName(NamedTuple):
    """One run by its four names."""

    scenario: str
    model: str
    method: str
    seed: int

    def __str__(self) -> str:
        """As in `results/runs/{run}`."""
        return f"{self.scenario}/{self.model}/{self.method}/seed{self.seed}"

    @classmethod
    def parse(cls, run: str) -> "RunName":
        """The inverse of `str`."""
        scenario, model, method, seed = run.split("/")
        return cls(scenario, model, method, int(seed.removeprefix("seed")))

    def names_by_key(self) -> dict[str, Any]:
        """The names by the keys that select runs."""
        return dict(zip(KEYS, self, strict=True))

    def is_among(self, selection: Mapping[str, Sequence[Any]]) -> bool:
        """Whether a selection, of names to keep by key of `KEYS`, keeps the run."""
        return all(self[KEYS.index(key)] in names for key, names in selection.items())


class MixtureName(NamedTuple):
    """One found mixture, or one grid's choice: the model and the first seed of its proxies."""

    scenario: str
    model: str
    mixture: str
    seed: int

    def __str__(self) -> str:
        """As in `results/mixtures/{mixture}.json`."""
        return f"{self.scenario}/{self.model}/{self.mixture}/seed{self.seed}"


class SwarmMember(NamedTuple):
    """One run of a swarm."""

    swarm: str
    number: int
    """From 0."""


def requested_runs(config: Config) -> list[RunName]:
    """The runs that a configuration asks for, each once, in its order."""
    every = (itertools.product(*(entry[key] for key in KEYS)) for entry in config["runs"])
    return list(dict.fromkeys(RunName(*names) for entry in every for names in entry))


def select_runs(
    all_runs: Iterable[RunName],
    requested: Collection[RunName],
    selection: Mapping[str, Sequence[Any]],
) -> list[RunName]:
    """The runs that a table or figure selects, in their order: names to keep, by key of `KEYS`.

    Of those that only serve others it selects the ones whose methods it names.
    """
    named = selection.get("methods", ())
    chosen = (run for run in all_runs if run in requested or run.method in named)
    return [run for run in chosen if run.is_among(selection)]


def swarm_members(config: Config) -> dict[str, SwarmMember]:
    """Methods that are the runs of swarms, by name."""
    return {
        f"{swarm}-{number:03d}": SwarmMember(swarm, number)
        for swarm, values in config.get("swarms", {}).items()
        for number in range(values["runs"])
    }


def method_settings(config: Config, scenario: str, method: str) -> dict[str, Any]:
    """A method's settings, with what the scenario sets otherwise laid over them.

    A rule that has a setting `target` takes the scenario's. A swarm's run is a method, too.
    """
    chosen = config["scenarios"][scenario]
    if method not in config["methods"]:
        swarm, number = swarm_members(config)[method]
        weights = draw_mixture(config["swarms"][swarm], swarm, number, chosen["domains"])
        return {"rule": "fixed", "weights_by_domain": weights}
    values = dict(config["methods"][method]) | chosen.get("methods", {}).get(method, {})
    if "target" in chosen and methods.has_setting(values["rule"], "target"):
        values = {"target": chosen["target"], **values}
    return values


def draw_mixture(
    swarm_settings: Config, swarm: str, number: int, domains: Iterable[str]
) -> dict[str, float]:
    """The mixture of one run of a swarm: the first is uniform, the others Dirichlet draws.

    A domain's draw is a function of its name and of the swarm's seed: their order is no matter.
    """
    concentration = swarm_settings.get("concentration", Swarm.concentration)

    def draw_gamma(domain: str) -> float:
        stream = random.Random(f"{swarm} {swarm_settings['seed']} {number} {domain}")
        return stream.gammavariate(concentration, 1.0)

    drawn_by_domain = {d: 1.0 if number == 0 else draw_gamma(d) for d in domains}
    total = sum(drawn_by_domain.values())
    # Four decimals: weights that a reader can copy, and no last bit that a platform may change.
    return {d: round(amount / total, 4) for d, amount in drawn_by_domain.items()}


def recipe_name(config: Config, run: RunName) -> str:
    """Name of the training recipe of a run: its method's or swarm's own, else the scenario's."""
    if run.method in config["methods"]:
        own = method_settings(config, run.scenario, run.method)
    else:
        own = config["swarms"][swarm_members(config)[run.method].swarm]
    return str(own.get("training") or config["scenarios"][run.scenario]["training"])


def training_tokens(config: Config, run: RunName) -> int:
    """Training tokens of a run."""
    values = config["training"][recipe_name(config, run)]
    return int(values["rows"] * values["length"] * values["steps"])


def reference_run(config: Config, run: RunName) -> RunName | None:
    """The run whose model is the reference of a run."""
    named = method_settings(config, run.scenario, run.method).get("reference")
    return None if named is None else run._replace(method=named)


def grid_choices(config: Config, scenario: str, method: str) -> dict[str, list[Any]]:
    """Settings that a method takes from a grid's best run, with those to choose from, in order."""
    named = method_settings(config, scenario, method).get("grid")
    if named is None:
        return {}
    grid = config["grids"][named]
    each = [method_settings(config, scenario, other) for other in grid["methods"]]
    return {name: [values.get(name) for values in each] for name in grid["settings"]}


def mixture_or_grid_settings(config: Config, name: str) -> Config:
    """The mixture or the grid of this name: what other runs find."""
    return {**config.get("mixtures", {}), **config.get("grids", {})}[name]


def mixture_or_grid_of_run(config: Config, run: RunName) -> MixtureName | None:
    """The mixture or the grid that a run takes from other runs."""
    requested = method_settings(config, run.scenario, run.method)
    named = requested.get("mixture", requested.get("grid"))
    if named is None:
        return None
    values = mixture_or_grid_settings(config, named)
    swarm = config["swarms"][values["swarm"]] if "swarm" in values else {}
    model = values.get("model", swarm.get("model", run.model))
    seed = _seeds_or_single_seed(values, swarm.get("seed", run.seed))[0]
    return MixtureName(run.scenario, model, named, seed)


def proxy_runs(config: Config, mixture_or_grid: MixtureName) -> list[RunName]:
    """The proxies of a mixture, or the runs of a grid."""
    values = mixture_or_grid_settings(config, mixture_or_grid.mixture)
    swarm = [
        name for name, one in swarm_members(config).items() if one.swarm == values.get("swarm")
    ]
    return [
        RunName(mixture_or_grid.scenario, mixture_or_grid.model, method, seed)
        for method in [*swarm, *values.get("methods", [])]
        for seed in _seeds_or_single_seed(values, mixture_or_grid.seed)
    ]


def _seeds_or_single_seed(search: Config, default_seed: int) -> Sequence[int]:
    return search.get("seeds", (default_seed,))


def runs_to_evaluate(config: Config, all_runs: Iterable[RunName]) -> list[RunName]:
    """Of these runs those that are evaluated: asked for, or read by what finds a mixture."""
    mixtures = {found for run in all_runs if (found := mixture_or_grid_of_run(config, run))}
    named = set(requested_runs(config))
    named.update(run for found in mixtures for run in proxy_runs(config, found))
    return [run for run in all_runs if run in named]


def wanted_then_required_runs(config: Config, wanted: Iterable[RunName]) -> list[RunName]:
    """The runs, and all that they stand on, each once: those asked for first.

    Raises:
        InputError: a run stands on itself.
    """
    result: dict[RunName, None] = dict.fromkeys(wanted)
    sound: set[RunName] = set()

    def add_run_then_required(run: RunName, above: tuple[RunName, ...]) -> None:
        if run in sound:
            return
        if run in above:
            chain = " <- ".join(r.method for r in (*above[above.index(run) :], run))
            raise InputError(
                f"scenario {run.scenario!r}: methods stand on each other in a circle: {chain}: "
                "a reference and a mixture's proxies must not need what is made from them"
            )
        result.setdefault(run)
        reference, mixture = reference_run(config, run), mixture_or_grid_of_run(config, run)
        proxies = proxy_runs(config, mixture) if mixture else []
        for other in [*([reference] if reference else []), *proxies]:
            add_run_then_required(other, (*above, run))
        sound.add(run)

    for run in list(result):
        add_run_then_required(run, ())
    return list(result)
