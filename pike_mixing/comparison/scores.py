"""Scores of runs on items, from whatever source, and the two sides of a comparison paired by item.

Shapes: R runs of one side, I items that all runs have, G documents.
"""

import hashlib
import json
import os
from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError, names_text

MOST = 1e100
"""Scores beyond it have no finite squares."""


@dataclass(frozen=True)
class Reading:
    """What is read of files, and how: the options of the command line."""

    metrics: Sequence[str] = ()
    tasks: Sequence[str] = ()
    higher: Sequence[str] | None = None
    """Metrics or tasks that are better when higher; every one when empty."""
    lower: Sequence[str] | None = None
    cluster: str | None = None
    """Field of a document by which those made from one text are one."""
    same_document: bool = False
    """Leaves the prompt out of what identifies an item."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of a table with other names, by what they are: `item=question_id`."""
    evaluations: str | None = None
    """What several evaluations of one model's name are: `evaluations.RUNS` or `REPEATS`."""


@dataclass(frozen=True)
class Run:
    """One evaluated model of one side."""

    side: str
    name: str
    seed: str | None = None
    """What it was trained with: sides whose seeds are the same are paired by them."""


@dataclass(frozen=True)
class Log:
    """One file of a harness: the scores of one task from one evaluation."""

    path: Path
    given: Path
    """The file or folder that the command line names, in which it was found."""
    folder: Path
    """The folder of the model, where its other logs lie."""
    task: str
    date: str
    """Text that sorts the evaluations of one folder by time."""
    model: str | None
    """What the log says of the weights that were evaluated; None where it says nothing."""
    side: str

    @property
    def provisional_run(self) -> Run:
        """The run that its scores are added to before evaluations are told apart."""
        return Run(self.side, str(self.path))


@dataclass
class Column:
    """Scores of one metric of one task, of all runs."""

    task: str
    metric: str
    higher: bool | None = None
    """Whether a higher score is better; None where nothing says so."""
    items: dict[Hashable, int] = field(default_factory=dict)
    """The place of each item by what identifies it."""
    item_clusters: list[Hashable] = field(default_factory=list)
    """Of each item: the document that it was made from."""
    item_weights: "array[float]" = field(default_factory=lambda: array("d"))
    """Of each item in the mean: how many tokens its score is the mean of."""
    rows_by_run: "dict[Run, tuple[array[int], array[float]]]" = field(default_factory=dict)
    """Places and scores of the rows of each run."""

    def append_score_row(
        self, run: Run, item: Hashable, score: float, *, weight: float = 1.0, cluster: Hashable,
        message_prefix: object,
    ) -> None:  # fmt: skip
        """Adds a run's score of an item, which all runs weigh and cluster alike.

        A second score of the item is added, too: `pair_runs` refuses it.

        Raises:
            InputError: another row gave the item another weight or document.
        """
        place = self.items.setdefault(item, len(self.items))
        if place == len(self.item_weights):
            self.item_weights.append(weight)
            self.item_clusters.append(cluster)
        elif self.item_weights[place] != weight:
            raise InputError(
                f"{message_prefix}: {self.task}: item {item_name(item)} has the weight {weight:g}, "
                f"elsewhere {self.item_weights[place]:g}: scores by token of different tokenizers "
                "cannot be compared: take scores by byte or by word"
            )
        elif self.item_clusters[place] != cluster:
            raise InputError(
                f"{message_prefix}: {self.task}: item {item_name(item)} is of document {cluster}, "
                f"elsewhere of {self.item_clusters[place]}: give one document to each item"
            )
        if run not in self.rows_by_run:
            self.rows_by_run[run] = array("q"), array("d")
        places, scores = self.rows_by_run[run]
        places.append(place)
        scores.append(score)

    def average_runs(self, runs: Sequence[Run], into: Run) -> None:
        """Puts one run in the place of several, with the mean score of each item.

        Items that one of them lacks are left out; runs without the task count for nothing.
        """
        having = [run for run in runs if run in self.rows_by_run]
        if having:
            mean_I = _score_matrix(self, having).mean(axis=0)
            for run in having:
                del self.rows_by_run[run]
            place_I = np.flatnonzero(np.isfinite(mean_I))
            self.rows_by_run[into] = (
                array("q", place_I.tolist()),
                array("d", mean_I[place_I].tolist()),
            )


WEIGHTS = ("pretrained", "model", "model_name", "model_path", "path", "engine")
"""Arguments of harnesses' models that name the weights."""
WHICH = (
    "peft",
    "delta",
    "lora_local_path",
    "adapter_weights",
    "subfolder",
    "gguf_file",
    "base_url",
)
"""Arguments that say which weights of that name."""


def model_weights_text(
    arguments: Mapping[str, Any], revision: object = None, sha: object = ""
) -> str:
    """What a harness's arguments for its model say of the weights; empty where they say nothing.

    The revision is that of a model on the hub, where the arguments do not have it; sha is its
    commit.
    """
    found = {name: arguments.get(name) for name in WEIGHTS}
    # out/ and ./out are one folder.
    found = {n: os.path.normpath(v) if isinstance(v, str) and v else v for n, v in found.items()}
    if not any(found.values()):
        return ""
    found |= {name: arguments.get(name) for name in WHICH}
    revision = arguments.get("revision") or revision
    found |= {"revision": None if revision == "main" else revision, "sha": sha}
    return ", ".join(f"{name}={value}" for name, value in found.items() if value)


