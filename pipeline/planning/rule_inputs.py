"""What each rule of the workflow reads: paths and arguments, from a plan and a rule's wildcards.

Every function takes Snakemake's wildcards: an object with an attribute for each of them.
"""

import dataclasses
import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pipeline.planning import plan
from pipeline.planning.plan import Plan, Settings
from pipeline.runtime import file_patterns
from pipeline.runtime.atomic_files import MANIFEST

Wildcards = Any
F = TypeVar("F", bound=Callable[..., Any])

_RUN = "/".join([*["[a-z0-9-]+"] * 3, "seed[0-9]+"])
WILDCARDS = {
    **dict.fromkeys(("source", "tokenizer", "selection", "table", "figure"), "[a-z0-9-]+"),
    **dict.fromkeys(("run", "mixture"), _RUN),
    "task": "[a-z0-9_]+",
}
"""What the wildcards of all rules match."""


def files_of(settings: Settings | None) -> list[str]:
    """Paths or patterns of the user's own files that a source or tokenizer reads."""
    asked = settings or {}
    named = [asked.get(key) or [] for key in ("files", "validation_files", "path")]
    return [path for one in named for path in ([one] if isinstance(one, str) else one)]


def asked_often(function: F) -> F:
    """A function whose signature is at hand: Snakemake asks for it before each of many calls."""
    vars(function)["__signature__"] = inspect.signature(function)
    return function


def shell_prefix(folder: str) -> str:
    """What stands before each job's command: Python finds its modules in `folder` first.

    The prefix is a format to Snakemake: braces of its own are doubled.
    """
    prefix = f"export PYTHONPATH={shlex.quote(folder)}" + '"${PYTHONPATH:+:$PYTHONPATH}"; '
    return prefix.replace("{", "{{").replace("}", "}}")


