"""From an experiment's configuration to everything that it asks for, by name.

A plan is made anew at each start of the workflow, also within each job of a cluster, so this module
imports nothing heavy and does dictionary look-ups only.
"""

import copy
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pike_mixing.settings import unknown
from pipeline.planning import (
    cross_checks,
    dependencies,
    methods,
    schema,
    stage_settings,
    stages,
    strict_yaml,
)

Settings = dict[str, Any]


STANDALONE = {"table": ("audit", "theory"), "figure": ("figure3",)}
"""Tables and figures that need no run: they show the theory's records and the paper's numbers."""


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
    asked: tuple[str, ...]
    """Runs that the configuration asks for; the others only serve these."""
    references: dict[str, str]
    """The run whose model is a run's reference, by run."""
    found: dict[str, str]
    """The mixture that a run trains with, by run."""
    mixtures: dict[str, Settings]
    """By `{scenario}/{model}/{mixture}/seed{n}`, of the proxies' model and seed."""
    evaluations: dict[str, Settings]
    """By run; runs that only serve others may have none."""
    probes: dict[str, Settings]
    """By run; those that their scenario does not probe have none."""
    tasks: dict[str, Settings]
    """Downstream tasks that an evaluation asks, with what is set about where they come from."""
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

    def read_domains(self, run: str) -> list[str]:
        """Domains whose corpora a run and its evaluation read."""
        own: list[str] = self.runs[run]["domains"]
        further = self.evaluations.get(run, {}).get("domains") or []
        return list(dict.fromkeys([*own, *further]))

    def asked_tasks(self, runs: Iterable[str]) -> list[str]:
        """Downstream tasks that the evaluations of these runs ask."""
        asked = (self.evaluations.get(run, {}).get("tasks", []) for run in runs)
        return sorted({one["task"] for tasks in asked for one in tasks})

    def settings_files(self) -> dict[str, Settings]:
        """Path and content of every settings file that a stage reads."""
        written = {self.holding(None)[0]: self.experiment(list(self.runs))}
        for folder in ("sources", "tokenizers", "corpora", "mixtures", "tables", "figures"):
            for name, values in getattr(self, folder).items():
                written[f"{self.results}/settings/{folder}/{name}.json"] = values
        for selection, chosen in self.selections().items():
            written[self.holding(selection)[0]] = self.experiment(chosen)
        for run, values in self.runs.items():
            written[f"{self.run_folder(run)}/run.json"] = values
        for name, section in (("evaluation", self.evaluations), ("probe", self.probes)):
            for run, values in section.items():
                written[f"{self.run_folder(run)}/{name}.json"] = values
        return written

    def experiment(self, names: Sequence[str]) -> Settings:
        """What a database of these runs is built from."""
        chosen = {run: self.runs[run] for run in names}
        corpora = sorted(
            {
                f"{values['tokenizer']}/{domain}"
                for run, values in chosen.items()
                for domain in self.read_domains(run)
            }
        )
        mixtures = sorted({self.found[run] for run in chosen if run in self.found})
        tokenizers = sorted({r["tokenizer"] for r in chosen.values()})
        read = {corpus.partition("/")[2] for corpus in corpora}
        read.update(s for t in tokenizers for s in self.tokenizer_sources[t])
        return {
            "experiment": self.config["experiment"],
            **self.config.get("compare", {}),
            "results": self.results,
            "config": self.config,
            "runs": {
                run: {
                    "folder": self.run_folder(run),
                    "settings": values,
                    "evaluations": run in self.evaluations,
                    "probes": run in self.probes,
                }
                for run, values in chosen.items()
            },
            "mixtures": {m: f"{self.results}/mixtures/{m}.json" for m in mixtures},
            "corpora": {corpus: f"{self.results}/corpora/{corpus}" for corpus in corpora},
            "sources": {source: f"{self.results}/data/{source}" for source in sorted(read)},
            "tokenizers": {t: f"{self.results}/tokenizers/{t}.json" for t in tokenizers},
            "tasks": {t: f"{self.results}/tasks/{t}" for t in self.asked_tasks(chosen)},
            "theory": self.theory(names),
            "fingerprints": {r: stages.code("pretrain", v["rule"]) for r, v in chosen.items()},
            "rules": rule_descriptions(self),
            "tables": self.tables,
            "figures": self.figures,
        }

    def theory(self, names: Sequence[str]) -> str | None:
        """Folder of the theory's records, where a database of these runs holds them.

        It does where they are shown and the database is for none of the runs, or all that were
        asked for; one for some runs does not wait for them.
        """
        # One of the claims is about Example 1.
        shown = {*STANDALONE["table"], "claims"} & self.tables.keys()
        shown |= set(STANDALONE["figure"]) & self.figures.keys()
        whole = not names or set(names) >= set(self.asked)
        return f"{self.results}/theory" if shown and whole else None

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def selected(self, kind: str, name: str) -> tuple[str, ...]:
        """The runs that a table or figure needs, in the order of the plan.

        None of those that only serve others, but where it names their methods.
        """
        if name in STANDALONE[kind]:
            return ()
        wanted = self.named(f"{kind}s", name)["selection"]
        named, asked = wanted.get("methods", ()), set(self.asked)
        return tuple(
            run
            for run, values in self.runs.items()
            if _chosen(values, wanted) and (run in asked or values["method_name"] in named)
        )

    def selection(self, kind: str, name: str) -> str | None:
        """Name of the database of the runs that a table or figure needs; None: of all runs."""
        chosen = self.selected(kind, name)
        if len(chosen) == len(self.runs):
            return None
        if not chosen:
            return "theory"
        return "asked" if chosen == self.asked else self._first(chosen)

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def _first(self, chosen: tuple[str, ...]) -> str:
        """The first table or figure that needs these runs: all that need the same share it."""
        return next(f"{k}-{n}" for k, n in self._outputs() if self.selected(k, n) == chosen)

    def _outputs(self) -> list[tuple[str, str]]:
        return [("table", name) for name in self.tables] + [("figure", n) for n in self.figures]

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def selections(self) -> dict[str, tuple[str, ...]]:
        """The databases of some runs that tables and figures read, by name."""
        named = {self.selection(k, name): self.selected(k, name) for k, name in self._outputs()}
        if len(self.asked) < len(self.runs):
            named["asked"] = self.asked
        return {name: chosen for name, chosen in named.items() if name is not None}

    def holding(self, selection: str | None) -> tuple[str, str]:
        """Settings and database of a selection of runs; None: of all runs."""
        if selection is None:
            return f"{self.results}/settings/experiment.json", f"{self.results}/pike.duckdb"
        settings = f"{self.results}/settings/databases/{selection}.json"
        return settings, f"{self.results}/databases/{selection}.duckdb"

    def shown(self) -> tuple[str, str]:
        """Settings and database of the report: of the runs that were asked for."""
        return self.holding("asked" if "asked" in self.selections() else None)

    def named_selection(self, name: str) -> tuple[str, ...]:
        """The runs of a database that holds some.

        Raises:
            InputError: no table or figure reads one of that name.
        """
        known = self.selections()
        if name not in known:
            raise InputError(unknown(name, known, "databases"))
        return known[name]

    def database(self, kind: str, name: str) -> str:
        """The database that a table or figure reads: it holds the runs that it needs."""
        return self.holding(self.selection(kind, name))[1]

    __hash__ = object.__hash__