def bare_metric_name(metric: str) -> str:
    """A metric's name without its filter and unit."""
    return metric.split(",")[0].split(" (")[0]


def hash_item(value: object) -> str:
    """What tells an item from others, made of whatever a log has of it."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def item_name(item: Hashable) -> str:
    """An item's name in messages."""
    return str(item[0]) if isinstance(item, tuple) else str(item)


def cluster_key(source: str, fields: object, name: str) -> str:
    """What items made from one text share: a field of what a log has of their document.

    Raises:
        InputError: there is no such field.
    """
    known = fields if isinstance(fields, dict) else {}
    if name not in known:
        raise InputError(
            f"{source}: --cluster: the document has no field {name!r}: it has "
            f"{', '.join(known) or 'none'}"
        )
    return json.dumps(known[name], sort_keys=True, default=repr)


@dataclass
class Scores:
    """All that was read, by task and metric."""

    reading: Reading = field(default_factory=Reading)
    columns: dict[tuple[str, str], Column] = field(default_factory=dict)
    facts: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """By task and name of a fact that runs must share: a run with each value."""
    notes: list[str] = field(default_factory=list)
    unread_tasks: dict[str, None] = field(default_factory=dict)
    """Names of tasks that were there and not asked for."""
    unread_metrics: dict[str, dict[str, None]] = field(default_factory=dict)
    """By task the names of metrics that were there and not asked for."""
    logs: dict[Path, Log] = field(default_factory=dict)
    """By resolved path, each log that was read (`merge_logs_of_each_evaluation`)."""

    def add_log(self, log: Log) -> Run:
        """Notes a log; returns the run that its scores are added to.

        Raises:
            InputError: it was given before.
        """
        before = self.logs.setdefault(log.path.resolve(), log)
        if before is not log:
            where = "on both sides" if {log.side, before.side} == {"A", "B"} else "given twice"
            raise InputError(f"{log.path} is {where}: give each run once, to one side")
        return log.provisional_run

    def needs_task_else_notes_it(self, task: str) -> bool:
        """Whether a task is asked for, as all are where none is named; else it is noted."""
        if self.reading.tasks and task not in self.reading.tasks:
            self.unread_tasks[task] = None
            return False
        return True

    def needs_metric_else_notes_it(self, task: str, metric: str) -> bool:
        """Whether a metric is asked for, as all are where none is named; else it is noted."""
        wanted = {bare_metric_name(name) for name in self.reading.metrics}
        if wanted and bare_metric_name(metric) not in wanted:
            self.unread_metrics.setdefault(task, {})[metric] = None
            return False
        return True

    def note_left_out(self, task: str, metric: str, why: str) -> None:
        """Notes a metric that cannot be compared, once."""
        note = f"{task}: {metric} is left out: it is no mean over items ({why})"
        self.notes += [] if note in self.notes else [note]

    def all_notes(self) -> list[str]:
        """What is said of metrics that were left out, and of tasks without any that is wanted."""
        read = {task for task, _ in self.columns}
        lacking = {task: names for task, names in self.unread_metrics.items() if task not in read}
        said = [f"{task} (has {', '.join(names)})" for task, names in lacking.items()]
        if not said:
            return self.notes
        return [*self.notes, f"without these metrics, and left out: {names_text(said, most=5)}"]

    def error_with_notes(self, message: str) -> InputError:
        """An error with what was noted behind it."""
        return InputError("; ".join([message, *self.all_notes()]))

    def find_or_add_column(self, task: str, metric: str, higher_if_unknown: bool | None) -> Column:
        """The column of a task and metric, made when it is first asked for."""
        made = self.columns.setdefault((task, metric), Column(task, metric))
        made.higher = higher_if_unknown if made.higher is None else made.higher
        return made

    def note_fact(self, task: str, fact: str, value: object, source: object) -> None:
        """Notes what a run says about its task."""
        self.facts.setdefault((task, fact), {}).setdefault(str(value), str(source))

    def runs(self, side: str) -> list[Run]:
        """The runs of a side, in the order of their names."""
        found = {run for column in self.columns.values() for run in column.rows_by_run}
        return sorted((r for r in found if r.side == side), key=lambda run: (run.name, run.seed))


@dataclass(frozen=True)
class Paired:
    """One task: both sides on the items that all of their runs have."""

    task: str
    metric: str
    higher: bool
    value_AxI: Floats
    value_BxI: Floats
    weight_I: Floats
    document_I: Ints
    """Codes of the items' documents, the same in all tasks."""
    only_a: int
    only_b: int
    incomplete: int
    """Items of both sides that some run lacks."""

    @property
    def is_within_one(self) -> bool:
        """Whether all scores lie between 0 and 1."""
        return all(v.min() >= 0 and v.max() <= 1 for v in (self.value_AxI, self.value_BxI))

    @property
    def is_binary_and_unweighted(self) -> bool:
        """Whether all scores are 0 or 1, of items that weigh alike."""
        values = (self.value_AxI, self.value_BxI)
        whole = all(np.isin(value, (0.0, 1.0)).all() for value in values)
        return whole and bool((self.weight_I == 1).all())


