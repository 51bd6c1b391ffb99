"""What runs were measured to be worth: losses by document and points by item, which tests compare.

Shapes: R checkpoints, S seeds, N documents of one domain or items of one task.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd

from pike_mixing.arrays import Floats, Ints
from pike_mixing.comparison.multiple_choice import SCORES, SUM, item_points
from pike_mixing.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Place = tuple[str, str]
"""Scenario and model: runs of one place are compared with each other."""
ScenarioAndTask = tuple[str, str]
PLACES = "select distinct scenario, model from runs order by all"
DOCUMENTS = """
    select r.method, r.seed, d.step, r.tokens * d.step / r.steps as trained, d.domain, d.document,
        d.nll, d.tokens
    from documents as d
    join runs as r on d.run = r.run
    where r.scenario = $1 and r.model = $2
    order by r.method, r.seed, d.step, d.domain, d.document
"""
ANSWERED = """
    select distinct r.scenario, r.model, c.task, c.shots, c.formulation
    from choices as c
    join runs as r on c.run = r.run
    order by all
"""
CHOICES = """
    select {lists}, c.step, c.gold, r.method, r.seed, r.tokens * c.step / r.steps as trained,
        c.item || ' ' || c.gold as answered,
        coalesce(c.document, c.task || '/' || c.item) as cluster
    from choices as c
    join runs as r on c.run = r.run
    where r.scenario = $1 and r.model = $2 and c.task = $3 and c.shots = $4
        and c.formulation = $5
    order by r.method, r.seed, c.step, c.item
"""
METRICS = """
    select distinct a.metric
    from accuracies as a
    join runs as r on a.run = r.run
    where r.scenario = $1 and r.model = $2 and a.task = $3 and a.shots = $4 and a.formulation = $5
"""
CHECKPOINT = ["method", "seed", "step", "trained"]
"""Columns that tell a checkpoint, as `CheckpointKey` has them."""


class CheckpointKey(NamedTuple):
    method: str
    seed: int
    step: int
    tokens: float
    """Trained tokens."""


class AnsweredTask(NamedTuple):
    """A task that models answered in one way."""

    scenario: str
    model: str
    task: str
    shots: int
    formulation: str


@dataclass(frozen=True)
class TaskCurve:
    """One domain or task: what the checkpoints made of its documents or items."""

    value_RxN: Floats
    """Losses summed over each document, or an item's points: 1 for the true candidate, a share
    where several score highest, or 0. No number where a checkpoint lacks one."""
    count_N: npt.NDArray[Any]
    """Tokens of a document; 1 for an item."""
    document_N: npt.NDArray[Any]
    """The document of each: hashes of texts, the same in all tasks."""
    weight: float = 1.0
    """In the mean over domains or tasks."""


class Curves(NamedTuple):
    """Curves of the same checkpoints."""

    checkpoints: list[CheckpointKey]
    by_name: dict[str, TaskCurve]
    """Losses by domain, or the points of one task by metric."""


class SeedPairs(NamedTuple):
    """Two methods' checkpoints of the same seeds."""

    seeds: list[int]
    rows_S: list[int]
    """Place of the method's checkpoint of each seed."""
    others_S: list[int]
    """That of the other method's."""


def pair_last_checkpoints_by_seed(
    checkpoints: Iterable[CheckpointKey], method: str, against: str
) -> SeedPairs:
    """The seeds that both methods have; of several checkpoints of a seed the last one counts."""
    last = {(one.method, one.seed): row for row, one in enumerate(checkpoints)}
    seeds = sorted(s for name, s in last if name == method and (against, s) in last)
    rows_S, others_S = ([last[name, s] for s in seeds] for name in (method, against))
    return SeedPairs(seeds, rows_S, others_S)


