"""What each rule of the workflow reads: paths and arguments, from a plan and a rule's wildcards."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pipeline.planning import manifest_places
from pipeline.planning.plan import Plan, Settings
from pipeline.planning.stage_settings import decontamination_tasks_by_path, needs_method_states
from pipeline.runtime import file_patterns, made_from

Wildcards = Any
F = TypeVar("F", bound=Callable[..., Any])

_RUN = "/".join([*["[a-z0-9-]+"] * 3, "seed[0-9]+"])
WILDCARDS = {
    **dict.fromkeys(("source", "tokenizer", "selection", "table", "figure"), "[a-z0-9-]+"),
    **dict.fromkeys(("run", "mixture"), _RUN),
    "task": "[a-z0-9_]+",
}
"""What the wildcards of all rules match."""


def user_file_patterns(settings: Settings | None) -> list[str]:
    """Paths or patterns of the user's own files that a source or tokenizer reads."""
    fields = settings or {}
    named = [fields.get(key) or [] for key in ("files", "validation_files", "path")]
    return [path for one in named for path in ([one] if isinstance(one, str) else one)]


def attach_signature(function: F) -> F:
    """Stores its signature on a function: Snakemake asks for it before each of many calls."""
    vars(function)["__signature__"] = inspect.signature(function)
    return function


class JobInputs(NamedTuple):
    """What one job reads."""

    made: dict[str, list[str]]
    """Paths of what other jobs made, by the rule's name for it."""
    given: list[str]
    """The user's own files."""

    def made_paths(self) -> list[str]:
        """All that other jobs made."""
        return [path for paths in self.made.values() for path in paths]


