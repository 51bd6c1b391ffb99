"""A registered benchmark: what will be run on drawn scenarios, and what is expected of it.

One file says all of it before the first run: methods with their settings, scenarios by stream and
seed, sizes, seeds, hypotheses, analysis. `pike scenarios` makes the configuration of the workflow
from it, `pike registered` compares the results with it.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pike_mixing.errors import InputError
from pike_mixing.limits import Limits, PositiveInt
from pike_mixing.settings import unknown
from pipeline.planning import planner
from pipeline.planning.configuration import Board, Hypothesis, Level, Name, Names, Seeds, Source
from pipeline.planning.drawn_scenarios import DrawnScenarios
from pipeline.runtime.environment import ROOT
from pipeline.runtime.validation import validate
from pipeline.settings import Commit, Training

Sections = dict[str, dict[str, Any]]
AT_TARGET = "fixed-at-target"
"""Fixed weights equal to the target; in scenarios with a target alone."""
STEPS = "steps-"
"""What the names of the compared runs' recipes begin with; their number of steps follows."""
FOLDER = ROOT / "workflow" / "registered"
"""The registrations of this project."""


@dataclass(frozen=True)
class EqualCost:
    """Mix on as many steps as cost what another method costs, by the plan's arithmetic."""

    of: str
    """The other method."""
    by: Literal["time", "rows"]
    """Passes over the model, or rows read; those that the method measures count."""
    search: bool = False
    """Whether the runs count, too, that found the method's mixture or settings; by FLOPs, where
    their model or recipe is another."""


@dataclass(frozen=True)
class Registration:
    """The content of the file."""

    benchmark: Name
    """Its name; results lie in results/registered/{name}."""
    status: Literal["draft", "registered", "withdrawn"]
    """draft: nothing is promised yet; registered: nothing is changed any more; withdrawn: before
    any run."""
    date: Annotated[str, Limits(pattern=r"\d{4}-\d\d-\d\d", means="a date as in 2026-11-24")]
    """Day of the registration."""
    scenarios: DrawnScenarios
    """The scenarios."""
    model: dict[str, Any]
    """Shape of the model."""
    size: Name
    """The model's name."""
    training: dict[str, Any]
    """Training recipe of the runs that are compared, but for those of equal cost."""
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
    steps: tuple[PositiveInt, ...] = ()
    """Numbers of steps at which all is run, each with scenarios of its size and with its share of
    the warm-up; names of scenarios and model end with them. Absent: the recipe's alone."""
    mix_for: dict[Name, EqualCost] = field(default_factory=dict)
    """Rows of Mix for what other methods cost."""
    models: Sections = field(default_factory=dict)
    """Further models by name, for the runs that find mixtures or settings."""
    recipes: Sections = field(default_factory=dict)
    """Further training recipes by name, for the same runs."""
    swarms: Sections = field(default_factory=dict)
    """As in a configuration."""
    mixtures: Sections = field(default_factory=dict)
    """As in a configuration."""
    grids: Sections = field(default_factory=dict)
    """As in a configuration."""
    level: Level = 0.05
    """Level of all hypotheses together, by Holm's procedure."""
    exclusions: tuple[str, ...] = ()
    """Which results would be left out, and why."""
    stopping: str = "none: all runs are made, then they are read once"
    """When runs would be stopped early."""

    def problems(self) -> list[str]:
        """Methods that are undefined, or not on the board; names given twice; no commit."""
        named = [(f"rows[{place}]", row, [*self.methods]) for place, row in enumerate(self.rows)]
        for name, equal in self.mix_for.items():
            named.append((f"mix_for.{name}.of", equal.of, [*self.rows]))
        for name, one in self.hypotheses.items():
            on_board = self.compared(one.board)
            named.append((f"hypotheses.{name}.method", one.method, on_board))
            named.append((f"hypotheses.{name}.against", one.against, on_board))
        result = [self._uncompared(*one) for one in named if one[1] not in one[2]]
        taken = {"models": rf"{re.escape(self.size)}(-\d+)?", "recipes": rf"{STEPS}\d+"}
        result += [
            f"{kind}.{name}: the runs that are compared have such names: choose another"
            for kind, pattern in taken.items()
            for name in getattr(self, kind)
            if re.fullmatch(pattern, name)
        ]
        result += [
            f"mix_for.{name}: methods.{name} is there, too: rename one"
            for name in self.mix_for
            if name in self.methods
        ]
        result += [
            f"{kind}.{AT_TARGET}: the fixed weights of each target have this name: choose another"
            for kind in ("methods", "mix_for")
            if AT_TARGET in getattr(self, kind)
        ]
        result += _misfits(Training, self.training, "training")
        result += _misfits(dict[Name, Training], self.recipes, "recipes")
        result += _misfits(dict[Name, Source], self.scenarios.texts, "scenarios.texts")
        if self.steps and self.hypotheses:
            result.append("hypotheses: are over scenarios of one size: leave them out, or steps")
        if self.status == "registered" and self.commit is None:
            result.append("commit: name the commit at which the rules are frozen")
        return result

    def _uncompared(self, where: str, method: str, known: list[str]) -> str:
        if method == AT_TARGET:
            return f"{where}: {method} is on the board `target` alone"
        if method in self.methods:
            return f"{where}: {method} is not in rows, so that its runs are not compared: add it"
        return unknown(method, known, where)

    def compared(self, board: Board) -> list[str]:
        """Methods of a board."""
        of_target = [AT_TARGET] if board == "target" else []
        return [*self.rows, *self.mix_for, *of_target]


def _misfits(kind: Any, values: Any, where: str) -> list[str]:
    """What of a part, which the configuration takes as it stands, is no such settings."""
    try:
        validate(kind, values, where)
    except InputError as error:
        return str(error).splitlines()
    return []


def read(path: Path) -> Registration:
    """Reads and checks a registration.

    Raises:
        InputError: it cannot be read, something in it is wrong, or it has another one's name.
    """
    result = validate(Registration, planner.alone(path), str(path))
    namesake = FOLDER / f"{result.benchmark}.yaml"
    if namesake.exists() and not namesake.samefile(path):
        raise InputError(
            f"{path}.benchmark: {result.benchmark} is that of {namesake}, whose results would lie "
            "in the same folder: choose another name"
        )
    return result


def others_on_its_scenarios(chosen: Registration) -> list[str]:
    """Files of this project, none younger, that draw the same test scenarios by stream and seed.

    Their results may have been read. A scenario's domains are the same at each size.

    Raises:
        InputError: one of the files is wrong.
    """
    drawn = chosen.scenarios
    every = {path.name: read(path) for path in sorted(FOLDER.glob("*.yaml"))}
    return [
        name
        for name, one in every.items()
        if one.benchmark != chosen.benchmark and one.date <= chosen.date
        if one.status != "withdrawn"
        if drawn.stream == one.scenarios.stream == "test" and drawn.seed == one.scenarios.seed
    ]
