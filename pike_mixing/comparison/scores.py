"""Scores of runs on items, from whatever source, and the two sides of a comparison paired by item.

Shapes: R runs of one side, I items that all runs have, G documents.
"""

import hashlib
import json
import os
from array import array
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Floats, Ints
from pike_mixing.errors import InputError

MOST = 1e100
"""Scores beyond it have no finite squares."""


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


@dataclass
class Column:
    """Scores of one metric of one task, of all runs."""

    task: str
    metric: str
    higher: bool | None = None
    """Whether a higher score is better; None where nothing says so."""
    items: dict[Hashable, int] = field(default_factory=dict)
    """The place of each item by what identifies it."""
    cluster: list[Hashable] = field(default_factory=list)
    """Of each item: the document that it was made from."""
    weight: "array[float]" = field(default_factory=lambda: array("d"))
    """Of each item in the mean: how many tokens its score is the mean of."""
    found: "dict[Run, tuple[array[int], array[float]]]" = field(default_factory=dict)
    """Places and scores of each run's rows."""

    def indices_and_scores(self, run: Run) -> "tuple[array[int], array[float]]":
        """A run's places and scores, to add to."""
        return self.found.setdefault(run, (array("q"), array("d")))

    def average_runs(self, runs: Sequence[Run], into: Run) -> None:
        """Puts one run in the place of several, with the mean score of each item.

        Items that one of them lacks are left out; runs without the task count for nothing.
        """
        having = [run for run in runs if run in self.found]
        if having:
            mean_I = _score_matrix(self, having).mean(axis=0)
            for run in having:
                del self.found[run]
            place_I = np.flatnonzero(np.isfinite(mean_I))
            self.found[into] = (array("q", place_I.tolist()), array("d", mean_I[place_I].tolist()))

    def index_of_item(
        self, item: Hashable, weight: float, cluster: Hashable, source: object
    ) -> int:
        """The place of an item, which all runs weigh and cluster alike.

        Raises:
            InputError: another row gave it another weight or document.
        """
        place = self.items.setdefault(item, len(self.items))
        if place == len(self.weight):
            self.weight.append(weight)
            self.cluster.append(cluster)
        elif self.weight[place] != weight:
            raise InputError(
                f"{source}: {self.task}: item {item_name(item)} has the weight {weight:g}, "
                f"elsewhere {self.weight[place]:g}: scores by token of different tokenizers cannot "
                "be compared: take scores by byte or by word"
            )
        elif self.cluster[place] != cluster:
            raise InputError(
                f"{source}: {self.task}: item {item_name(item)} is of document {cluster}, "
                f"elsewhere of {self.cluster[place]}: give one document to each item"
            )
        return place


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

    Args:
        arguments: By name.
        revision: Of a model on the hub, where the arguments do not have it.
        sha: The commit of that revision, where the log has it.
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


def metric_without_filter(metric: str) -> str:
    """A metric's name without its filter and unit."""
    return metric.split(",")[0].split(" (")[0]


def hash_item(value: object) -> str:
    """What tells an item from others, made of whatever a log has of it."""
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def item_name(item: Hashable) -> str:
    """An item's name in messages."""
    return str(item[0]) if isinstance(item, tuple) else str(item)


@dataclass
class Scores:
    """All that was read, by task and metric."""

    columns: dict[tuple[str, str], Column] = field(default_factory=dict)
    facts: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """By task and name of a fact that runs must share: a run with each value."""
    notes: list[str] = field(default_factory=list)
    tasks: Sequence[str] = ()
    """The tasks that are asked for; all when empty."""
    unread: dict[str, None] = field(default_factory=dict)
    """Names of tasks that were there and not asked for."""
    others: dict[str, dict[str, None]] = field(default_factory=dict)
    """By task the names of metrics that were there and not asked for."""
    logs: dict[Run, Log] = field(default_factory=dict)
    """Of each log that was read; `one_run_per_evaluation` makes runs of them."""
    sides: dict[Path, str] = field(default_factory=dict)
    """By log the side that it is of."""

    def add_log(self, side: str, log: Log) -> Run:
        """Notes a log; returns the run that its scores are added to.

        Raises:
            InputError: it was given before.
        """
        path = log.path.resolve()
        if path in self.sides:
            where = "on both sides" if {side, self.sides[path]} == {"A", "B"} else "given twice"
            raise InputError(f"{log.path} is {where}: give each run once, to one side")
        self.sides[path] = side
        run = Run(side, str(log.path))
        self.logs[run] = log
        return run

    def note_unwanted_metrics(
        self, task: str, metrics: Iterable[str], wanted: Container[str]
    ) -> None:
        """Notes metrics that nobody asked for; all are asked for where none is named."""
        others = {name: None for name in metrics if wanted and name not in wanted}
        if others:
            self.others.setdefault(task, {}).update(others)

    def left_out_notes(self) -> list[str]:
        """What is said of tasks that have none of the metrics that were asked for."""
        read = {task for task, _ in self.columns}
        lacking = {task: names for task, names in self.others.items() if task not in read}
        said = [f"{task} (has {', '.join(names)})" for task, names in lacking.items()]
        more = f" and {len(said) - 5} more" if len(said) > 5 else ""
        return [f"without these metrics, and left out: {', '.join(said[:5])}{more}"] if said else []

    def note_if_unwanted(self, task: str) -> bool:
        """Whether a file of one task need not be read, since others are asked for."""
        if self.tasks and task not in self.tasks:
            self.unread[task] = None
            return True
        return False

    def column(self, task: str, metric: str, higher: bool | None) -> Column:
        """The column of a task and metric, made when it is first asked for."""
        made = self.columns.setdefault((task, metric), Column(task, metric, higher))
        made.higher = higher if made.higher is None else made.higher
        return made

    def note_fact(self, task: str, fact: str, value: object, source: object) -> None:
        """Notes what a run says about its task."""
        self.facts.setdefault((task, fact), {}).setdefault(str(value), str(source))

    def runs(self, side: str) -> list[Run]:
        """The runs of a side, in the order of their names."""
        found = {run for column in self.columns.values() for run in column.found}
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
    def has_only_points(self) -> bool:
        """Whether all scores are 0 or 1, of items that weigh alike."""
        values = (self.value_AxI, self.value_BxI)
        whole = all(np.isin(value, (0.0, 1.0)).all() for value in values)
        return whole and bool((self.weight_I == 1).all())


