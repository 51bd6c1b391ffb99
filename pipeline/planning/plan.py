"""An experiment's plan: what it makes by name, and which runs each database holds."""

import dataclasses
import functools
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message
from pipeline.planning import dependencies, manifest_places, methods
from pipeline.planning.dependencies import RunName
from pipeline.runtime import made_from
from pipeline.runtime.atomic_files import MANIFEST
from pipeline.settings import GRID

Settings = dict[str, Any]

STANDALONE = {"table": ("audit", "theory"), "figure": ("figure3",)}
"""Tables and figures that need no run: they show the theory's records and the paper's numbers."""
OF_SETTINGS = ("table3", "table4", "table5", "table6")
"""Tables of corpora and settings: no run is trained for them."""
OF_ALL = ("board", "leaderboard")
"""Tables that count what other runs cost: they need these, too."""
EVALUATE, PROBE = "evaluate", "probe"
RECORDS = {
    "table": {
        **dict.fromkeys(("table7", "table8", "costs", "gradients"), ()),
        **{f"table{n}": (EVALUATE,) for n in (1, 2, 9, 10, 11, 12, 13, 14)},
    },
    "figure": {
        **dict.fromkeys(("figure8", "gradients", "weights"), ()),
        **dict.fromkeys(("figure1", "figure4", "figure7", "differences", "losses"), (EVALUATE,)),
        **dict.fromkeys(("figure5", "figure6", "similarities"), (PROBE,)),
    },
}
"""What a table or figure shows of trained runs beside their own records; any other: all."""
ALL_RUNS = ""
"""The name of the database of all runs, as its rule has it."""
UNTRAINED = "untrained-"
"""What the name of a database begins with that knows its runs by their settings alone."""


class WorkName(NamedTuple):
    """One piece of work of a plan."""

    rule: str
    """That makes it."""
    name: str
    """The values of the rule's wildcards, joined by slashes."""


class Selection(NamedTuple):
    """Some runs of a plan, of which a database is made."""

    runs: tuple[str, ...]
    checkpoint_rules: tuple[str, ...] = (EVALUATE, PROBE)
    """What was asked of checkpoints that the database holds."""
    views: list[str] | None = None
    """What the tables and figures read that read it; None: whatever there is."""
    is_trained: bool = True
    """Whether it holds records of the runs, and not their settings alone."""


