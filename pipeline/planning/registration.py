"""A registered benchmark: what will be run on drawn scenarios, and what is expected of it.

One file says all of it before the first run: methods with their settings, scenarios by stream and
seed, sizes, seeds, hypotheses, analysis. `pike scenarios` makes the configuration of the workflow
from it, `pike registered` compares the results with it.

Costs beside Mix: batches here are small beside what methods measure: 16 rows of each of 5 domains,
every 10 steps, beside batches of 20 rows are 40 % more rows; beside the paper's batches of 256
rows, measured as often in a run, a sixtieth of a percent. So each cost is told at both sizes.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import yaml

from pike_mixing.errors import InputError
from pike_mixing.setting_limits import Limits, PositiveInt
from pike_mixing.setting_messages import unknown_name_message
from pipeline import settings
from pipeline.data.corpus_settings import SPECIAL_PIECES
from pipeline.planning import (
    dependencies,
    drawn_scenarios,
    planner,
    run_estimates,
    shorthand,
    stage_settings,
)
from pipeline.planning.configuration import (
    BOARDS,
    Board,
    Hypothesis,
    Level,
    Name,
    Names,
    Seeds,
)
from pipeline.planning.dependencies import RunName
from pipeline.planning.drawn_scenarios import DrawnScenario, ScenarioDrawSettings
from pipeline.planning.normal_form import plain_without_empty_defaults
from pipeline.runtime import atomic_files, output_formats
from pipeline.runtime.environment import ROOT
from pipeline.runtime.validate_settings import validate
from pipeline.settings import Commit, Training

Sections = dict[str, dict[str, Any]]
AT_TARGET = "fixed-at-target"
"""Fixed weights equal to the target; in scenarios with a target alone."""
RECIPE_PREFIX = "steps-"
"""What the names of the compared runs' recipes begin with; their number of steps follows."""
REGISTRATIONS = ROOT / "workflow" / "registered"
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
    scenarios: ScenarioDrawSettings
    """The scenarios."""
    model: dict[str, Any]
    """Shape of the model."""
    size: Name
    """The model's name."""
    training: Training
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
    recipes: dict[Name, Training] = field(default_factory=dict)
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
            on_board = self.methods_on_board(one.board)
            named.append((f"hypotheses.{name}.method", one.method, on_board))
            named.append((f"hypotheses.{name}.against", one.against, on_board))
        result = [self._absent_method_message(*one) for one in named if one[1] not in one[2]]
        own_names = {
            "models": rf"{re.escape(self.size)}(-\d+)?",
            "recipes": rf"{RECIPE_PREFIX}\d+",
            "methods": "|".join(map(re.escape, (AT_TARGET, *self.mix_for))),
            "mix_for": AT_TARGET,
        }
        result += [
            f"{section}.{name}: the configuration that is made has this name for its own: rename it"
            for section, pattern in own_names.items()
            for name in getattr(self, section)
            if re.fullmatch(pattern, name)
        ]
        if self.steps and self.hypotheses:
            result.append("hypotheses: are over scenarios of one size: leave them out, or steps")
        if self.status == "registered" and self.commit is None:
            result.append("commit: name the commit at which the rules are frozen")
        return result

    def _absent_method_message(self, place: str, method: str, known_methods: list[str]) -> str:
        if method == AT_TARGET:
            return f"{place}: {method} is on the board `target` alone"
        if method in self.methods:
            return f"{place}: {method} is not in rows, so that its runs are not compared: add it"
        return unknown_name_message(method, known_methods, place)

    def methods_on_board(self, board: Board) -> list[str]:
        """All methods of a board."""
        of_target = [AT_TARGET] if board == "target" else []
        return [*self.rows, *self.mix_for, *of_target]


def read_registration(path: Path) -> Registration:
    """Reads and checks a registration, whose name no other of this project has."""
    result = validate(Registration, planner.read_config_file(path), str(path))
    namesake = REGISTRATIONS / f"{result.benchmark}.yaml"
    if namesake.exists() and not namesake.samefile(path):
        raise InputError(
            f"{path}.benchmark: {result.benchmark} is that of {namesake}, whose results would lie "
            "in the same folder: choose another name"
        )
    return result


def earlier_files_with_same_test_scenarios(registration: Registration) -> list[str]:
    """Files of this project, none younger, that draw the same test scenarios by stream and seed.

    Their results may have been read. A scenario's domains are the same at each size.
    """
    drawn = registration.scenarios
    every = {path.name: read_registration(path) for path in sorted(REGISTRATIONS.glob("*.yaml"))}
    return [
        name
        for name, one in every.items()
        if one.benchmark != registration.benchmark and one.date <= registration.date
        if one.status != "withdrawn"
        if drawn.stream == one.scenarios.stream == "test" and drawn.seed == one.scenarios.seed
    ]


