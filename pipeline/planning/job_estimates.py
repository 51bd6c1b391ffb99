"""What each job of an experiment takes: those of runs by formulas, the others by rates.

Jobs that train nothing are bounded by rates, generously: a job that asks for too much waits a
little longer, one that asks for too little is killed and tried again.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message
from pipeline.planning import output_root, planner, rule_inputs, run_estimates
from pipeline.planning.plan import Plan, WorkName
from pipeline.planning.run_estimates import JobEstimate
from pipeline.planning.workflow_profile import TRAINS
from pipeline.runtime import manifests, model_folders
from pipeline.runtime.accelerators import Accelerator

ASSUMED_PIECES = 256_000
"""Vocabulary of a tokenizer file that is not there yet."""
KNOWN_PIECES = {"google/mt5-base": 250_100, "google-t5/t5-base": 32_000}
"""The same of the Hub's that the paper uses, by repository."""
MEMORY = {"download": 2, "tokenizer": 4, "pack": 3, "fetch": 2, "mixture": 2}
"""GiB of the jobs that prepare."""
GATHERING_MEMORY = 4
"""GiB of those that gather and show results."""
RATES, LEARNT = {"download": 2e6, "pack": 0.5e6}, 2e4
"""Bytes a second that are fetched, and that one thread tokenizes; characters it learns from."""
SECONDS = {"fetch": 300.0, "mixture": 300.0, "table": 60.0, "figure": 120.0}
SECONDS |= {"article": 60.0, "report": 120.0, "theory": 60.0}
SECONDS |= dict.fromkeys(("database", "database_of_selection"), 600.0)
DISK_BYTES = dict.fromkeys(("mixture", "table", "figure", "theory"), 2**20)
DISK_BYTES |= {"fetch": 2**26, "article": 2**20, "report": 2**22}
"""Seconds and bytes on disk of rules whose jobs all take about the same."""
EMPTY_DATABASE, UNTRAINED_TOKENIZER = 2**23, 2**25
"""Bytes of a database without runs, and of a tokenizer that is given, at most."""
SMALL_SOURCE = 50_000_000
"""Bytes of a source that says nothing of its size, and has no files here."""
ASKED_WITHOUT_TARGETS = ("table", "figure", "database", "article", "report")
"""Rules of which the workflow's rule `all` asks everything."""
COMPRESSED, UNPACKED = (".gz", ".zst", ".parquet"), 4
"""Files that hold more text than their own size, and how many times more."""


def _find_other_config_of_result(file: Path, own_results: str) -> str | None:
    """The configuration in whose results folder a file lies; None where there is no such folder.

    It is one of those that are shipped, or what that folder was begun with.
    """
    shipped = {}
    for path in sorted(planner.SHIPPED_CONFIGS.glob("*.yaml")):
        results = planner.read_config_file(path).get("results", "results")
        shipped[Path(os.path.normpath(results))] = str(path)
    for folder in file.parents:
        if folder == Path(os.path.normpath(own_results)):
            return None
        if folder in shipped:
            return shipped[folder]
        if root := output_root.read_root(folder):
            return " ".join(map(str, root.files))
    return None


