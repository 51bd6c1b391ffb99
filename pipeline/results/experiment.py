"""The settings of one experiment's results: which runs it holds and where their records lie."""

import dataclasses
from pathlib import Path
from typing import Any

from pike_mixing.setting_messages import unknown_name_message
from pipeline.results import sql_views
from pipeline.runtime import atomic_files
from pipeline.runtime.manifests import IS_SLUG
from pipeline.runtime.validate_settings import validate

RUN_NAMES = ("scenario", "model_name", "method_name", "seed", "domains", "tokenizer")


@dataclasses.dataclass(frozen=True)
class PlannedRunSettings:
    """Where one run's records lie, and what it was asked to do."""

    folder: str
    settings: dict[str, Any]
    """The content that its run.json should have."""
    trained: bool = True
    """Whether the database holds the run's records, not its settings alone."""
    evaluations: bool = True
    """Whether the experiment evaluates this run's checkpoints."""
    probes: bool = True
    """Whether the experiment probes this run's checkpoints."""
    mixture: str | None = None
    """The mixture, or the grid's choice, that the run trains with."""

    def problems(self) -> list[str]:
        """Names without which the run cannot be placed in the tables."""
        missing = [name for name in RUN_NAMES if name not in self.settings]
        return [f"settings: {name} is missing" for name in missing]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything that the database of one experiment is built from."""

    experiment: str
    results: str
    """The results folder; paths in the lineage are relative to it."""
    config: dict[str, object]
    """The whole configuration: shown in the report; its methods' order is that of the tables."""
    runs: dict[str, PlannedRunSettings]
    """Runs by name; scenarios are in the order of their first runs."""
    corpora: dict[str, str]
    """Folders of the packed corpora by tokenizer/source."""
    sources: dict[str, str]
    """Folders of the documents by source."""
    tokenizers: dict[str, str]
    """Manifests of the tokenizers by name."""
    mixtures: dict[str, str] = dataclasses.field(default_factory=dict)
    """Manifests of the mixtures that other runs found, by scenario/model/mixture/seed."""
    tasks: dict[str, str] = dataclasses.field(default_factory=dict)
    """Folders of the fetched downstream tasks by name."""
    theory: str | None = None
    """Folder of the theory's records; None: the database holds none."""
    rules: dict[str, str] = dataclasses.field(default_factory=dict)
    """What the runs' mixing rules do, in a sentence or two, by rule."""
    whole: bool = True
    """Whether it holds all runs of the configuration."""
    views: list[str] | None = None
    """What its tables and figures read: views, `table_NAME` or `figure_NAME`; None: all views."""
    baseline: str = "mix"
    """The method that the others are compared with."""
    oracle: str | None = None
    """The method that regrets are against: it trains on the best static mixture found."""
    tables: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict)
    """Settings of the tables by name, in the report's order; absent: one per `table_*.sql`."""
    figures: dict[str, dict[str, object]] = dataclasses.field(default_factory=dict)
    """Settings of the figures by name, in the report's order; absent: one per `figure_*.sql`."""

    def plain_values(self) -> dict[str, Any]:
        """Its values as the planner gives them, uncopied."""
        return {**vars(self), "runs": {name: vars(run) for name, run in self.runs.items()}}

    def problems(self) -> list[str]:
        """Names that cannot be parts of paths; runs of other settings; no results at all."""
        result = [
            f"{section}: {problem}"
            for section in ("runs", "corpora", "sources", "tokenizers", "mixtures", "tasks",
                            "tables", "figures")
            for name in getattr(self, section)
            for part in name.split("/")
            if (problem := IS_SLUG.problem(part))
        ]  # fmt: skip
        known = sql_views.view_sql_by_name()
        result += [
            unknown_name_message(name, known, "views")
            for name in self.views or ()
            if sql_views.view_of(name) not in known
        ]
        for name, run in self.runs.items():
            *parts, seed = (run.settings.get(key) for key in RUN_NAMES[:4])
            own = "/".join([*map(str, parts), f"seed{seed}"])
            if not run.problems() and name != own:
                result.append(f"runs: {name!r} has the settings of {own!r}")
        if not (self.runs or self.theory):
            result.append("runs: is empty, so there is nothing to put in a database")
        return result

    def scenarios(self) -> list[str]:
        """Scenarios in the order of the runs."""
        return list(dict.fromkeys(str(run.settings["scenario"]) for run in self.runs.values()))

    def methods(self) -> list[str]:
        """Methods in the order of the configuration, which those without a run keep too.

        So a method has one place, and one colour, in the databases of all tables and figures.
        """
        named = [str(run.settings["method_name"]) for run in self.runs.values()]
        return list(dict.fromkeys([*self.section("methods"), *named]))

    def configured_unscaled_target_weights(self, scenario: str) -> dict[str, float]:
        """Weights of the domains in a scenario's mean loss; empty where all are equal."""
        values = self.section("scenarios").get(scenario, {})
        return values.get("target", {}) if isinstance(values, dict) else {}

    def section(self, name: str) -> dict[str, Any]:
        """A section of the configuration by its name; empty when it is not there."""
        result = self.config.get(name, {})
        return result if isinstance(result, dict) else {}


def read_experiment(path: Path) -> Experiment:
    """The settings of an experiment's results, of a file that the workflow wrote."""
    return validate(Experiment, atomic_files.read_json(path), str(path))
