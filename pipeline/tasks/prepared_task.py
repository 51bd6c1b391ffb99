"""A fetched task made ready to be asked, and which solved questions stand in front of it.

For English tasks these are the first of OLMES's curated lists, found by id in the training split;
seven is the most that all four lists have. Translated HellaSwag has no training split: there they
are rows behind the asked ones, of other articles and videos, in the order of a hash. No random
generator takes part, so that no library's version can change them.
"""

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pike_mixing.errors import InputError
from pike_mixing.setting_limits import Limits, NonNegativeInt, PositiveInt
from pipeline.runtime import atomic_files, manifests
from pipeline.runtime.programs import program_command
from pipeline.tasks import task_definitions
from pipeline.tasks.task import (
    Formulation,
    Prompt,
    Record,
    Row,
    Task,
    join_prompt,
    make_demonstration,
    make_prompt,
)

DEMONSTRATIONS = "demonstrations"
"""Name of the file that holds the curated demonstrations' records, in the list's order."""
SALT = "pike-demos-v1"


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What all ways to ask some tasks share."""

    split: str | None = None
    """Split to ask; absent: the task's own (validation)."""
    items: PositiveInt | None = None
    """So many rows, the first of the split; absent: the task's own number."""
    document_start: bool = True
    """Whether the end-of-document token stands in front, as it does between packed documents."""
    overflow: Literal["drop", "refuse"] = "drop"
    """When a prompt is longer than the model's rows: drop whole demonstrations, the first ones
    first, or refuse to go on. The question itself is never cut."""
    demonstrations_seed: NonNegativeInt = 0
    """Seed of the order of demonstrations where there is no curated list."""
    leave_out: Annotated[tuple[str, ...], Limits(distinct=True)] = ()
    """Places of rows that cannot be asked, as messages name them: "val:17". No others take their
    turn."""


@dataclass(frozen=True)
class TaskSpec(TaskOptions):
    """One way to ask one task."""

    task: str
    """Name of the task: arc_easy, csqa, hellaswag, piqa, hellaswag_en, hellaswag_hi, ..."""
    shots: NonNegativeInt
    """Demonstrations in front of every question."""
    formulation: Formulation
    """cf scores a text that is not shown, mcf a letter, hyb a text that is shown."""

    @property
    def label(self) -> str:
        """How messages call it: "piqa, 7-shot, cf"."""
        return f"{self.task}, {self.shots}-shot, {self.formulation}"


@dataclass(frozen=True)
class PreparedTask:
    """The rows of a task and the demonstrations that stand before each of them."""

    task: Task
    spec: TaskSpec
    rows: list[Row]
    demonstrations: list[Row]
    """In their order."""

    @functools.cached_property
    def prompts_without_demonstrations(self) -> list[Prompt]:
        """The question about each row, demonstrations left out."""
        return [make_prompt(row, self.task.style, self.spec.formulation) for row in self.rows]

    @functools.cached_property
    def demonstration_texts(self) -> list[str]:
        formulation = self.spec.formulation
        return [
            make_demonstration(row, self.task.style, formulation) for row in self.demonstrations
        ]

    @property
    def chance_percent(self) -> float:
        """Accuracy in percent of guessing, whose options are as many as each row has."""
        return 100 * sum(1 / len(row.options) for row in self.rows) / len(self.rows)

    def manifest_facts(self) -> dict[str, Any]:
        return {
            "items": len(self.rows),
            "clusters": len({row.cluster for row in self.rows}),
            "origins": dict(sorted(Counter(row.origin for row in self.rows if row.origin).items())),
            "chance": self.chance_percent,
            "demonstrations": [row.key for row in self.demonstrations],
            "sha256": self.sha256(),
        }

    def sha256(self) -> str:
        """Identity of everything that is asked: prompts, candidates, demonstrations, gold."""
        digest = hashlib.sha256()
        for row, prompt in zip(self.rows, self.prompts_without_demonstrations, strict=True):
            text = join_prompt(self.demonstration_texts, prompt.context)
            identity = [row.id, text, *prompt.candidates, prompt.unconditional, row.gold]
            digest.update(atomic_files.canonical_json(identity).encode() + b"\n")
        return digest.hexdigest()