def choose_columns(scores: Scores, metrics: Sequence[str], tasks: Sequence[str]) -> list[Column]:
    """One column of each task: the first of the metrics that it has, or the only one.

    Raises:
        InputError: a task has several metrics and none was named, or a name is unknown.
    """
    by_task: dict[str, dict[str, Column]] = {}
    for (task, metric), column in scores.columns.items():
        by_task.setdefault(task, {})[metric] = column
    if unknown := [task for task in tasks if task not in by_task]:
        why = "".join(f"; {note}" for note in scores.notes)
        known_ = ", ".join([*by_task, *scores.unread]) or "none"
        raise InputError(f"--tasks: no scores of {unknown[0]!r}: there are {known_}{why}")
    result = []
    for task in tasks or sorted(by_task):
        known = by_task[task]
        # `exact_match` is `exact_match,strict-match` where no other filter is there.
        short = [
            [c for n, c in known.items() if one in (n, metric_without_filter(n))] for one in metrics
        ]
        named = [found[0] for found in short if len(found) == 1]
        if named or (len(known) == 1 and not metrics):
            result.append(named[0] if named else next(iter(known.values())))
            continue
        names = ", ".join(known)
        raise InputError(
            f"{task}: its metrics are {names}: name the one to compare: "
            f"--metric '{next(iter(known))}'"
        )
    return result


def pair_runs(
    column: Column,
    sides: tuple[Sequence[Run], Sequence[Run]],
    document_codes: dict[Hashable, int],
    most_missing: float,
) -> Paired:
    """Pairs both sides by item.

    Args:
        column: The scores.
        sides: Runs of both sides.
        document_codes: Places of documents, of all tasks together; new ones are added.
        most_missing: Share of items that may be left out because not all runs have them.

    Raises:
        InputError: a run has an item twice or none at all, or more than `most_missing` is left out.
    """
    assert column.higher is not None
    tables = [_score_matrix(column, runs) for runs in sides]
    on_A, on_B = (np.any(np.isfinite(table), axis=0, keepdims=True)[0] for table in tables)
    whole_I = np.isfinite(np.concatenate(tables)).all(axis=0)
    only_a, only_b = int((on_A & ~on_B).sum()), int((on_B & ~on_A).sum())
    incomplete = int((on_A & on_B & ~whole_I).sum())
    left = only_a + only_b + incomplete
    if left > most_missing * len(column.items):
        raise InputError(_unpaired_items_message(column, on_A, on_B, only_a, only_b, incomplete))
    kept = np.flatnonzero(whole_I)
    document_I = [
        document_codes.setdefault(column.cluster[i], len(document_codes)) for i in kept.tolist()
    ]
    return Paired(
        column.task,
        column.metric,
        column.higher,
        tables[0][:, kept],
        tables[1][:, kept],
        np.array(column.weight)[kept],
        np.array(document_I, np.int64),
        only_a,
        only_b,
        incomplete,
    )


def _score_matrix(column: Column, runs: Sequence[Run]) -> Floats:
    """R x I scores; no number where a run lacks an item."""
    result = np.full((len(runs), len(column.items)), np.nan)
    for row, run in zip(result, runs, strict=True):
        if run not in column.found:
            raise InputError(
                f"run {run.name} has no task {column.task} with {column.metric}: give runs of the "
                "same tasks, or choose with --tasks"
            )
        places, scores = (np.array(one) for one in column.found[run])
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


def _unpaired_items_message(
    column: Column, on_A: npt.NDArray[Any], on_B: npt.NDArray[Any], only_a: int, only_b: int,
    incomplete: int,
) -> str:  # fmt: skip
    """What is wrong where too few items can be paired."""
    said = (
        f"{column.task}: of {len(on_A)} items {only_a} are only on side A, {only_b} only on side "
        f"B, and {incomplete} are missing in some run"
    )
    names = [name for name in column.items if isinstance(name, tuple) and len(name) == 3]
    if len(names) == len(on_A):
        a, b = ({names[i][:2] for i in np.flatnonzero(on)} for on in (on_A & ~on_B, on_B & ~on_A))
        if a and a == b:
            return (
                f"{said}: the documents are the same, the prompts are not (other shots or chat "
                "template): evaluate both alike, or compare with --same-document"
            )
    return f"{said}: evaluate both sides on the same items, or allow it with --missing SHARE"
