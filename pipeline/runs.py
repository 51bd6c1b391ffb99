"""From an experiment's configuration to everything that it asks for, by name.

A plan is made anew at each start of the workflow, also within each job of a cluster, so this module
imports nothing heavy and does dictionary look-ups only.
"""

import copy
import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pipeline import files, fingerprints, references, schema
from pipeline.data import SOURCES
from pipeline.errors import InputError
from pipeline.mixing import METHODS
from pipeline.settings import unknown

Settings = dict[str, Any]

STAGES = {
    "download": "pipeline.data.sources:download",
    "tokenizer": "pipeline.data.tokenizer:build",
    "pack": "pipeline.data.packing:pack",
    "pretrain": "pipeline.pretrain:pretrain",
    "evaluate": "pipeline.evaluation.evaluate:evaluate",
    "probe": "pipeline.probe:probe",
    "database": "pipeline.results.database:build",
    "table": "pipeline.results.tables:write",
    "figure": "pipeline.results.figures:write",
    "report": "pipeline.results.report:write",
}
"""The function that does a stage's work; its code is what the stage's results depend on."""

PARTS = {"download": SOURCES, "pretrain": METHODS}
"""Stages that do their work by one of several peers, each with a module of its own."""

ASSETS = {
    "database": ["results/sql", "paper"],
    "table": ["results/sql"],
    "figure": ["results/sql"],
    "report": ["results/sql", "results/report"],
}
"""Folders of the package whose files decide a stage's result beside its modules."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """An experiment, expanded: explicit settings of all that it makes, by name."""

    config: Settings
    results: str
    """Output root."""
    sources: dict[str, Settings]
    tokenizers: dict[str, Settings]
    tokenizer_sources: dict[str, list[str]]
    """Sources that each tokenizer is trained on; none for a given file."""
    corpora: dict[str, Settings]
    """By `{tokenizer}/{source}`."""
    runs: dict[str, Settings]
    """By `{scenario}/{model}/{method}/seed{n}`; the content of each `run.json`."""
    evaluations: dict[str, Settings]
    """By run."""
    probes: dict[str, Settings]
    """By run."""
    tables: dict[str, Settings]
    figures: dict[str, Settings]

    def run_folder(self, run: str) -> str:
        """Where a run's records lie."""
        return f"{self.results}/runs/{run}"

    def named(self, section: str, name: str) -> Settings:
        """What a section has under a name: a target of the command line may hold any name.

        Raises:
            InputError: nothing, with the nearest name.
        """
        entries: dict[str, Settings] = getattr(self, section)
        if name not in entries:
            raise InputError(unknown(name, entries, section))
        return entries[name]

    def read_domains(self, run: str, stage: str) -> list[str]:
        """Domains whose corpora a stage reads for a run."""
        own: list[str] = self.runs[run]["domains"]
        further = self.evaluations[run].get("domains") if stage == "evaluate" else None
        return list(dict.fromkeys([*own, *(further or [])]))

    def settings_files(self) -> dict[str, Settings]:
        """Path and content of every settings file that a stage reads."""
        written = {f"{self.results}/settings/experiment.json": self.experiment(list(self.runs))}
        for folder in ("sources", "tokenizers", "corpora", "tables", "figures"):
            for name, values in getattr(self, folder).items():
                written[f"{self.results}/settings/{folder}/{name}.json"] = values
        for kind in ("table", "figure"):
            for name in getattr(self, f"{kind}s"):
                if not self.needs_all(kind, name):
                    path = f"{self.results}/settings/databases/{kind}-{name}.json"
                    written[path] = self.experiment(self.selected(kind, name))
        for run, values in self.runs.items():
            written[f"{self.run_folder(run)}/run.json"] = values
            written[f"{self.run_folder(run)}/evaluation.json"] = self.evaluations[run]
            written[f"{self.run_folder(run)}/probe.json"] = self.probes[run]
        return written

    def experiment(self, names: Sequence[str]) -> Settings:
        """What a database of these runs is built from."""
        chosen = {run: self.runs[run] for run in names}
        corpora = sorted(
            {
                f"{values['tokenizer']}/{domain}"
                for run, values in chosen.items()
                for domain in self.read_domains(run, "evaluate")
            }
        )
        tokenizers = sorted({r["tokenizer"] for r in chosen.values()})
        read = {corpus.partition("/")[2] for corpus in corpora}
        read.update(s for t in tokenizers for s in self.tokenizer_sources[t])
        return {
            "experiment": self.config["experiment"],
            "results": self.results,
            "config": self.config,
            "runs": {r: {"folder": self.run_folder(r), "settings": v} for r, v in chosen.items()},
            "corpora": {corpus: f"{self.results}/corpora/{corpus}" for corpus in corpora},
            "sources": {source: f"{self.results}/data/{source}" for source in sorted(read)},
            "tokenizers": {t: f"{self.results}/tokenizers/{t}.json" for t in tokenizers},
            "fingerprints": {r: code("pretrain", v["rule"]) for r, v in chosen.items()},
            "tables": self.tables,
            "figures": self.figures,
        }

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def selected(self, kind: str, name: str) -> tuple[str, ...]:
        """The runs that a table or figure needs, in the order of the plan."""
        wanted = self.named(f"{kind}s", name)["selection"]
        return tuple(r for r, v in self.runs.items() if _chosen(v, wanted))

    def needs_all(self, kind: str, name: str) -> bool:
        """Whether a table or figure needs every run, and so reads the one database."""
        return len(self.selected(kind, name)) == len(self.runs)

    def database(self, kind: str, name: str) -> str:
        """The database that a table or figure reads: it holds the runs that it needs."""
        if self.needs_all(kind, name):
            return f"{self.results}/pike.duckdb"
        return f"{self.results}/databases/{kind}-{name}.duckdb"

    __hash__ = object.__hash__


