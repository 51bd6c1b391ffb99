"""From the scores of multiple-choice items to points, under every normalisation.

Shapes: R checkpoints, S seeds, I items, G documents, N rows of choices.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt

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
class Outcomes:
    """What the runs of one scenario and model made of one task's items: their points."""

    runs: list[CheckpointKey]
    document_I: npt.NDArray[Any]
    """Names of the items' documents: hashes of texts, the same in all tasks."""
    points: dict[str, Floats]
    """By metric R x I: 1 for the true candidate, a share where several score highest, or 0.

    No number where a run did not answer the item, or another answer was true in it.
    """


@dataclass(frozen=True)
class Differences:
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


class Paired(NamedTuple):
    """Two methods' checkpoints of the same seeds."""

    seeds: list[int]
    rows_S: list[int]
    """Place of the method's checkpoint of each seed."""
    others_S: list[int]
    """That of the other method's."""


def pair_by_seed(checkpoints: Iterable[CheckpointKey], method: str, against: str) -> Paired:
    """The seeds that both methods have; of several checkpoints of a seed the last one counts."""
    last = {(one.method, one.seed): row for row, one in enumerate(checkpoints)}
    seeds = sorted(s for name, s in last if name == method and (against, s) in last)
    rows_S, others_S = ([last[name, s] for s in seeds] for name in (method, against))
    return Paired(seeds, rows_S, others_S)


def pair_methods(outcomes: Outcomes, method: str, against: str) -> Differences | None:
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
    return Differences(
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


def read_outcomes(connection: duckdb.DuckDBPyConnection, group: Group) -> Outcomes:
    """The outcomes of one group at every checkpoint, under each metric that its accuracies have."""
    requested = {name for (name,) in connection.execute(METRICS, list(group)).fetchall()}
    known = requested & SCORES.keys()
    lists = dict.fromkeys([SUM, *(one for name in sorted(known) for one in SCORES[name][0])])
    sql = ROWS.format(lists=", ".join(f"c.{one}" for one in lists))
    result = connection.sql(sql, params=[*group]).to_arrow_table().combine_chunks()
    runs, run_N = checkpoints_of_rows(result)
    names_I, item_N = code_texts(result["answered"])
    documents, document_N = code_texts(result["cluster"])
    document_I = np.empty(len(names_I), object)
    document_I[item_N] = documents[document_N]
    candidates_N = _lengths(result[SUM])
    graded = {}
    for name, points_N in _grade(result, candidates_N).items():
        if name in requested:
            graded[name] = np.full((len(runs), len(names_I)), np.nan)
            graded[name][run_N, item_N] = points_N
    return Outcomes(runs, document_I, graded)


def checkpoints_of_rows(table: "pa.Table") -> tuple[list[CheckpointKey], Ints]:
    """The checkpoints that N rows are of, and which of them each row is of.

    The table has method, seed, step and trained (tokens); rows of one checkpoint stand together.
    """
    methods, method_N = code_texts(table["method"])
    of_N = [method_N, *(column_values(table[name]) for name in ("seed", "step", "trained"))]
    first_N = np.ones(len(table), bool)
    first_N[1:] = np.any([one[1:] != one[:-1] for one in of_N], axis=0)
    found = zip(*(one[first_N].tolist() for one in of_N), strict=True)
    keys = [CheckpointKey(methods[method], *rest) for method, *rest in found]
    return keys, np.cumsum(first_N) - 1


def _grade(table: "pa.Table", candidates_N: Ints) -> dict[str, Floats]:
    """Points of every row under every metric whose lists are there."""
    present = {n for needed, _ in SCORES.values() for n in needed} & set(table.column_names)
    columns = {
        name: column_values(table[name].combine_chunks().flatten().cast("float64"))
        for name in present
        # Tasks that have no use for a list leave it empty.
        if not table[name].null_count and np.array_equal(_lengths(table[name]), candidates_N)
    }
    gold_N = column_values(table["gold"])
    return {
        name: item_points(score(*(columns[n] for n in needed)), candidates_N, gold_N)
        for name, (needed, score) in SCORES.items()
        if all(n in columns for n in needed)
    }


def code_texts(texts: "pa.ChunkedArray") -> tuple[npt.NDArray[Any], Ints]:
    """The distinct texts in their order, and the place of each text among them."""
    coded = texts.combine_chunks().dictionary_encode()
    # Sorted after coding: the distinct texts are few.
    names = np.array(coded.dictionary.to_pylist(), object)
    names, place = np.unique(names, return_inverse=True)
    return names, place[column_values(coded.indices)]


def _lengths(lists: "pa.ChunkedArray") -> Ints:
    """How many values each list has."""
    return column_values(lists.combine_chunks().value_lengths())


def column_values(column: "pa.Array | pa.ChunkedArray") -> npt.NDArray[Any]:
    """A column of numbers without nulls as it lies in memory; `to_numpy` would import pandas."""
    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    return np.from_dlpack(whole)