@dataclasses.dataclass(frozen=True, eq=False)
class RuleInputs:
    """What the rules of a plan read."""

    plan: Plan

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def job_inputs(self, rule: str, name: str) -> JobInputs:
        """What the job of a rule reads; patterns of files are looked up once.

        Raises:
            InputError: the plan has no such job.
        """
        result = getattr(self, f"_inputs_of_{rule}")(name)
        return result if isinstance(result, JobInputs) else JobInputs(result, [])

    def _manifest_paths(self, rule: str, names: Iterable[str]) -> list[str]:
        return [self.plan.manifest_path(rule, name) for name in names]

    def _tokenizer_model_path(self, tokenizer: str) -> str:
        return f"{self.plan.results}/tokenizers/{tokenizer}.model"

    def _inputs_of_download(self, source: str) -> JobInputs:
        patterns = user_file_patterns(self.plan.section_entry("sources", source))
        return JobInputs({}, _expand_or_keep_patterns(patterns))

    def _inputs_of_tokenizer(self, tokenizer: str) -> JobInputs:
        """The sources that it is trained on, or the user's own tokenizer."""
        given = user_file_patterns(self.plan.section_entry("tokenizers", tokenizer))
        sources = self.plan.tokenizer_sources[tokenizer]
        return JobInputs({"documents": self._manifest_paths("download", sources)}, given)

    def _inputs_of_pack(self, corpus: str) -> JobInputs:
        """Documents, tokenizer, and the evaluation items that no corpus may hold."""
        self.plan.section_entry("corpora", corpus)
        tokenizer, _, source = corpus.partition("/")
        hygiene = self.plan.config["packing"].get("hygiene", {})
        fetched = decontamination_tasks_by_path(self.plan.config)
        patterns = user_file_patterns(hygiene.get("decontaminate"))
        made = {
            "documents": self._manifest_paths("download", [source]),
            "tokenizer": [self._tokenizer_model_path(tokenizer)],
            "tasks": self._manifest_paths("fetch", fetched.values()),
        }
        return JobInputs(
            made, _expand_or_keep_patterns(path for path in patterns if path not in fetched)
        )

    def _inputs_of_fetch(self, task: str) -> JobInputs:
        return JobInputs({}, list(self.plan.section_entry("tasks", task).get("files", {}).values()))

    def _inputs_of_pretrain(self, run: str) -> dict[str, list[str]]:
        """Manifests of corpora, and what other runs left for it."""
        plan, values = self.plan, self.plan.section_entry("runs", run)
        result = {"corpora": self._corpus_manifests(run, values["domains"])}
        if run in plan.references:
            result["reference"] = self._manifest_paths("pretrain", [plan.references[run]])
        if run in plan.found:
            result["mixture"] = self._manifest_paths("mixture", [plan.found[run]])
        return result

    def _inputs_of_mixture(self, mixture: str) -> dict[str, list[str]]:
        """Manifests of the runs that it is found from and, where it reads losses, evaluations."""
        values = self.plan.section_entry("mixtures", mixture)
        rules = ("pretrain",) if needs_method_states(values["finder"]) else ("pretrain", "evaluate")
        work = ((rule, run) for run in values["proxies"] for rule in rules)
        return {"proxies": [self.plan.manifest_path(*one) for one in work]}

    def _inputs_of_evaluate(self, run: str) -> dict[str, list[str]]:
        """The run's own manifest stands for the corpora that it trained on."""
        plan, values = self.plan, self.plan.section_entry("runs", run)
        further = [d for d in plan.domains_read_by(run) if d not in values["domains"]]
        return {
            "run": self._manifest_paths("pretrain", [run]),
            "tokenizer": [self._tokenizer_model_path(values["tokenizer"])],
            "corpora": self._corpus_manifests(run, further),
            "tasks": self._manifest_paths("fetch", plan.tasks_of([run])),
        }

    def _inputs_of_probe(self, run: str) -> dict[str, list[str]]:
        self.plan.section_entry("probes", run)
        return {"run": self._manifest_paths("pretrain", [run])}

    def _inputs_of_theory(self, _: str) -> dict[str, list[str]]:
        return {}

    def _inputs_of_database(self, selection: str) -> dict[str, list[str]]:
        experiment = self.plan.settings_of_database(selection)
        return {
            "records": [place for _, _, place in manifest_places.database_manifests(experiment)]
        }

    _inputs_of_database_of_selection = _inputs_of_database

    def _inputs_of_table(self, table: str) -> dict[str, list[str]]:
        return {"database": _database_manifest(self.plan.database_path_of_output("table", table))}

    def _inputs_of_figure(self, figure: str) -> dict[str, list[str]]:
        return {"database": _database_manifest(self.plan.database_path_of_output("figure", figure))}

    def _inputs_of_article(self, _: str) -> dict[str, list[str]]:
        shown = self.plan.paper_table_and_figure_names
        return {
            "tables": self._manifest_paths("table", [n for n in shown if n in self.plan.tables]),
            "figures": self._manifest_paths("figure", [n for n in shown if n in self.plan.figures]),
        }

    def _inputs_of_report(self, _: str) -> dict[str, list[str]]:
        return {
            "database": _database_manifest(self.plan.report_database_files().database),
            "tables": self._manifest_paths("table", self.plan.tables),
            "figures": self._manifest_paths("figure", self.plan.figures),
        }

    def task_source_arguments(self, wildcards: Wildcards) -> list[str]:
        """Arguments that say where a downstream task's data set comes from."""
        values = self.plan.section_entry("tasks", wildcards.task)
        revision = ["--revision", values["revision"]] if "revision" in values else []
        own = [f"{split}={path}" for split, path in values.get("files", {}).items()]
        return [*revision, *(["--from", *own] if own else [])]

    @attach_signature
    def run_arguments(self, wildcards: Wildcards, input: Mapping[str, list[str]]) -> list[str]:
        """Arguments that name a run's corpora, and what other runs left for it."""
        result = ["--corpora", self.corpora_folder(wildcards)]
        for manifest in input.get("reference", ()):
            result += ["--reference", str(Path(manifest).parent)]
        for mixture in input.get("mixture", ()):
            result += ["--mixture", str(mixture)]
        return result

    @attach_signature
    def corpora_folder(self, wildcards: Wildcards) -> str:
        """Folder of the corpora of a run's tokenizer."""
        tokenizer = self.plan.section_entry("runs", wildcards.run)["tokenizer"]
        return f"{self.plan.results}/corpora/{tokenizer}"

    def _corpus_manifests(self, run: str, domains: Iterable[str]) -> list[str]:
        tokenizer = self.plan.section_entry("runs", run)["tokenizer"]
        return self._manifest_paths("pack", (f"{tokenizer}/{domain}" for domain in domains))


def _database_manifest(database: str) -> list[str]:
    return [str(made_from.manifest_beside(Path(database)))]


def _expand_or_keep_patterns(patterns: Iterable[str]) -> list[str]:
    """The files that fit; a pattern that fits none stands for itself, and is told as missing."""
    return [path for one in patterns for path in file_patterns.files_of_pattern(one) or [one]]