class MeasuredResults:
    """Losses and outcomes of a database's runs, each read once at most."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.places: list[Place] = connection.execute(PLACES).fetchall()
        compared = "select baseline, oracle from experiment"
        ((self.baseline, self.oracle),) = connection.execute(compared).fetchall()
        self.losses = functools.cache(functools.partial(_read_losses, connection))
        self.outcomes = functools.cache(functools.partial(_read_outcomes, connection))

    @functools.cached_property
    def answered_tasks(self) -> list[AnsweredTask]:
        """All that was answered."""
        return [AnsweredTask(*row) for row in self.connection.execute(ANSWERED).fetchall()]

    @functools.cached_property
    def tasks_in_mean(self) -> set[ScenarioAndTask]:
        """The tasks that means over tasks are over."""
        return set(self.connection.execute("select scenario, task from mean_tasks").fetchall())


def _read_losses(connection: duckdb.DuckDBPyConnection, scenario: str, model: str) -> Curves:
    """The losses of all checkpoints by domain; documents of one name and length are one."""
    sql = "select domain, target from domains where scenario = ?"
    targets = dict(connection.execute(sql, [scenario]).fetchall())
    rows = connection.execute(DOCUMENTS, [scenario, model]).df()
    checkpoints, row_N = _checkpoints_of_rows(rows)
    result = {}
    for domain, part in rows.assign(checkpoint=row_N).groupby("domain"):
        try:
            loss_RxN = part.pivot(index="checkpoint", columns=["document", "tokens"], values="nll")
        except ValueError:
            raise InputError(
                f"{scenario}/{model}: a checkpoint has two losses of one document of {domain}: "
                "evaluate its runs again"
            ) from None
        loss_RxN = loss_RxN.reindex(range(len(checkpoints))).sort_index(axis="columns")
        document_N, tokens_N = (
            loss_RxN.columns.get_level_values(name).to_numpy() for name in ("document", "tokens")
        )
        result[domain] = TaskCurve(
            loss_RxN.to_numpy(), tokens_N.astype(np.float64), document_N, targets.get(domain, 1.0)
        )
    return Curves(checkpoints, result)


def _read_outcomes(connection: duckdb.DuckDBPyConnection, answered: AnsweredTask) -> Curves:
    """The points of one task's items at every checkpoint, by each metric of its accuracies.

    An item that another answer was true of, in another run, is another item.
    """
    requested = {name for (name,) in connection.execute(METRICS, list(answered)).fetchall()}
    known = requested & SCORES.keys()
    lists = dict.fromkeys([SUM, *(one for name in sorted(known) for one in SCORES[name][0])])
    sql = CHOICES.format(lists=", ".join(f"c.{one}" for one in lists))
    result = connection.sql(sql, params=[*answered]).to_arrow_table().combine_chunks()
    rows = result.select([*CHECKPOINT, "answered", "cluster"]).to_pandas()
    checkpoints, run_N = _checkpoints_of_rows(rows)
    item_N, names_I = pd.factorize(rows["answered"], sort=True)
    document_I = rows.groupby(item_N)["cluster"].first().to_numpy(object)
    curves = {}
    for name, points_N in _points_per_row_by_metric(result).items():
        if name in requested:
            points_RxI = np.full((len(checkpoints), len(names_I)), np.nan)
            points_RxI[run_N, item_N] = points_N
            curves[name] = TaskCurve(points_RxI, np.ones(len(names_I)), document_I)
    return Curves(checkpoints, curves)


def _checkpoints_of_rows(rows: pd.DataFrame) -> tuple[list[CheckpointKey], Ints]:
    """The checkpoints that N rows are of, as they first occur, and which of them each row is of."""
    keys = rows[CHECKPOINT].drop_duplicates().itertuples(index=False, name=None)
    row_N = rows.groupby(CHECKPOINT, sort=False).ngroup()
    return [CheckpointKey(*key) for key in keys], row_N.to_numpy()


def _points_per_row_by_metric(table: "pa.Table") -> dict[str, Floats]:
    """Points of every row under every metric whose lists are there."""
    candidates_N = _list_lengths(table[SUM])
    present = {n for needed, _ in SCORES.values() for n in needed} & set(table.column_names)
    columns = {
        name: table[name].combine_chunks().flatten().cast("float64").to_numpy()
        for name in present
        # Tasks that have no use for a list leave it empty.
        if not table[name].null_count and np.array_equal(_list_lengths(table[name]), candidates_N)
    }
    gold_N = table["gold"].to_numpy()
    return {
        name: item_points(score(*(columns[n] for n in needed)), candidates_N, gold_N)
        for name, (needed, score) in SCORES.items()
        if all(n in columns for n in needed)
    }


def _list_lengths(lists: "pa.ChunkedArray") -> Ints:
    """How many values each list has."""
    return lists.combine_chunks().value_lengths().to_numpy()
