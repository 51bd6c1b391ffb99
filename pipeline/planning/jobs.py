"""Every job of an experiment with what it takes.

Jobs that train nothing are bounded by rates, generously: a job that asks for too much waits a
little longer, one that asks for too little is killed and tried again.
"""

import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pike_mixing.settings import unknown_name_message
from pipeline.planning import planner, resources, rule_inputs
from pipeline.planning.plan import Plan
from pipeline.planning.profile import TRAINS
from pipeline.runtime import made_from, manifests, model_folders
from pipeline.runtime.accelerators import Accelerator
from pipeline.runtime.atomic_files import MANIFEST

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
SECONDS = {"fetch": 300.0, "mixture": 300.0, "database": 600.0, "table": 60.0}
SECONDS |= {"figure": 120.0, "article": 60.0, "report": 120.0, "theory": 60.0}
DISK_BYTES = dict.fromkeys(("mixture", "probe", "table", "figure", "theory"), 2**20)
DISK_BYTES |= {"fetch": 2**26, "article": 2**20, "report": 2**22}
"""Seconds and bytes on disk of rules whose jobs all take about the same."""
EMPTY_DATABASE, UNTRAINED_TOKENIZER = 2**23, 2**25
"""Bytes of a database without runs, and of a tokenizer that is given, at most."""
SMALL_SOURCE = 50_000_000
"""Bytes of a source that says nothing of its size, and has no files here."""
COMPRESSED, UNPACKED = (".gz", ".zst", ".parquet"), 4
"""Files that hold more text than their own size, and how many times more."""

MOST_MEMORY = 3
"""Times its memory that a job asks for at most: tries also count the slices of a time limit."""

JobKey = tuple[str, str]
"""A rule and the name of what it makes."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One job of the workflow."""

    seconds: float
    """Wall time."""
    host_bytes: int
    disk_bytes: int
    devices: int = 0
    """Accelerators, or CPU cores in their place, that it trains or evaluates on."""
    threads: int = 1
    """Threads with which it takes so long; with fewer it takes longer."""

    def memory_mb(self, attempt: int) -> int:
        """Host memory, in MB, that the try of a number from 1 on asks for."""
        return min(attempt, MOST_MEMORY) * math.ceil(self.host_bytes / 1e6)


