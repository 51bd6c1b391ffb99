"""What the paper's claims are decided by: the tables mean_accuracy_tests and pairs."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import duckdb

from pipeline.results import outcomes
from pipeline.statistics import paired
from pipeline.statistics.paired import Estimate

Pair = tuple[str, str]
"""A method, and the one that it is compared with."""


PAIRS = ("accuracy_pairs", "perplexity_pairs", "single_pairs", "spread_pairs")
"""The views that the table `pairs` holds."""


class TaskGroup(NamedTuple):
    """What the tasks of one mean have in common."""

    scenario: str
    model: str
    shots: int
    formulation: str
    metric: str
    method: str
    against: str


class TaskDifference(NamedTuple):
    """The difference of two methods on one task, as shares of 1."""

    estimate: Estimate
    by_seed_S: list[float]
    seeds: list[int]


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes both tables anew: the paper's pairs say which of our methods are to be tested.

    They are tables since dozens of claims ask for the same rows.
    """
    connection.execute("delete from mean_accuracy_tests")
    connection.execute("delete from pairs")
    _keep(connection, "paper")
    _tests(connection)
    _keep(connection, "ours")


def _keep(connection: duckdb.DuckDBPyConnection, side: str) -> None:
    """Puts one side of the views' pairs into the table."""
    for view in PAIRS:
        connection.execute(f"insert into pairs by name select * from {view} where side = ?", [side])


def _tests(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills mean_accuracy_tests: the pairs of claimed_pairs under the headline score of each task.

    A mean is over the tasks that play one of the paper's, and is left out where the two methods
    have not answered the same ones with the same seeds.
    """
    found: dict[TaskGroup, list[TaskDifference]] = defaultdict(list)
    asked: dict[tuple[Any, ...], set[str]] = defaultdict(set)
    for block, name, task in _tasks(connection):
        found[block].append(task)
        asked[block[:5]].add(name)
    rows = [
        row
        for block, tasks in sorted(found.items())
        if len(tasks) == len(asked[block[:5]]) and (row := _row(block, tasks)) is not None
    ]
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"insert into mean_accuracy_tests values ({marks})", rows)


def _tasks(
    connection: duckdb.DuckDBPyConnection,
) -> Iterator[tuple[TaskGroup, str, TaskDifference]]:
    """Each pair of methods on each task that both answered."""
    wanted = _wanted(connection)
    headline: dict[tuple[str, int, str], list[str]] = defaultdict(list)
    for task, shots, formulation, metric in connection.execute(
        "select distinct h.task, h.shots, h.formulation, h.metric from headline_accuracies as h "
        "join published_names as n on n.kind = 'task' and h.task = n.ours order by all"
    ).fetchall():
        headline[task, shots, formulation].append(metric)
    for group in outcomes.groups(connection):
        scenario, model, task, shots, formulation = group
        metrics = headline.get((task, shots, formulation), [])
        pairs = wanted.get((scenario, model), [])
        if not metrics or not pairs:
            continue
        answered = outcomes.read(connection, group)
        for method, against in pairs:
            apart = outcomes.differences(answered, method, against)
            for metric in metrics if apart is not None else ():
                if apart is not None and metric in apart.sums:
                    block = TaskGroup(scenario, model, shots, formulation, metric, method, against)
                    yield block, task, _of(apart, metric)


def _wanted(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], list[Pair]]:
    """The pairs of methods to compare, by scenario and model."""
    wanted: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    sql = "select scenario, model, method, against from claimed_pairs"
    for scenario, model, method, against in connection.execute(sql).fetchall():
        wanted[scenario, model].append((method, against))
    return wanted


def _of(apart: outcomes.Differences, metric: str) -> TaskDifference:
    sum_SxG = apart.sums[metric]
    by_seed_S = [math.fsum(row_G) / apart.items for row_G in sum_SxG]
    return TaskDifference(paired.estimate(sum_SxG, apart.count_G), by_seed_S, apart.seeds)


def _row(block: TaskGroup, tasks: Sequence[TaskDifference]) -> list[Any] | None:
    """A row of mean_accuracy_tests in percentage points; None where the tasks' seeds differ."""
    if any(task.seeds != tasks[0].seeds for task in tasks):
        return None
    mean = paired.averaged([t.estimate for t in tasks], [t.by_seed_S for t in tasks])
    half = paired.half_width(mean)
    low, high = (None, None) if half is None else (mean.difference - half, mean.difference + half)
    points = [
        None if value is None else 100 * value
        for value in (mean.difference, mean.stderr, low, high)
    ]
    return [*block, *points, paired.p_value(mean), mean.seeds, len(tasks)]
