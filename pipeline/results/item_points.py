"""From the scores of multiple-choice items to points, under every normalisation.

Shapes: R checkpoints, S seeds, I items, G documents, N rows of choices.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd

from pike_mixing.arrays import Floats, Ints
from pike_mixing.comparison.multiple_choice import SCORES, SUM, item_points

if TYPE_CHECKING:
    import pyarrow as pa

Group = tuple[str, str, str, int, str]
"""Scenario, model, task, shots, formulation."""


class CheckpointKey(NamedTuple):
    method: str
    seed: int
    step: int
    tokens: float
    """Trained tokens."""


@dataclass(frozen=True)
class ItemOutcomes:
    """What the runs of one scenario and model made of one task's items: their points."""

    runs: list[CheckpointKey]
    document_I: npt.NDArray[Any]
    """Names of the items' documents: hashes of texts, the same in all tasks."""
    points: dict[str, Floats]
    """By metric R x I: 1 for the true candidate, a share where several score highest, or 0.

    No number where a run did not answer the item, or another answer was true in it.
    """


@dataclass(frozen=True)
class ItemDifferences:
    """Two methods' differences on the items that both answered with all common seeds."""

    seeds: list[int]
    items: int
    count_G: Ints
    """Items of each document."""
    document_G: npt.NDArray[Any]
    """The documents' names, sorted."""
    other: dict[str, float]
    """By metric the other method's mean over these seeds and items: a share of 1."""
    sums: dict[str, Floats]
    """By metric S x G: differences summed over each document's items."""
    squares: dict[str, Floats]
    """By metric S x I: squared differences."""


class SeedPairs(NamedTuple):
    """Two methods' checkpoints of the same seeds."""

    seeds: list[int]
    rows_S: list[int]
    """Place of the method's checkpoint of each seed."""
    others_S: list[int]
    """That of the other method's."""


def pair_by_seed(checkpoints: Iterable[CheckpointKey], method: str, against: str) -> SeedPairs:
    """The seeds that both methods have; of several checkpoints of a seed the last one counts."""
    last = {(one.method, one.seed): row for row, one in enumerate(checkpoints)}
    seeds = sorted(s for name, s in last if name == method and (against, s) in last)
    rows_S, others_S = ([last[name, s] for s in seeds] for name in (method, against))
    return SeedPairs(seeds, rows_S, others_S)


def pair_methods(outcomes: ItemOutcomes, method: str, against: str) -> ItemDifferences | None:
    """Pairs two methods by seed and item; None where they have no seed or no item in common.

    Where a method has several checkpoints of a seed, the last of them counts.

    Args:
        outcomes: What the runs answered.
        method: The method in question.
        against: The other one.
    """
    seeds, rows_S, others_S = pair_by_seed(outcomes.runs, method, against)
    if not seeds or not outcomes.points:
        return None
    apart = {name: at_RxI[rows_S] - at_RxI[others_S] for name, at_RxI in outcomes.points.items()}
    shared_I = np.isfinite(next(iter(apart.values()))).all(axis=0)
    if not shared_I.any():
        return None
    document_G, document_I = np.unique(outcomes.document_I[shared_I], return_inverse=True)
    kept = {name: apart_SxI[:, shared_I] for name, apart_SxI in apart.items()}
    return ItemDifferences(
        seeds=seeds,
        items=len(document_I),
        count_G=np.bincount(document_I),
        document_G=document_G,
        other={
            n: float(at_RxI[others_S][:, shared_I].mean()) for n, at_RxI in outcomes.points.items()
        },
        sums={n: np.stack([np.bincount(document_I, d_I) for d_I in kept[n]]) for n in kept},
        squares={name: kept_SxI**2 for name, kept_SxI in kept.items()},
    )


CHECKPOINT = ["method", "seed", "step", "trained"]
"""Columns that tell a checkpoint, as `CheckpointKey` has them."""
GROUPS = """
    select distinct r.scenario, r.model, c.task, c.shots, c.formulation
    from choices as c
    join runs as r on c.run = r.run
    order by all
"""
ROWS = """
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


def read_groups(connection: duckdb.DuckDBPyConnection) -> list[Group]:
    """Scenario, model, task, shots and formulation of all that was answered."""
    return connection.execute(GROUPS).fetchall()


def read_outcomes(connection: duckdb.DuckDBPyConnection, group: Group) -> ItemOutcomes:
    """The outcomes of one group at every checkpoint, under each metric that its accuracies have."""
    requested = {name for (name,) in connection.execute(METRICS, list(group)).fetchall()}
    known = requested & SCORES.keys()
    lists = dict.fromkeys([SUM, *(one for name in sorted(known) for one in SCORES[name][0])])
    sql = ROWS.format(lists=", ".join(f"c.{one}" for one in lists))
    result = connection.sql(sql, params=[*group]).to_arrow_table().combine_chunks()
    rows = result.select([*CHECKPOINT, "answered", "cluster"]).to_pandas()
    runs, run_N = checkpoints_of_rows(rows)
    item_N, names_I = pd.factorize(rows["answered"], sort=True)
    document_I = rows.groupby(item_N)["cluster"].first().to_numpy(object)
    candidates_N = _list_lengths(result[SUM])
    graded = {}
    for name, points_N in _points_by_metric(result, candidates_N).items():
        if name in requested:
            graded[name] = np.full((len(runs), len(names_I)), np.nan)
            graded[name][run_N, item_N] = points_N
    return ItemOutcomes(runs, document_I, graded)


def checkpoints_of_rows(rows: pd.DataFrame) -> tuple[list[CheckpointKey], Ints]:
    """The checkpoints that N rows are of, as they first occur, and which of them each row is of."""
    keys = rows[CHECKPOINT].drop_duplicates().itertuples(index=False, name=None)
    row_N = rows.groupby(CHECKPOINT, sort=False).ngroup()
    return [CheckpointKey(*key) for key in keys], row_N.to_numpy()


def _points_by_metric(table: "pa.Table", candidates_N: Ints) -> dict[str, Floats]:
    """Points of every row under every metric whose lists are there."""
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