@dataclasses.dataclass(frozen=True, eq=False)
class Jobs:
    """The jobs of a plan on one kind of device."""

    plan: Plan
    device: Accelerator
    processes: int = 1
    """How many are asked to train a run together."""
    targets: tuple[str, ...] = ()
    """Files whose jobs alone are counted, with all that these need; empty: all of the plan."""

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def job(self, rule: str, name: str = "") -> Job:
        """What one job takes; `name` is that of the source, run, mixture, table ... it makes."""
        ways: dict[str, Callable[[str], Job]] = {
            "pretrain": self._pretrain_job,
            "evaluate": self._evaluate_job,
            "probe": self._probe_job,
            "tokenizer": self._tokenizer_job,
            **dict.fromkeys(("database", "database_of_selection"), self._database_job),
        }
        if rule in ways:
            return ways[rule](name)
        memory = MEMORY.get(rule, GATHERING_MEMORY) * 2**30
        if rule in RATES:
            source = name.rpartition("/")[2]
            size = self._text_bytes(source)
            values = self.plan.section_value("sources", source)
            threads = planner.packing_processes(values) if rule == "pack" else 1
            return Job(size / RATES[rule] / threads, memory, size, threads=threads)
        return Job(SECONDS[rule], memory, DISK_BYTES[rule])

    def _text_bytes(self, source: str) -> int:
        """Bytes of a source's text: as its settings say, or what its files hold."""
        if stated := planner.text_bytes(self.plan.section_value("sources", source)):
            return stated
        paths = map(Path, rule_inputs.RuleInputs(self.plan).job_inputs("download", source).given)
        held = (
            path.stat().st_size * (UNPACKED if path.suffix in COMPRESSED else 1)
            for path in paths
            if path.is_file()
        )
        return sum(held) or SMALL_SOURCE

    def counted_keys(self) -> Iterator[JobKey]:
        """All jobs that are counted, in the order of the data's way.

        Of the whole plan, these are all but the databases of some runs alone. The theory, which
        takes seconds, and runs that are refused have none.
        """
        return (
            (rule, name)
            for rule, names in self.plan.names_by_rule().items()
            if rule != "theory" and (self.targets or rule != "database_of_selection")
            for name in names
            if not self.targets or (rule, name) in self._needed_jobs
            if not (rule in TRAINS and self.refusal(name))
        )

    def trained_runs(self) -> list[str]:
        """Runs that are trained, refused ones among them."""
        return [
            r for r in self.plan.runs if not self.targets or ("pretrain", r) in self._needed_jobs
        ]

    @functools.cached_property
    def _needed_jobs(self) -> set[JobKey]:
        """The jobs of the targets and all that these stand on.

        Raises:
            InputError: nothing makes a target.
        """
        plan, reads = self.plan, rule_inputs.RuleInputs(self.plan)
        makers = {
            plan.manifest(r, n): (r, n) for r, names in plan.names_by_rule().items() for n in names
        }

        def find_maker(at: Path) -> JobKey | None:
            # A file is made by the job whose manifest is beside it, or in the next folder with one.
            places = [at, made_from.manifest_beside(at), at.with_suffix(".json")]
            places += [folder / MANIFEST for folder in (at, *at.parents)]
            return next((makers[str(place)] for place in places if str(place) in makers), None)

        def maker(path: str) -> JobKey:
            at = Path(os.path.normpath(path))
            if found := find_maker(at):
                return found
            files = [f"{plan.results}/tables/{name}.md" for name in plan.tables]
            files += [f"{plan.results}/figures/{name}.svg" for name in plan.figures]
            # The same in the experiment's own folder, or what has the name that was given.
            own = [Path(plan.results, *at.parts[n:]) for n in range(len(at.parts))]
            near = [str(file) for file in own if find_maker(file)]
            near += [file for file in files if Path(file).stem == at.stem]
            where = f"target of {plan.origin}"
            if near:
                raise InputError(f"{where}: nothing makes {str(at)!r}: did you mean {near[0]!r}?")
            raise InputError(unknown_name_message(str(at), files, where))

        waiting, result = [maker(target) for target in self.targets], set[JobKey]()
        while waiting:
            job = waiting.pop()
            if job not in result:
                result.add(job)
                waiting += map(maker, reads.job_inputs(*job).paths())
        return result

    def refusal(self, run: str) -> str | None:
        """Why a run is not trained on such devices; None where it is."""
        taken, values = self.training_estimate(run), self.plan.section_value("runs", run)
        named, shape = f"run {run}: model {values['model_name']}", values["model"]
        if architecture := shape.get("architecture"):
            longest = architecture.get("max_position_embeddings")
            if problems := model_folders.training_problems(
                values["training"], longest, compiles=self.device.is_tpu
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

    def unsized_tokenizers(self) -> list[str]:
        """Tokenizers whose size is not known yet."""
        return [name for name in self.plan.tokenizers if self._known_vocabulary_size(name) is None]

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def _known_vocabulary_size(self, tokenizer: str) -> int | None:
        values = self.plan.section_value("tokenizers", tokenizer)
        made, path = Path(self.plan.results, "tokenizers", f"{tokenizer}.json"), values.get("path")
        # One that is missing or damaged is made.
        with contextlib.suppress(InputError):
            return int(manifests.read_manifest(made, "tokenizer")["vocabulary"])
        if path and Path(path).is_file():
            # No other plan needs SentencePiece.
            from pipeline.data.tokenizer import embedding_rows_of_file

            return embedding_rows_of_file(Path(path))
        return values.get("vocabulary") or KNOWN_PIECES.get(values.get("repository", ""))

    def _settings_and_vocabulary(self, run: str) -> tuple[dict[str, Any], int]:
        values = self.plan.section_value("runs", run)
        return values, self.vocabulary_size(values["tokenizer"])

    @functools.cache  # noqa: B019 - one plan lives as long as its process
    def training_estimate(self, run: str) -> resources.ResourceEstimate:
        """What a run's training takes."""
        return resources.estimate_run(
            *self._settings_and_vocabulary(run), self.device, self.processes
        )

    def _pretrain_job(self, run: str) -> Job:
        taken = self.training_estimate(run)
        return Job(taken.seconds, taken.host_bytes, taken.disk_bytes, taken.devices)

    def _evaluate_job(self, run: str) -> Job:
        values, vocabulary = self._settings_and_vocabulary(run)
        wanted = self.plan.section_value("evaluations", run)
        memory, seconds, disk = resources.estimate_evaluation(
            values, wanted, vocabulary, self.device
        )
        return Job(seconds, memory, disk, 1)

    def _probe_job(self, run: str) -> Job:
        values, vocabulary = self._settings_and_vocabulary(run)
        wanted = self.plan.section_value("probes", run)
        memory, seconds = resources.estimate_probe(values, wanted, vocabulary, self.device)
        return Job(seconds, memory, DISK_BYTES["probe"], 1)

    @functools.cached_property
    def _database_bytes(self) -> int:
        """Bytes of the database of all runs, which those of some are smaller than."""
        evaluated = sum(self.job("evaluate", run).disk_bytes for run in self.plan.evaluations)
        return (
            EMPTY_DATABASE + sum(map(resources.record_bytes, self.plan.runs.values())) + evaluated
        )

    def _database_job(self, _: str) -> Job:
        return Job(SECONDS["database"], GATHERING_MEMORY * 2**30, self._database_bytes)

    def _tokenizer_job(self, tokenizer: str) -> Job:
        sources = self.plan.tokenizer_sources[tokenizer]
        characters = self.plan.tokenizers[tokenizer].get("characters", 0) * len(sources)
        memory = MEMORY["tokenizer"] * 2**30 + 200 * characters
        return Job(characters / LEARNT, memory, UNTRAINED_TOKENIZER + 4 * characters)