def choose_one_column_per_task(scores: Scores) -> list[Column]:
    """One column of each task: the first of the metrics asked for that it has, or the only one.

    Raises:
        InputError: no scores were read, a task has several metrics and none was named, or a name
            is unknown.
    """
    metrics, tasks = scores.reading.metrics, scores.reading.tasks
    by_task: dict[str, dict[str, Column]] = {}
    for (task, metric), column in scores.columns.items():
        by_task.setdefault(task, {})[metric] = column
    if unknown := [task for task in tasks if task not in by_task]:
        there = ", ".join([*by_task, *scores.unread_tasks]) or "none"
        raise scores.error_with_notes(f"--tasks: no scores of {unknown[0]!r}: there are {there}")
    if not by_task:
        raise scores.error_with_notes("no scores were read: check --metric")
    result = []
    for task in tasks or sorted(by_task):
        known = by_task[task]
        # `exact_match` is `exact_match,strict-match` where no other filter is there.
        short = [
            [c for n, c in known.items() if one in (n, bare_metric_name(n))] for one in metrics
        ]
        named = [found[0] for found in short if len(found) == 1]
        if len(known) == 1 and not metrics:
            named = [*known.values()]
        if not named:
            raise InputError(
                f"{task}: its metrics are {', '.join(known)}: name the one to compare: "
                f"--metric '{next(iter(known))}'"
            )
        result.append(named[0])
    return result


def pair_runs(
    column: Column,
    sides: tuple[Sequence[Run], Sequence[Run]],
    document_codes: dict[Hashable, int],
    most_missing: float,
) -> Paired:
    """Pairs both sides by item.

    Places of documents, of all tasks together, are added to `document_codes`. A share of items up
    to `most_missing` is left out because not all runs have them.

    Raises:
        InputError: a run has an item twice or none at all, or more than `most_missing` is left out.
    """
    assert column.higher is not None
    tables = [_score_matrix(column, runs) for runs in sides]
    on_A, on_B = (np.asarray(np.isfinite(table).any(axis=0)) for table in tables)
    whole_I = np.isfinite(np.concatenate(tables)).all(axis=0)
    only_A, only_B, lacking = on_A & ~on_B, on_B & ~on_A, on_A & on_B & ~whole_I
    counts = int(only_A.sum()), int(only_B.sum()), int(lacking.sum())
    if sum(counts) > most_missing * len(column.items):
        said = (
            f"{column.task}: of {len(column.items)} items {counts[0]} are only on side A, "
            f"{counts[1]} only on side B, and {counts[2]} are missing in some run"
        )
        if _has_only_other_prompts(column, only_A, only_B):
            raise InputError(
                f"{said}: the documents are the same, the prompts are not (other shots or chat "
                "template): evaluate both alike, or compare with --same-document"
            )
        raise InputError(
            f"{said}: evaluate both sides on the same items, or allow it with --missing SHARE"
        )
    kept = np.flatnonzero(whole_I)
    document_I = [
        document_codes.setdefault(column.item_clusters[i], len(document_codes))
        for i in kept.tolist()
    ]
    return Paired(
        column.task,
        column.metric,
        column.higher,
        tables[0][:, kept],
        tables[1][:, kept],
        np.array(column.item_weights)[kept],
        np.array(document_I, np.int64),
        *counts,
    )


def _score_matrix(column: Column, runs: Sequence[Run]) -> Floats:
    """R x I scores; no number where a run lacks an item."""
    result = np.full((len(runs), len(column.items)), np.nan)
    for row, run in zip(result, runs, strict=True):
        if run not in column.rows_by_run:
            raise InputError(
                f"run {run.name} has no task {column.task} with {column.metric}: give runs of the "
                "same tasks, or choose with --tasks"
            )
        places, scores = (np.array(one) for one in column.rows_by_run[run])
        if len(np.unique(places)) < len(places):
            twice = int(np.flatnonzero(np.bincount(places) > 1)[0])
            raise InputError(
                f"run {run.name}: {column.task}: item {item_name(list(column.items)[twice])} is "
                "there twice: give each run's scores once"
            )
        if (high := float(abs(scores).max())) > MOST:
            raise InputError(
                f"run {run.name}: {column.task}: a score of {high:.3g} is too large to average: "
                "mend it, or leave its item out"
            )
        row[places] = scores
    return result


def _has_only_other_prompts(
    column: Column, only_A: npt.NDArray[np.bool_], only_B: npt.NDArray[np.bool_]
) -> bool:
    """Whether items of one side alone are those of the other but for their prompts, named last."""
    names = [name for name in column.items if isinstance(name, tuple) and len(name) == 3]
    if len(names) < len(only_A):
        return False
    a, b = ({names[i][:2] for i in np.flatnonzero(only)} for only in (only_A, only_B))
    return bool(a) and a == b