@dataclasses.dataclass(frozen=True)
class RuleInputs:
    """What the rules of a plan read."""

    plan: Plan

    def source_files(self, wildcards: Wildcards) -> list[str]:
        """The user's own files that a source reads; none for one that reads no files."""
        return _matching(files_of(self.plan.named("sources", wildcards.source)))

    def tokenizer_file(self, wildcards: Wildcards) -> list[str]:
        """The user's own SentencePiece model; none for a tokenizer that is trained."""
        return files_of(self.plan.named("tokenizers", wildcards.tokenizer))

    def tokenizer_documents(self, wildcards: Wildcards) -> list[str]:
        """Manifests of the sources that a tokenizer is trained on."""
        sources = self.plan.tokenizer_sources[wildcards.tokenizer]
        return [f"{self.plan.results}/data/{source}/{MANIFEST}" for source in sources]

    def decontamination_tasks(self, wildcards: Wildcards) -> list[str]:
        """Manifests of fetched tasks whose items no corpus may hold."""
        named = [p.removeprefix(self._tasks) for p in self._unwanted if self._fetched(p)]
        return [f"{self._tasks}{name.partition('/')[0]}/{MANIFEST}" for name in named]

    def decontamination_files(self, wildcards: Wildcards) -> list[str]:
        """The user's own files of evaluation items that no corpus may hold."""
        return _matching(p for p in self._unwanted if not self._fetched(p))

    def task_files(self, wildcards: Wildcards) -> list[str]:
        """The user's own files of a downstream task's data set; none where it is fetched."""
        return list(self.plan.named("tasks", wildcards.task).get("files", {}).values())

    def task_arguments(self, wildcards: Wildcards) -> list[str]:
        """Arguments that say where a downstream task's data set comes from."""
        values = self.plan.named("tasks", wildcards.task)
        revision = ["--revision", values["revision"]] if "revision" in values else []
        own = [f"{split}={path}" for split, path in values.get("files", {}).items()]
        return [*revision, *(["--from", *own] if own else [])]

    def run_settings(self, wildcards: Wildcards) -> Settings:
        """The explicit settings of a run."""
        return self.plan.named("runs", wildcards.run)

    @asked_often
    def run_inputs(self, wildcards: Wildcards) -> dict[str, Any]:
        """What a run reads: manifests of corpora, and what other runs left for it, by name."""
        plan, run = self.plan, wildcards.run
        found: dict[str, Any] = {
            "corpora": self._corpora(wildcards, self.run_settings(wildcards)["domains"])
        }
        if run in plan.references:
            found["reference"] = f"{plan.run_folder(plan.references[run])}/{MANIFEST}"
        if run in plan.found:
            found["mixture"] = f"{plan.results}/mixtures/{plan.found[run]}.json"
        return found

    @asked_often
    def run_arguments(self, wildcards: Wildcards, input: Mapping[str, Any]) -> list[str]:
        """Arguments that name a run's corpora, and what other runs left for it."""
        reference, mixture = input.get("reference"), input.get("mixture")
        found = ["--corpora", self.corpora_folder(wildcards)]
        found += ["--reference", str(Path(reference).parent)] if reference else []
        return [*found, *(["--mixture", str(mixture)] if mixture else [])]

    @asked_often
    def corpora_folder(self, wildcards: Wildcards) -> str:
        """Folder of the corpora of a run's tokenizer."""
        return f"{self.plan.results}/corpora/{self.run_settings(wildcards)['tokenizer']}"

    @asked_often
    def evaluation_inputs(self, wildcards: Wildcards) -> dict[str, Any]:
        """What the evaluation of a run reads beside the run, by name.

        The run's own manifest stands for the corpora that it trained on.
        """
        plan, run = self.plan, wildcards.run
        values = self.run_settings(wildcards)
        further = [d for d in plan.read_domains(run) if d not in values["domains"]]
        return {
            "tokenizer": f"{plan.results}/tokenizers/{values['tokenizer']}.model",
            "corpora": self._corpora(wildcards, further),
            "tasks": [f"{self._tasks}{task}/{MANIFEST}" for task in plan.asked_tasks([run])],
        }

    def mixture_proxies(self, wildcards: Wildcards) -> list[str]:
        """Manifests of the runs that a mixture is found from, and of their evaluations."""
        proxies = self.plan.named("mixtures", wildcards.mixture)["proxies"]
        return [
            f"{proxy['folder']}/{part}{MANIFEST}"
            for proxy in proxies.values()
            for part in ("", "evaluations/")
        ]

    def records(self, runs: Iterable[str], *, trained: bool = True) -> list[str]:
        """Manifests of all that the database of these runs is built from (`Plan.experiment`)."""
        experiment = self.plan.experiment(list(runs), trained=trained)
        parts = {"": "trained", "evaluations/": "evaluations", "probes/": "probes"}
        folders = [
            *(
                f"{run['folder']}/{part}".rstrip("/")
                for run in experiment["runs"].values()
                for part, wanted in parts.items()
                if run[wanted]
            ),
            *(folder for folder in [experiment["theory"]] if folder),
            *(f for kind in ("corpora", "sources", "tasks") for f in experiment[kind].values()),
        ]
        files = [*experiment["mixtures"].values(), *experiment["tokenizers"].values()]
        return [*(f"{folder}/{MANIFEST}" for folder in folders), *files]

    def selection_records(self, wildcards: Wildcards) -> list[str]:
        """The same, for the runs that some tables or figures need."""
        name = wildcards.selection
        trained = plan.is_trained(name)
        return self.records(self.plan.named_selection(name), trained=trained)

    def selection_settings(self, wildcards: Wildcards) -> list[Any]:
        """What a database of some runs shows: their settings, all methods, who is compared."""
        chosen = self.plan.named_selection(wildcards.selection)
        named = [self.plan.config.get(section) for section in ("compare", "paper")]
        return [list(self.plan.config["methods"]), *named, {r: self.plan.runs[r] for r in chosen}]

    @property
    def _tasks(self) -> str:
        return f"{self.plan.results}/tasks/"

    @property
    def _unwanted(self) -> list[str]:
        hygiene = self.plan.config["packing"].get("hygiene", {})
        return files_of(hygiene.get("decontaminate", {}))

    def _fetched(self, pattern: str) -> bool:
        return pattern.startswith(self._tasks)

    def _corpora(self, wildcards: Wildcards, domains: Iterable[str]) -> list[str]:
        folder = self.corpora_folder(wildcards)
        return [f"{folder}/{domain}/{MANIFEST}" for domain in domains]


def _matching(patterns: Iterable[str]) -> list[str]:
    """The files that fit; a pattern that fits none is Snakemake's to report, before a job."""
    return [path for one in patterns for path in file_patterns.files(one) or [one]]