def read(path: Path) -> Settings:
    """A configuration file's content.

    Raises:
        InputError: the file is missing or is not YAML.
    """
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: check --configfile") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid YAML: {error}") from None
    return loaded if isinstance(loaded, dict) else {}


def plan(config: Mapping[str, Any], origin: str) -> Plan:
    """Expands a configuration, after checking all of it.

    Args:
        config: The merged configuration.
        origin: Where it was set, for messages: "config.yaml".

    Raises:
        InputError: every mistake in it, in one message, each with its path and a way out.
    """
    problems = schema.problems(config, origin) or references.problems(config, origin)
    if problems:
        raise InputError("\n".join(problems))
    own = copy.deepcopy(dict(config))
    runs: dict[str, Settings] = {}
    for entry in own["runs"]:
        for names in itertools.product(
            entry["scenarios"], entry["models"], entry["methods"], entry["seeds"]
        ):
            scenario, model, method, seed = names
            runs[f"{scenario}/{model}/{method}/seed{seed}"] = _run(own, *names)
    scenarios = own["scenarios"]
    evaluations = {
        r: _ordered(own["evaluation"][scenarios[v["scenario"]]["evaluation"]])
        for r, v in runs.items()
    }
    used = {
        f"{v['tokenizer']}/{d}": dict(own["packing"])
        for r, v in runs.items()
        for d in [*v["domains"], *(evaluations[r].get("domains") or [])]
    }
    return Plan(
        config=own,
        results=str(Path(own["results"])),
        sources=_ordered(own["sources"]),
        tokenizers={name: _ordered(_tokenizer(own, name)) for name in own["tokenizers"]},
        tokenizer_sources={
            name: values.get("sources", []) for name, values in own["tokenizers"].items()
        },
        corpora=used,
        runs=runs,
        evaluations=evaluations,
        probes={
            r: _ordered(own["probe"][scenarios[v["scenario"]]["probe"]]) for r, v in runs.items()
        },
        tables=_outputs(own["tables"]),
        figures=_outputs(own["figures"]),
    )


@functools.cache
def code(stage: str, part: str | None = None) -> str:
    """Fingerprint of a stage's code.

    Args:
        stage: Name of the stage.
        part: The one of its peers that the stage runs: the rule of a pretraining run, the kind of
            a source.
    """
    places = [STAGES[stage], *([PARTS[stage][part]] if part else [])]
    python = fingerprints.of(*(place.partition(":")[0] for place in places))
    return "-".join([python, *(fingerprints.of_files(folder) for folder in ASSETS.get(stage, []))])


def files_of(settings: Settings) -> list[str]:
    """Paths or patterns of the user's own files that a source or tokenizer reads."""
    named: str | list[str] = settings.get("files") or settings.get("path") or []
    return [named] if isinstance(named, str) else named


def claim(plan: Plan, origin: str) -> str:
    """Refuses an output root that another experiment has begun; returns the stamp to write.

    Raises:
        InputError: the root belongs to another configuration.
    """
    stamp = {"experiment": plan.config["experiment"], "configuration": origin}
    path = Path(plan.results, "experiment.json")
    found = files.read_json(path) if path.exists() else stamp
    if found != stamp:
        raise InputError(
            f"{plan.results}/ belongs to the experiment {found['experiment']!r} of "
            f"{found['configuration']}, not to {stamp['experiment']!r} of {origin}: give this "
            f"configuration its own folder (results: ...), or, if it replaces the other for good, "
            f"delete {path}"
        )
    return files.canonical(stamp)


def write_settings(plan: Plan, origin: str) -> None:
    """Writes every settings file whose content changed, and the stamp of the output root.

    Raises:
        InputError: the output root belongs to another configuration.
    """
    claim(plan, origin)
    stamp = {"experiment": plan.config["experiment"], "configuration": origin}
    wanted = {f"{plan.results}/experiment.json": stamp, **plan.settings_files()}
    for name, values in wanted.items():
        if not _holds(Path(name), values):
            files.write_json(Path(name), values)


def _holds(path: Path, values: Settings) -> bool:
    """Whether a settings file is there and whole: a spoiled one is as good as none."""
    try:
        return bool(files.read_json(path) == values)
    except InputError:
        return False


def _run(config: Settings, scenario: str, model: str, method: str, seed: int) -> Settings:
    chosen = config["scenarios"][scenario]
    values = references.method_settings(config, scenario, method)
    return {
        "scenario": scenario,
        "model_name": model,
        "method_name": method,
        "seed": seed,
        "domains": chosen["domains"],
        "tokenizer": chosen["tokenizer"],
        "model": _ordered(config["models"][model]),
        "training": _ordered(config["training"][chosen["training"]]),
        "rule": values["rule"],
        "method": _ordered({key: value for key, value in values.items() if key != "rule"}),
    }


def _ordered(value: Any) -> Any:
    """The same with sorted keys: Snakemake compares settings as texts, and order is no change."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return value


def _tokenizer(config: Settings, name: str) -> Settings:
    values = {key: value for key, value in config["tokenizers"][name].items() if key != "sources"}
    if values["kind"] == "train":
        # It is trained on training documents only, by the rule that packing splits by.
        values["validation_share"] = config["packing"]["validation_share"]
    return values


def _outputs(named: Mapping[str, Any]) -> dict[str, Settings]:
    return {name: {"name": name, "selection": dict(values)} for name, values in named.items()}


def _chosen(run: Settings, wanted: Mapping[str, Sequence[Any]]) -> bool:
    keys = {
        "scenarios": "scenario",
        "models": "model_name",
        "methods": "method_name",
        "seeds": "seed",
    }
    return all(run[keys[k]] in values for k, values in wanted.items())
