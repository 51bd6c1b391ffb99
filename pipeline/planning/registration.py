"""A registered benchmark: what will be run on drawn scenarios, and what is expected of it.

One file says all of it before the first run: methods with their settings, scenarios by stream and
seed, sizes, seeds, hypotheses, analysis. `pike scenarios` makes the configuration of the workflow
from it, `pike registered` compares the results with it.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from pike_mixing.errors import InputError
from pike_mixing.limits import Limits, PositiveInt
from pike_mixing.settings import unknown
from pipeline.data.tokenizer_settings import SPECIAL_PIECES
from pipeline.planning import (
    dependencies,
    drawn_scenarios,
    method_costs,
    planner,
    shorthand,
    stage_settings,
)
from pipeline.planning.configuration import Name, Names, Seeds
from pipeline.planning.dependencies import RunName
from pipeline.planning.drawn_scenarios import Drawn, DrawnScenarios
from pipeline.runtime import atomic_files, presentation
from pipeline.runtime.validation import validate
from pipeline.settings import Commit

Sections = dict[str, dict[str, Any]]
Board = Literal["no target", "target"]
AT_TARGET = "fixed-at-target"
"""Fixed weights equal to the target; in scenarios with a target alone."""


@dataclass(frozen=True)
class Hypothesis:
    """A method's target loss minus another's lies below, or above, a margin."""

    method: str
    """The method in question."""
    against: str
    """The other one."""
    board: Board
    """Which scenarios: those with a target, or those without."""
    direction: Literal["lower", "higher"]
    """On which side of the margin the difference is expected."""
    expected: float
    """The difference that is expected, nats."""
    margin: float = 0.0
    """The difference that it is tested against, nats."""


@dataclass(frozen=True)
class EqualCost:
    """Mix on as many steps as cost what another method costs, by the plan's arithmetic."""

    of: str
    """The other method."""
    by: Literal["time", "rows"]
    """Passes over the model, or rows read; those that the method measures count."""
    search: bool = False
    """Whether the runs count, too, that found the method's mixture or settings."""


@dataclass(frozen=True)
class Registration:
    """The content of the file."""

    benchmark: Name
    """Its name; results lie in results/registered/{name}."""
    status: Literal["draft", "registered"]
    """draft: nothing is promised yet; registered: nothing is changed any more."""
    date: Annotated[str, Limits(pattern=r"\d{4}-\d\d-\d\d", means="a date as in 2026-11-24")]
    """Day of the registration."""
    scenarios: DrawnScenarios
    """The scenarios."""
    model: dict[str, Any]
    """Shape of the model."""
    size: Name
    """The model's name."""
    training: dict[str, Any]
    """Training recipe of every run, but for those of equal cost."""
    evaluation_rows: PositiveInt
    """Validation windows of a domain at most."""
    seeds: Seeds
    """Seeds of every method."""
    methods: Sections
    """Methods as in a configuration."""
    rows: Names
    """Methods that are compared; the others serve them."""
    hypotheses: dict[Name, Hypothesis] = field(default_factory=dict)
    """What is expected."""
    commit: Commit | None = None
    """Commit at which rules, numerics and finders are frozen; absent in a draft."""
    mix_for: dict[Name, EqualCost] = field(default_factory=dict)
    """Rows of Mix for what other methods cost."""
    swarms: Sections = field(default_factory=dict)
    """As in a configuration."""
    mixtures: Sections = field(default_factory=dict)
    """As in a configuration."""
    grids: Sections = field(default_factory=dict)
    """As in a configuration."""
    level: Annotated[float, Limits(above=0, below=1)] = 0.05
    """Level of all hypotheses together, by Holm's procedure."""
    exclusions: tuple[str, ...] = ()
    """Which results would be left out, and why."""
    stopping: str = "none: all runs are made, then they are read once"
    """When runs would be stopped early."""

    def problems(self) -> list[str]:
        """Methods that are undefined, or not on the board; a registration without a commit."""
        named = [(f"rows[{place}]", row, [*self.methods]) for place, row in enumerate(self.rows)]
        for name, equal in self.mix_for.items():
            named.append((f"mix_for.{name}.of", equal.of, [*self.rows]))
        for name, one in self.hypotheses.items():
            on_board = self.compared(one.board)
            named.append((f"hypotheses.{name}.method", one.method, on_board))
            named.append((f"hypotheses.{name}.against", one.against, on_board))
        result = [
            f"{where}: {method} is not in rows, so that none of its runs is compared: add it there"
            if method in self.methods
            else unknown(method, known, where)
            for where, method, known in named
            if method not in known
        ]
        if self.status == "registered" and self.commit is None:
            result.append("commit: name the commit at which the rules are frozen")
        return result

    def compared(self, board: Board) -> list[str]:
        """Methods of a board."""
        of_target = [AT_TARGET] if board == "target" else []
        return [*self.rows, *self.mix_for, *of_target]


def read(path: Path) -> Registration:
    """Reads and checks a registration.

    Raises:
        InputError: it cannot be read, or something in it is wrong.
    """
    return validate(Registration, planner.alone(path), str(path))


def drawn(chosen: Registration) -> list[Drawn]:
    """Its scenarios."""
    recipe = chosen.training
    if missing := [name for name in ("rows", "length", "steps") if name not in recipe]:
        raise InputError(f"training.{missing[0]} is missing: scenarios have sizes in tokens")
    tokens = recipe["rows"] * recipe["length"] * recipe["steps"]
    return list(drawn_scenarios.draw(chosen.scenarios, tokens))