def prepare_task(tasks_folder: Path, spec: TaskSpec) -> PreparedTask:
    """Rows and demonstrations of a task that was fetched to a folder of its own in `tasks_folder`.

    Raises:
        InputError: the task is unknown, not fetched, damaged, of another schema or without labels;
            or there are too few demonstrations.
    """
    task = task_definitions.find_task(spec.task)
    split, known = spec.split or task.split, (task.split, *task.further_splits)
    if split not in known:
        told = ", ".join(known)
        raise InputError(f"{spec.label}: there is no split {split!r} to ask (splits: {told})")
    place = tasks_folder / task.name
    manifest = _read_task_manifest(place, task)
    records = read_task_records(place, split, manifest)
    count = min(spec.items or task.items or len(records), len(records))
    rows = list(_rows_of_records(task, split, records, range(count), spec.leave_out))
    if not rows:
        raise InputError(f"{spec.label}: no row of {split} is left to ask: shorten leave_out")
    twins = [name for name, times in Counter(row.id for row in rows).items() if times > 1]
    if twins:
        raise InputError(f"{spec.label}: {twins[0]!r} names more than one row: fetch it anew")
    if task.curated:
        solved = read_task_records(place, DEMONSTRATIONS, manifest)
        candidates = list(_rows_of_records(task, DEMONSTRATIONS, solved, range(len(solved))))
    else:
        behind = range(count, len(records))
        others = list(_rows_of_records(task, split, records, behind, spec.leave_out))
        candidates = demonstration_candidates(task, rows, others, spec.demonstrations_seed)
    demonstrations = candidates[: spec.shots]
    refuse_unfit_demonstrations(task, rows, demonstrations, spec.shots)
    return PreparedTask(task, spec, rows, demonstrations)


def read_task_records(task_folder: Path, name: str, manifest: Mapping[str, Any]) -> list[Record]:
    """The records of one file, without its suffix, of a fetched task, whose manifest lists it."""
    path = task_folder / f"{name}.jsonl"
    remake = f"fetch it anew with `{program_command('pike')} fetch {task_folder.name}`"
    listed = manifest["files"].get(path.name)
    if listed is None or not path.is_file():
        raise InputError(f"{path} does not exist: {remake}")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != listed["sha256"]:
        raise InputError(f"{path} does not have the SHA-256 that its manifest lists: {remake}")
    return [json.loads(line) for line in content.splitlines()]


def _read_task_manifest(task_folder: Path, task: Task) -> Mapping[str, Any]:
    path = task_folder / atomic_files.MANIFEST
    if not path.is_file():
        raise InputError(
            f"{path} does not exist: {task.name} was not fetched; do it with "
            f"`{program_command('pike')} fetch {task.name} --out {task_folder.parent}`"
        )
    result = manifests.read_manifest(path, "fetch", "fetch it anew")
    if result["task"] != task.name:
        raise InputError(f"{path} is not the manifest of {task.name}: fetch it anew")
    return result


def _rows_of_records(
    task: Task,
    split: str,
    records: Sequence[Record],
    record_indices: Iterable[int],
    places_left_out: Sequence[str] = (),
) -> Iterator[Row]:
    for index in record_indices:
        if (place := f"{split}:{index}") not in places_left_out:
            try:
                yield task.row(records[index], place)
            except InputError as error:
                raise InputError(f"{task.name} {error}") from None


def demonstration_candidates(
    task: Task, asked_rows: Sequence[Row], unasked_rows: Sequence[Row], seed: int
) -> list[Row]:
    """Those of the unasked rows that may be demonstrations, in the order of a hash.

    Rows of an asked row's article or video may not. The task gives the language, which enters the
    hash, as the seed does.
    """
    taken = {row.cluster for row in asked_rows}

    def sort_key(row: Row) -> str:
        text = f"{SALT}|{task.language}|{seed}|{row.key}"
        return hashlib.sha256(text.encode()).hexdigest()

    return sorted((row for row in unasked_rows if row.cluster not in taken), key=sort_key)


def refuse_unfit_demonstrations(
    task: Task, asked: Sequence[Row], demonstrations: Sequence[Row], shots: int
) -> None:
    """Raises InputError where they are fewer than `shots`, or one of them is asked."""
    if shots > len(demonstrations):
        raise InputError(
            f"{task.name}: {shots} shots were asked for, but there are {len(demonstrations)} "
            "demonstrations: lower shots" + ("" if task.curated else ", or items")
        )
    questions = {row.query for row in asked}
    for row in demonstrations:
        if row.query in questions:
            raise InputError(
                f"{task.name}: the demonstration {row.key!r} is also an evaluated question: "
                "evaluate another split"
            )