PAPER = {"rows": 256, "steps": 120_000}
"""Batch and steps of the paper's runs (`workflow/configs/paper.yaml`)."""
STEP_SETTINGS = ("every", "first")
"""Settings of rules that count steps: at another size they keep their share of the run."""

Run = Mapping[str, Any]
"""The content of a `run.json`."""


def rows_per_batch_row(run: Run) -> float:
    """Rows that a run reads, those that its method measures included, over those of its batches."""
    return 1 + run_estimates.measured_batches_per_training_step(run, gradient_cost=1)


def passes_relative_to_mix(run: Run) -> float:
    """Passes over the model of a run over those of Mix, by the plan's arithmetic."""
    return run_estimates.forward_passes_per_training_step(run) / 3


def flops_of_mix_step(run: Run, tokenizers: Mapping[str, Mapping[str, Any]]) -> float:
    """FLOPs of training on one batch: models differ, and rows and their length.

    `tokenizers` are settings by name, with their vocabularies.
    """
    recipe, shape = run["training"], settings.Model(**run["model"])
    length, vocabulary = recipe["length"], tokenizers[run["tokenizer"]]["vocabulary"]
    of_token = run_estimates.training_flops_per_token(shape, vocabulary, length)
    return float(recipe["rows"] * length * of_token)


def run_rescaled_to_paper_training(run: Run) -> Run:
    """The run with the paper's batches and steps, measured as often as here."""
    longer = PAPER["steps"] / run["training"]["steps"]
    scaled = {n: round(v * longer) for n, v in run["method"].items() if n in STEP_SETTINGS and v}
    return {
        **run,
        "training": {**run["training"], **PAPER},
        "method": {**run["method"], **scaled},
    }


FIRST_WORDS = "# Made by `pike scenarios "
"""What a file of this command begins with."""


class _StepsCase(NamedTuple):
    """What is run at one number of steps."""

    model: str
    recipe: Training
    scenarios: list[DrawnScenario]


def _steps_cases(registration: Registration) -> list[_StepsCase]:
    base = registration.training
    result = []
    for steps in registration.steps or [base.steps]:
        end = f"-{steps}" if registration.steps else ""
        tokens = base.rows * base.length * steps
        scenarios = list(drawn_scenarios.draw_scenarios(registration.scenarios, tokens, end))
        recipe = _recipe_with_steps(base, steps) if registration.steps else base
        result.append(_StepsCase(registration.size + end, recipe, scenarios))
    return result


def _recipe_with_steps(base: Training, steps: int) -> Training:
    """A recipe with another number of steps, which have the same share of warm-up."""
    warmup = round(base.warmup_steps * steps / base.steps)
    return replace(base, steps=steps, warmup_steps=warmup, checkpoint_every=steps)


def workflow_configuration(registration: Registration) -> dict[str, Any]:
    """The configuration that the workflow runs."""
    sizes = _steps_cases(registration)
    scenarios = [(one, size) for size in sizes for one in size.scenarios]
    result: dict[str, Any] = {
        "experiment": registration.benchmark,
        "results": f"results/registered/{registration.benchmark}",
        "compare": {"baseline": "mix"},
        "sources": {name: values for one, _ in scenarios for name, values in one.sources.items()},
        "tokenizers": {one.name: _tokenizer_settings(one) for one, _ in scenarios},
        "packing": {"validation_share": drawn_scenarios.VALIDATION_SHARE},
        "models": {**registration.models, **{size.model: registration.model for size in sizes}},
        "training": plain_without_empty_defaults(
            registration.recipes | {_recipe_name(size.recipe): size.recipe for size in sizes}
        ),
        "evaluation": {
            "last": {
                "rows": registration.evaluation_rows,
                "batch_tokens": 8192,
                "checkpoints": "last",
            }
        },
        "probe": {},
        "scenarios": {
            one.name: _scenario_settings(one, _recipe_name(size.recipe)) for one, size in scenarios
        },
        "methods": {
            **registration.methods,
            **{name: {"rule": "mix"} for name in registration.mix_for},
            # Each scenario with a target lays its own weights over these.
            AT_TARGET: {"rule": "fixed", "weights_by_domain": {}},
        },
        **{
            n: section
            for n in ("swarms", "mixtures", "grids")
            if (section := getattr(registration, n))
        },
    }
    for one, size in scenarios:
        _add_scenario_methods_and_recipes(result, one, size, registration)
    if registration.hypotheses:
        asked = {name: asdict(one) for name, one in registration.hypotheses.items()}
        result["predictions"] = {"hypotheses": asked, "level": registration.level}
    result["runs"] = [entry for size in sizes for entry in _run_entries(registration, size)]
    return result | {"tables": {"board": {}, "perplexity": {}}, "figures": {}}