def read(path: Path) -> Settings:
    """A configuration file's content, with what it includes.

    Raises:
        InputError: a file cannot be read, or is not a mapping in YAML (`strict_yaml`).
    """
    return included(_read(path), path.parent)


def included(config: Mapping[str, Any], folder: Path) -> Settings:
    """A configuration with the sections of the file that it names under `include`.

    Args:
        config: The configuration.
        folder: That of its file, where the other's path begins.

    Raises:
        InputError: there is no such file, it cannot be read, or it has a section that the
            configuration has, too.
    """
    whole = dict(config)
    if (name := whole.pop("include", None)) is None:
        return whole
    if not isinstance(name, str):
        raise InputError(f"include: {name!r} is no path: give that of one file")
    if not (folder / name).exists():
        raise InputError(f"include: {folder / name} does not exist: give its path from {folder}")
    further = _read(folder / name)
    if twice := sorted(further.keys() & config.keys()):
        raise InputError(
            f"{folder / name}: {', '.join(twice)}: stands in the configuration that includes this "
            "file, too: take it out of one of them"
        )
    return whole | further


def _read(path: Path) -> Settings:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: check --config") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check --config") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 ({error}): save it as UTF-8") from None
    loaded = strict_yaml.load(text, str(path))
    if not isinstance(loaded, dict):
        found = "is empty" if loaded is None else f"holds a {type(loaded).__name__}"
        raise InputError(f"{path} {found}: a configuration is a mapping, such as config.yaml")
    return loaded