class DatabaseFiles(NamedTuple):
    """Paths of one database."""

    settings: str
    """What it is built from."""
    database: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """An experiment, expanded: explicit settings of all that it makes, by name."""

    config: Settings
    origin: str
    """Where the configuration stands, for messages."""
    owner: str
    """The file that sets `results`: configurations that include it share its folder."""
    files: tuple[str, ...]
    """The configuration's files, of which a later one replaces values of an earlier one."""
    options: Settings
    """What `--config` sets, which replaces both."""
    results: str
    """Output root."""
    sources: dict[str, Settings]
    tokenizers: dict[str, Settings]
    tokenizer_sources: dict[str, list[str]]
    """Sources that each tokenizer is trained on; none for a given file."""
    runs: dict[str, Settings]
    """By `{scenario}/{model}/{method}/seed{n}`; the content of each `run.json`."""
    requested: tuple[str, ...]
    """Runs that the configuration asks for; the others only serve these."""
    references: dict[str, str]
    """The run whose model is a run's reference, by run."""
    found: dict[str, str]
    """The mixture or the grid whose choice a run takes, by run."""
    mixtures: dict[str, Settings]
    """Mixtures and grids by `{scenario}/{model}/{name}/seed{n}`, of the proxies' model and seed."""
    evaluations: dict[str, Settings]
    """By run; runs that only serve others may have none."""
    probes: dict[str, Settings]
    """By run; those that their scenario does not probe have none."""
    tasks: dict[str, Settings]
    """Downstream tasks that an evaluation asks, or no corpus may hold: where they come from."""
    tables: dict[str, Settings]
    figures: dict[str, Settings]

    def manifest_path(self, rule: str, name: str = "") -> str:
        """Where the manifest of what a rule makes lies, or will."""
        return f"{self.results}/{manifest_places.MADE[rule].manifest.format(name)}"

    def section_entry(self, section: str, name: str) -> Settings:
        """What a section has under a name: a target of the command line may hold any name.

        Raises:
            InputError: nothing, with the nearest name.
        """
        entries: dict[str, Settings] = getattr(self, section)
        if name not in entries:
            raise InputError(unknown_name_message(name, entries, section))
        return entries[name]

    def domains_read_by(self, run: str) -> list[str]:
        """Domains whose corpora a run and its evaluation read."""
        own: list[str] = self.runs[run]["domains"]
        further = self.evaluations.get(run, {}).get("domains") or []
        return list(dict.fromkeys([*own, *further]))

    @functools.cached_property
    def corpora(self) -> dict[str, Settings]:
        """What is packed, by `{tokenizer}/{source}`."""
        return {name: dict(self.config["packing"]) for name in self.corpora_of(self.runs)}

    def corpora_of(self, runs: Iterable[str]) -> list[str]:
        """Corpora that these runs and their evaluations read, each once."""
        read = ((self.runs[run]["tokenizer"], self.domains_read_by(run)) for run in runs)
        return list(dict.fromkeys(f"{t}/{domain}" for t, domains in read for domain in domains))

    def tasks_of(self, runs: Iterable[str]) -> list[str]:
        """Downstream tasks that the evaluations of these runs ask."""
        requested = (self.evaluations.get(run, {}).get("tasks", []) for run in runs)
        return sorted({one["task"] for tasks in requested for one in tasks})

    def names_by_rule(self) -> dict[str, Collection[str]]:
        """Names of what each rule of the workflow makes, in the order of the data's way."""
        others = {
            "theory": [""] if self.theory_folder_for_database(list(self.runs)) else [],
            "database": [ALL_RUNS],
            "database_of_selection": self.selection_by_partial_database,
            "article": [""] if self.paper_table_and_figure_names else [],
            "report": [""],
        }
        return {
            rule: others[rule] if rule in others else getattr(self, made.section)
            for rule, made in manifest_places.MADE.items()
        }

    @functools.cached_property
    def work_names(self) -> list[WorkName]:
        """Every piece of work, in the order of the data's way."""
        return [WorkName(rule, n) for rule, names in self.names_by_rule().items() for n in names]

    @functools.cached_property
    def maker_by_manifest_or_tokenizer_path(self) -> dict[str, WorkName]:
        """The work that makes a file, by the path of its manifest or of its tokenizer."""
        models = {
            f"{self.results}/tokenizers/{name}.model": WorkName("tokenizer", name)
            for name in self.tokenizers
        }
        return {self.manifest_path(*work): work for work in self.work_names} | models

    def find_maker(self, file: Path) -> WorkName | None:
        """The work that makes a file: its manifest is beside it, or in the next folder with one."""
        at = Path(os.path.normpath(file))
        places = [at, made_from.manifest_beside(at)]
        places += [folder / MANIFEST for folder in (at, *at.parents)]
        makers = self.maker_by_manifest_or_tokenizer_path
        return next((made for p in places if (made := makers.get(str(p)))), None)

    def settings_by_path(self) -> dict[str, Settings]:
        """Path and content of every settings file that a stage reads."""
        names = (ALL_RUNS, *self.selection_by_partial_database)
        written = {
            self.settings_and_database_paths(name).settings: self.settings_of_database(name)
            for name in names
        }
        for folder in ("sources", "tokenizers", "corpora", "tables", "figures"):
            for name, values in getattr(self, folder).items():
                written[f"{self.results}/settings/{folder}/{name}.json"] = values
        for name, values in self.mixtures.items():
            proxies = {
                run: {"folder": f"{self.results}/runs/{run}", **proxy}
                for run, proxy in values["proxies"].items()
            }
            place = f"{self.results}/settings/mixtures/{name}.json"
            written[place] = {**values, "proxies": proxies}
        of_runs = {"run": self.runs, "evaluation": self.evaluations, "probe": self.probes}
        for name, section in of_runs.items():
            for run, values in section.items():
                written[f"{self.results}/runs/{run}/{name}.json"] = values
        return written

    def settings_of_database(self, name: str) -> Settings:
        """What the database of a name is built from, that of all runs too.

        Raises:
            InputError: no table or figure reads one of that name.
        """
        if name == ALL_RUNS:
            return self.database_settings_of_selection(Selection(tuple(self.runs)))
        known = self.selection_by_partial_database
        if name not in known:
            raise InputError(unknown_name_message(name, known, "databases"))
        selection = known[name]
        return {**self.database_settings_of_selection(selection), "views": selection.views}

    def database_settings_of_selection(self, selection: Selection) -> Settings:
        """What a database is built from.

        Without records of its runs it holds settings, corpora and the mixtures that they are to
        train with.
        """
        names, trained = selection.runs, selection.is_trained
        rules = selection.checkpoint_rules if trained else ()
        chosen = {run: self.runs[run] for run in names}
        corpora = sorted(self.corpora_of(chosen))
        mixtures = sorted(
            found
            for found in {self.found[run] for run in chosen if run in self.found}
            if trained or self.mixtures[found]["finder"] != GRID
        )
        tokenizers = sorted({r["tokenizer"] for r in chosen.values()})
        read = {corpus.partition("/")[2] for corpus in corpora}
        read.update(s for t in tokenizers for s in self.tokenizer_sources[t])
        return {
            "experiment": self.config["experiment"],
            "whole": len(chosen) == len(self.runs),
            **self.config.get("compare", {}),
            "results": self.results,
            "config": self.config,
            "runs": {
                run: {
                    "folder": f"{self.results}/runs/{run}",
                    "settings": values,
                    "trained": trained,
                    "evaluations": EVALUATE in rules and run in self.evaluations,
                    "probes": PROBE in rules and run in self.probes,
                    "mixture": self.found.get(run),
                }
                for run, values in chosen.items()
            },
            "mixtures": {mixture: self.manifest_path("mixture", mixture) for mixture in mixtures},
            "corpora": {corpus: f"{self.results}/corpora/{corpus}" for corpus in corpora},
            "sources": {source: f"{self.results}/data/{source}" for source in sorted(read)},
            "tokenizers": {name: self.manifest_path("tokenizer", name) for name in tokenizers},
            "tasks": {
                t: f"{self.results}/tasks/{t}"
                for t in (self.tasks_of(chosen) if EVALUATE in rules else ())
            },
            "theory": self.theory_folder_for_database(names) if trained else None,
            "rules": self.summary_by_method_rule(),
            "tables": self.tables,
            "figures": self.figures,
        }

    def settings_for_manifest(self, section: str, name: str) -> Any:
        """What a piece of work is made under, as its manifest records it; None: nothing is.

        `section` is `databases`, `article`, `report`, `theory`, or one of the plan.
        """
        if section == "theory":
            return None
        if section == "article":
            return {"shown": self.paper_table_and_figure_names}
        if section == "report":
            return {
                "config": manifest_places.fill_rule_and_finder_defaults(self.config),
                "rules": self.summary_by_method_rule(),
            }
        if section == "databases":
            return manifest_places.database_settings(self.settings_of_database(name))
        return self.section_entry(section, name)

    @functools.cached_property
    def paper_table_and_figure_names(self) -> list[str]:
        """The plan's tables and figures that are the paper's, in the paper's order."""
        return [name for name in manifest_places.OF_PAPER if name in {*self.tables, *self.figures}]

    def theory_folder_for_database(self, runs: Sequence[str]) -> str | None:
        """Folder of the theory's records, where a database of these runs holds them.

        It does where they are shown and the database is for none of the runs, or all that were
        asked for; one for some runs does not wait for them.
        """
        # One of the claims is about Example 1.
        shown = {*STANDALONE["table"], "claims"} & self.tables.keys()
        shown |= set(STANDALONE["figure"]) & self.figures.keys()
        whole = not runs or set(runs) >= set(self.requested)
        return f"{self.results}/theory" if shown and whole else None

    @functools.cached_property
    def needed_runs_by_output(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """The runs that each table and figure needs, by kind and name, in the order of the plan."""
        every, requested = map(RunName.parse, self.runs), set(map(RunName.parse, self.requested))
        listed, outputs = list(every), {"table": self.tables, "figure": self.figures}

        def needed_runs(kind: str, name: str, selection: Settings) -> tuple[str, ...]:
            if name in STANDALONE[kind]:
                return ()
            if kind == "table" and name in OF_ALL:
                return tuple(self.runs)
            return tuple(map(str, dependencies.select_runs(listed, requested, selection)))

        return {
            (kind, name): needed_runs(kind, name, values["selection"])
            for kind, named in outputs.items()
            for name, values in named.items()
        }

    @functools.cached_property
    def database_name_by_output(self) -> dict[tuple[str, str], str]:
        """Name of the database that each table and figure reads."""
        # The first one that needs some records names the database of all that do.
        by_records: dict[Any, str] = {}
        for name in (name for name in OF_SETTINGS if name in self.tables):
            by_records.setdefault(self.needed_runs_by_output["table", name], UNTRAINED + name)
        for output, runs in self.needed_runs_by_output.items():
            by_records.setdefault(
                (runs, self._checkpoint_rules_of_output(*output)), "-".join(output)
            )

        def database_name_of(output: tuple[str, str], runs: tuple[str, ...]) -> str:
            if output[0] == "table" and output[1] in OF_SETTINGS:
                return by_records[runs]
            if len(runs) == len(self.runs):
                return ALL_RUNS
            if runs == self.requested:
                return "requested"
            return by_records[runs, self._checkpoint_rules_of_output(*output)] if runs else "theory"

        return {
            output: database_name_of(output, runs)
            for output, runs in self.needed_runs_by_output.items()
        }

    def _checkpoint_rules_of_output(self, kind: str, name: str) -> tuple[str, ...]:
        """What a table or figure shows of checkpoints, of that which was asked of its runs."""
        has = {EVALUATE: self.evaluations, PROBE: self.probes}
        shown = RECORDS[kind].get(name, (EVALUATE, PROBE))
        runs = self.needed_runs_by_output[kind, name]
        return tuple(one for one in shown if any(run in has[one] for run in runs))

    @functools.cached_property
    def selection_by_partial_database(self) -> dict[str, Selection]:
        """The runs of which tables, figures and the report read a database, by its name."""
        outputs = {"table": self.tables, "figure": self.figures}
        views = defaultdict[str, set[str]](set)
        read = {
            out: db
            for out, db in self.database_name_by_output.items()
            if db not in (ALL_RUNS, "requested")
        }
        for (kind, name), database in read.items():
            views[database].add(f"{kind}_{outputs[kind][name].get('kind', name)}")
        result = {
            database: Selection(
                self.needed_runs_by_output[output],
                self._checkpoint_rules_of_output(*output),
                sorted(views[database]),
                not database.startswith(UNTRAINED),
            )
            for output, database in read.items()
        }
        if len(self.requested) < len(self.runs):
            result["requested"] = Selection(self.requested)
        return result

    def settings_and_database_paths(self, name: str) -> DatabaseFiles:
        """Paths of the database of a name."""
        at = "experiment", "pike"
        if name != ALL_RUNS:
            at = f"databases/{name}", f"databases/{name}"
        return DatabaseFiles(
            f"{self.results}/settings/{at[0]}.json", f"{self.results}/{at[1]}.duckdb"
        )

    def report_database_files(self) -> DatabaseFiles:
        """Paths of the database that the report reads: of the runs that were asked for."""
        return self.settings_and_database_paths(
            "requested" if "requested" in self.selection_by_partial_database else ALL_RUNS
        )

    def database_path_of_output(self, kind: str, name: str) -> str:
        """The database that a table or figure reads: it holds the runs that it needs."""
        self.section_entry(f"{kind}s", name)
        return self.settings_and_database_paths(self.database_name_by_output[kind, name]).database

    def summary_by_method_rule(self) -> dict[str, str]:
        """What the rules of the plan's methods do, in the report's words."""
        named = dict.fromkeys(values["rule"] for values in self.runs.values())
        return {rule: methods.rule_about(rule) for rule in named}