def _recipe_name(recipe: Training) -> str:
    return f"{RECIPE_PREFIX}{recipe.steps}"


def _tokenizer_settings(drawn: DrawnScenario) -> dict[str, Any]:
    """Pieces of text alone, else characters, so that the entropy of a language is known."""
    letters = {
        letter
        for values in drawn.sources.values()
        if values["kind"] == "synthetic"
        for letter in range(values["alphabet"], values["alphabet"] + values["symbols"])
    }
    text = {"languages": 0, "both": 256, "texts": 507}[drawn.kind]
    return {
        "kind": "train",
        "sources": list(drawn.sources),
        "model": "unigram" if drawn.kind == "texts" else "char",
        # A space and a line break are pieces of every tokenizer.
        "vocabulary": len(letters) + text + SPECIAL_PIECES + 2,
        "characters": 400_000,
        **({"newlines": True} if text else {}),
    }


def _scenario_settings(drawn: DrawnScenario, recipe: str) -> dict[str, Any]:
    return {
        "about": drawn.about(),
        "domains": list(drawn.sources),
        "tokenizer": drawn.name,
        "training": recipe,
        "evaluation": "last",
        **({"target": drawn.target} if drawn.target else {}),
    }


def _add_scenario_methods_and_recipes(
    config: dict[str, Any], drawn: DrawnScenario, case: _StepsCase, registration: Registration
) -> None:
    """Adds what differs in a scenario: the fixed mixture, and recipes of as much as others cost."""
    own: Sections = {AT_TARGET: {"weights_by_domain": drawn.target}} if drawn.target else {}
    config["scenarios"][drawn.name]["methods"] = own
    long = shorthand.expand_shorthand(config)
    for name, equal in registration.mix_for.items():
        run = RunName(drawn.name, case.model, equal.of, registration.seeds[0])
        every = dependencies.wanted_then_required_runs(long, [run]) if equal.search else [run]
        cost = sum(_own_run_cost_in_mix_steps(long, each, run, equal) for each in every)
        longer = _recipe_with_steps(registration.training, math.ceil(round(cost, 6)))
        own[name] = {"training": _recipe_name(longer)}
        config["training"].setdefault(_recipe_name(longer), plain_without_empty_defaults(longer))


def _own_run_cost_in_mix_steps(
    config: dict[str, Any], run: RunName, run_of_cost_unit: RunName, equal: EqualCost
) -> float:
    """What a run itself costs, in steps of Mix on the model and batches of another run."""
    values, asked = (stage_settings.run_settings(config, one) for one in (run, run_of_cost_unit))
    size, own = (flops_of_mix_step(v, config["tokenizers"]) for v in (values, asked))
    cost = passes_relative_to_mix if equal.by == "time" else rows_per_batch_row
    return float(values["training"]["steps"] * cost(values) * size / own)


def _run_entries(registration: Registration, case: _StepsCase) -> Iterator[dict[str, Any]]:
    """One entry for each board that has scenarios."""
    for board in BOARDS:
        names = [one.name for one in case.scenarios if bool(one.target) == (board == "target")]
        if names:
            yield {
                "scenarios": names,
                "models": [case.model],
                "methods": registration.methods_on_board(board),
                "seeds": list(registration.seeds),
            }


def write_configuration_and_summarise(registration_file: Path, out: Path) -> str:
    """Writes the configuration of a registration as YAML; returns a line for each scenario.

    Raises:
        InputError: the registration is wrong, or its configuration is, or another file is in the
            place of `out`.
    """
    if out.is_file() and not out.read_bytes().startswith(FIRST_WORDS.encode()):
        raise InputError(
            f"--out: {out} was not made by `pike scenarios`: give another place, or delete it"
        )
    chosen = read_registration(registration_file)
    config = workflow_configuration(chosen)
    planner.plan(shorthand.expand_shorthand(config), str(registration_file))
    head = f"{FIRST_WORDS}{registration_file}`: change that file.\n"
    text = yaml.safe_dump(config, sort_keys=False, width=120, default_flow_style=None)
    with atomic_files.atomic_write(out) as file:
        file.write_text(head + text, encoding="utf-8")
    rows = [(name, values["about"]) for name, values in config["scenarios"].items()]
    return output_formats.table_with_row_count(("scenario", "about"), rows)