def configuration(chosen: Registration) -> dict[str, Any]:
    """The configuration that the workflow runs."""
    scenarios = drawn(chosen)
    base, steps = chosen.training, chosen.training["steps"]
    result: dict[str, Any] = {
        "experiment": chosen.benchmark,
        "results": f"results/registered/{chosen.benchmark}",
        "compare": {"baseline": "mix"},
        "sources": {name: values for one in scenarios for name, values in one.sources.items()},
        "tokenizers": {one.name: _tokenizer(one) for one in scenarios},
        "packing": {"validation_share": drawn_scenarios.VALIDATION_SHARE},
        "models": {chosen.size: chosen.model},
        "training": {f"steps-{steps}": base},
        "evaluation": {
            "last": {"rows": chosen.evaluation_rows, "batch_tokens": 8192, "checkpoints": "last"}
        },
        "probe": {},
        "scenarios": {one.name: _scenario(one, f"steps-{steps}") for one in scenarios},
        "methods": _methods(chosen),
    }
    result |= {
        name: section
        for name in ("swarms", "mixtures", "grids")
        if (section := getattr(chosen, name))
    }
    for one in scenarios:
        _at_equal_cost(result, one, chosen)
    result["runs"] = list(_runs(chosen, scenarios))
    return result | {"tables": {"board": {}, "perplexity": {}}, "figures": {}}


def _tokenizer(one: Drawn) -> dict[str, Any]:
    """Pieces of text alone, else characters, so that the entropy of a language is known."""
    letters = {
        letter
        for values in one.sources.values()
        if values["kind"] == "synthetic"
        for letter in range(values["alphabet"], values["alphabet"] + values["symbols"])
    }
    text = {"languages": 0, "both": 256, "texts": 507}[one.kind]
    return {
        "kind": "train",
        "sources": list(one.sources),
        "model": "unigram" if one.kind == "texts" else "char",
        # A space and a line break are pieces of every tokenizer.
        "vocabulary": len(letters) + text + SPECIAL_PIECES + 2,
        "characters": 400_000,
        **({"newlines": True} if text else {}),
    }


def _scenario(one: Drawn, recipe: str) -> dict[str, Any]:
    values: dict[str, Any] = {
        "about": one.about(),
        "domains": list(one.sources),
        "tokenizer": one.name,
        "training": recipe,
        "evaluation": "last",
    }
    return values | ({"target": one.target} if one.target else {})


def _methods(chosen: Registration) -> Sections:
    equal = {name: {"rule": "mix"} for name in chosen.mix_for}
    # Each scenario with a target lays its own weights over these.
    fixed: Sections = {AT_TARGET: {"rule": "fixed", "weights_by_domain": {}}}
    return {**chosen.methods, **equal, **fixed}


def _at_equal_cost(result: dict[str, Any], one: Drawn, chosen: Registration) -> None:
    """Adds what differs in a scenario: the fixed mixture, and recipes of as much as others cost."""
    own: Sections = {AT_TARGET: {"weights_by_domain": one.target}} if one.target else {}
    result["scenarios"][one.name]["methods"] = own
    base, long = chosen.training, shorthand.written_out(result)
    for name, equal in chosen.mix_for.items():
        run = RunName(one.name, chosen.size, equal.of, chosen.seeds[0])
        every = dependencies.closure(long, [run]) if equal.search else [run]
        cost = sum(_cost(stage_settings.run_settings(long, each), equal) for each in every)
        steps = math.ceil(round(cost, 6))
        own[name] = {"training": f"steps-{steps}"}
        warmup = round(base.get("warmup_steps", 0) * steps / base["steps"])
        longer = {"steps": steps, "warmup_steps": warmup, "checkpoint_every": steps}
        result["training"].setdefault(f"steps-{steps}", base | longer)


def _cost(run: Mapping[str, Any], equal: EqualCost) -> float:
    """What a run costs, in steps of Mix."""
    cost = method_costs.time if equal.by == "time" else method_costs.rows
    return float(run["training"]["steps"] * cost(run))


def _runs(chosen: Registration, scenarios: list[Drawn]) -> Iterator[dict[str, Any]]:
    """One entry for each board that has scenarios."""
    boards: tuple[Board, Board] = ("no target", "target")
    for board in boards:
        names = [one.name for one in scenarios if bool(one.target) == (board == "target")]
        if names:
            yield {
                "scenarios": names,
                "models": [chosen.size],
                "methods": chosen.compared(board),
                "seeds": list(chosen.seeds),
            }


def write(given: Path, out: Path) -> str:
    """Writes the configuration of a registration; returns a line for each scenario.

    Args:
        given: The registration.
        out: The configuration to write, YAML.

    Raises:
        InputError: the registration is wrong, or its configuration is.
    """
    chosen = read(given)
    config = configuration(chosen)
    planner.plan(shorthand.written_out(config), str(given))
    head = f"# Made by `pike scenarios {given}`: change that file.\n"
    text = yaml.safe_dump(config, sort_keys=False, width=120, default_flow_style=None)
    with atomic_files.atomic_write(out) as file:
        file.write_text(head + text, encoding="utf-8")
    rows = [(name, values["about"]) for name, values in config["scenarios"].items()]
    return presentation.aligned(("scenario", "about"), rows)