@dataclasses.dataclass(frozen=True, eq=False)
class JobEstimates:
    """The jobs of a plan on one kind of device."""

    plan: Plan
    device: Accelerator
    processes: int = 1
    """How many are asked to train a run together."""
    targets: tuple[str, ...] = ()
    """Files whose jobs alone are counted, with all that these need; empty: all of the plan."""

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def estimate(self, rule: str, name: str = "") -> JobEstimate:
        """What one job takes; `name` is that of the source, run, mixture, table ... it makes."""
        plan, memory = self.plan, MEMORY.get(rule, GATHERING_MEMORY) * 2**30
        if rule == "pretrain":
            return self.training_estimate(name)
        if rule == "evaluate":
            asked = plan.section_entry("evaluations", name)
            return run_estimates.estimate_evaluation(
                *self._run_and_vocabulary_size(name), asked, self.device
            )
        if rule == "probe":
            asked = plan.section_entry("probes", name)
            return run_estimates.estimate_probe(
                *self._run_and_vocabulary_size(name), asked, self.device
            )
        if rule in RATES:
            source = name.rpartition("/")[2]
            size = self._text_bytes(source)
            values = plan.section_entry("sources", source)
            threads = planner.packing_processes(values) if rule == "pack" else 1
            return JobEstimate(size / RATES[rule] / threads, memory, size, threads=threads)
        if rule == "tokenizer":
            sources = plan.tokenizer_sources[name]
            characters = plan.tokenizers[name].get("characters", 0) * len(sources)
            disk = UNTRAINED_TOKENIZER + 4 * characters
            return JobEstimate(characters / LEARNT, memory + 200 * characters, disk)
        disk = self._database_bytes if rule.startswith("database") else DISK_BYTES[rule]
        return JobEstimate(SECONDS[rule], memory, disk)

    def _text_bytes(self, source: str) -> int:
        """Bytes of a source's text: as its settings say, or what its files hold."""
        if stated := planner.text_bytes_in_settings(self.plan.section_entry("sources", source)):
            return stated
        paths = map(Path, rule_inputs.RuleInputs(self.plan).job_inputs("download", source).given)
        held = (
            path.stat().st_size * (UNPACKED if path.suffix in COMPRESSED else 1)
            for path in paths
            if path.is_file()
        )
        return sum(held) or SMALL_SOURCE

    def counted_jobs_from_scratch(self) -> Iterator[WorkName]:
        """All jobs that are counted, made already or not, in the order of the data's way.

        Of the whole plan, these are all but the databases of some runs alone. The theory, which
        takes seconds, and runs that are refused have none.
        """
        for work in self.plan.work_names:
            if work.rule == "theory" or (work.rule in TRAINS and self.explain_refusal(work.name)):
                continue
            if work not in self._needed_jobs:
                continue
            if self.targets or work.rule != "database_of_selection":
                yield work

    def runs_to_train_even_if_refused(self) -> list[str]:
        """Runs that are trained, refused ones among them."""
        return [run for run in self.plan.runs if ("pretrain", run) in self._needed_jobs]

    @functools.cached_property
    def _needed_jobs(self) -> set[WorkName]:
        """The jobs of the targets, or of all results, and all that these stand on.

        Raises:
            InputError: nothing makes a target.
        """
        reads, result = rule_inputs.RuleInputs(self.plan), set[WorkName]()
        waiting = [self._maker_of_target_file(target) for target in self.targets]
        if not self.targets:
            waiting = [work for work in self.plan.work_names if work.rule in ASKED_WITHOUT_TARGETS]
        while waiting:
            if (job := waiting.pop()) not in result:
                result.add(job)
                read = reads.job_inputs(*job).made_paths()
                waiting += [self.plan.maker_by_manifest_or_tokenizer_path[path] for path in read]
        return result

    def _maker_of_target_file(self, target: str) -> WorkName:
        plan, at = self.plan, Path(os.path.normpath(target))
        if found := plan.find_maker(at):
            return found
        files = [f"{plan.results}/tables/{name}.md" for name in plan.tables]
        files += [f"{plan.results}/figures/{name}.svg" for name in plan.figures]
        # The same in the experiment's own folder, or what has the name that was given.
        own = [Path(plan.results, *at.parts[n:]) for n in range(len(at.parts))]
        near = [str(file) for file in own if plan.find_maker(file)]
        near += [file for file in files if Path(file).stem == at.stem]
        where = f"target of {plan.origin}"
        # Who named a configuration means its files.
        is_named = plan.origin != str(output_root.DEFAULT_CONFIG)
        if not (near and is_named) and (config := _find_other_config_of_result(at, plan.results)):
            raise InputError(f"{where}: {str(at)!r} is of {config}: type --config {config}")
        if near:
            raise InputError(f"{where}: nothing makes {str(at)!r}: did you mean {near[0]!r}?")
        raise InputError(unknown_name_message(str(at), files, where))

    def explain_refusal(self, run: str) -> str | None:
        """Why a run is not trained on such devices; None where it is."""
        taken, values = self.training_estimate(run), self.plan.section_entry("runs", run)
        named, shape = f"run {run}: model {values['model_name']}", values["model"]
        if architecture := shape.get("architecture"):
            longest = architecture.get("max_position_embeddings")
            if problems := model_folders.training_problems(
                values["training"], longest, is_xla_device=self.device.is_tpu
            ):
                return f"{named} is one of transformers: {'; '.join(problems)}"
        if taken.fits:
            return None
        how = "and it is not sharded or recomputed" if architecture else "sharded and recomputed"
        return (
            f"{named} takes {taken.device_bytes / 2**30:,.1f} GiB on each of {taken.devices} "
            f"{self.device.name}, which have {self.device.memory_bytes / 2**30:,.0f} GiB, {how}: "
            "lower training's microbatch_rows, or give pretrain more `processes` or another "
            "`accelerator`"
        )

    def vocabulary_size(self, tokenizer: str) -> int:
        """Pieces of a tokenizer: its own where it is made, else what its settings tell of it."""
        return self._known_vocabulary_size(tokenizer) or ASSUMED_PIECES

    def tokenizers_of_unknown_size(self) -> list[str]:
        """Tokenizers whose size is not known yet."""
        return [name for name in self.plan.tokenizers if self._known_vocabulary_size(name) is None]

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def _known_vocabulary_size(self, tokenizer: str) -> int | None:
        values = self.plan.section_entry("tokenizers", tokenizer)
        made, path = Path(self.plan.results, "tokenizers", f"{tokenizer}.json"), values.get("path")
        # One that is missing or damaged is made.
        with contextlib.suppress(InputError):
            return int(manifests.read_manifest(made, "tokenizer")["vocabulary"])
        if path and Path(path).is_file():
            # No other plan needs SentencePiece.
            from pipeline.data.tokenizer import embedding_row_count_of_file

            return embedding_row_count_of_file(Path(path))
        return values.get("vocabulary") or KNOWN_PIECES.get(values.get("repository", ""))

    def _run_and_vocabulary_size(self, run: str) -> tuple[dict[str, Any], int]:
        """A run's settings, and the vocabulary size of its tokenizer."""
        values = self.plan.section_entry("runs", run)
        return values, self.vocabulary_size(values["tokenizer"])

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def training_estimate(self, run: str) -> run_estimates.TrainingEstimate:
        """What a run's training takes."""
        return run_estimates.estimate_training(
            *self._run_and_vocabulary_size(run), self.device, self.processes
        )

    @functools.cached_property
    def _database_bytes(self) -> int:
        """Bytes of the database of all runs, which those of some are smaller than."""
        evaluated = sum(self.estimate("evaluate", run).disk_bytes for run in self.plan.evaluations)
        records = sum(map(run_estimates.all_step_records_bytes, self.plan.runs.values()))
        return EMPTY_DATABASE + records + evaluated