def check_files(paths: Sequence[Path]) -> None:
    """Reads the files of a configuration again, which Snakemake has read and merged.

    Raises:
        InputError: `read` refuses one, or `--configfile` has taken a target for one.
    """
    for number, path in enumerate(paths):
        if number and path.suffix not in (".yaml", ".yml"):
            raise InputError(
                f"--configfile takes all that stands behind it for configurations, {path} too: "
                "put targets in front of it"
            )
        read(path)


def plan(config: Mapping[str, Any], origin: str) -> Plan:
    """Expands a configuration, after checking all of it.

    Args:
        config: The merged configuration.
        origin: Where it was set, for messages: "config.yaml".

    Raises:
        InputError: every mistake in it, in one message, each with its path and a way out.
    """
    problems = schema.problems(config, origin) or cross_checks.problems(config, origin)
    if problems:
        raise InputError("\n".join(problems))
    own = copy.deepcopy(dict(config))
    asked = dependencies.asked(own)
    every = dependencies.closure(own, asked)
    found = {run: m for run in every if (m := dependencies.mixture(own, run)) is not None}
    references_of = {run: r for run in every if (r := dependencies.reference(own, run)) is not None}
    wanted = set(asked)
    compared = {p for m in set(found.values()) for p in dependencies.proxies_of(own, m)}
    runs = {str(run): stage_settings.run_settings(own, run) for run in every}
    evaluations = {
        str(run): stage_settings.evaluation(own, run, asked=run in wanted)
        for run in every
        if run in wanted or run in compared
    }
    used = {
        f"{v['tokenizer']}/{d}": dict(own["packing"])
        for r, v in runs.items()
        for d in [*v["domains"], *(evaluations.get(r, {}).get("domains") or [])]
    }
    return Plan(
        config=own,
        results=str(Path(own["results"])),
        sources=stage_settings.ordered(own["sources"]),
        tokenizers={
            name: stage_settings.ordered(stage_settings.tokenizer(own, name))
            for name in own["tokenizers"]
        },
        tokenizer_sources={
            name: values.get("sources", []) for name, values in own["tokenizers"].items()
        },
        corpora=used,
        runs=runs,
        asked=tuple(map(str, asked)),
        references={str(run): str(other) for run, other in references_of.items()},
        found={str(run): str(mixture) for run, mixture in found.items()},
        mixtures={str(m): stage_settings.mixture_settings(own, m, runs) for m in found.values()},
        evaluations=evaluations,
        probes={
            str(run): probed
            for run in asked
            if (probed := stage_settings.probe(own, run)) is not None
        },
        tasks={
            one["task"]: stage_settings.ordered(own.get("tasks", {}).get(one["task"], {}))
            for values in evaluations.values()
            for one in values.get("tasks", [])
        },
        tables=stage_settings.outputs(own["tables"]),
        figures=stage_settings.outputs(own["figures"]),
    )


def rule_descriptions(plan: Plan) -> dict[str, str]:
    """What the mixing rules of a plan do, in the report's words, by rule."""
    named = dict.fromkeys(values["rule"] for values in plan.runs.values())
    return {rule: methods.about(rule) for rule in named}


def processes(source: Settings) -> int:
    """How many processes are worth packing a source: one for each 64 MiB of text, 16 at most."""
    size = source.get("bytes")
    if size is None and source["kind"] == "local":
        return 4  # Nobody has looked at the files yet.
    if size is None:
        size = source.get("documents", 0) * source.get("length", 0)
    return int(min(max(size // 2**26, 1), 16))


def files_of(settings: Settings | None) -> list[str]:
    """Paths or patterns of the user's own files that a source or tokenizer reads."""
    asked = settings or {}
    named: str | list[str] = asked.get("files") or asked.get("path") or []
    return [named] if isinstance(named, str) else named


def _chosen(run: Settings, wanted: Mapping[str, Sequence[Any]]) -> bool:
    keys = {
        "scenarios": "scenario",
        "models": "model_name",
        "methods": "method_name",
        "seeds": "seed",
    }
    return all(run[keys[k]] in values for k, values in wanted.items())
