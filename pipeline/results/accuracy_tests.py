"""Paired tests of accuracies, task by task and of their mean: the table accuracy_tests."""

import itertools
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import duckdb
import numpy as np

from pike_mixing.comparison import mean_difference, sign_flip
from pike_mixing.comparison.mean_difference import DocumentDifferences, Estimate
from pipeline.results import item_points
from pipeline.results.item_points import ItemDifferences
from pipeline.results.measured_results import MeasuredResults
from pipeline.results.record_loader import insert_rows

MEAN = "mean"
"""What stands for the task in the rows of the mean over tasks."""
HEADLINE = "select distinct task, shots, formulation, metric from headline_accuracies"
CLAIMED = """
    select distinct scenario, model, method, against from claimed_pairs
    where quantity in ('accuracy', 'transfer') order by all
"""

PLACE = attrgetter("block", "method", "against", "task")
"""By what comparisons are sorted."""
Block = tuple[str, str, int, str, str]
"""Scenario, model, shots, formulation, metric: one section of the table of accuracies."""


@dataclass(frozen=True)
class AccuracyComparison:
    """One method against another on one task, under one metric; differences are shares of 1."""

    block: Block
    task: str
    method: str
    against: str
    part: DocumentDifferences | None
    """Absent: the mean over tasks."""
    estimate: Estimate
    seeds: tuple[int, ...]
    p: float | None
    other: float
    """The other method's mean: a share of 1."""
    examples: int
    documents: int
    discordance: float | None
    """Mean squared difference of an item: for whole points the share on which the two differ."""
    design_effect: float | None
    """Variance clustered by document over that of independent items, for one seed."""
    p_holm: float | None = None


def fill_accuracy_tests(measured: MeasuredResults) -> None:
    """Fills accuracy_tests from the tables choices, accuracies, runs and experiment.

    p_holm is corrected over a block: all methods and tasks, and their mean, under one metric,
    against the baseline and the oracle. Rows on which no verdict may rest tell of their models
    alone: a family of their own. Other pairs are those of claims, which correct their own.
    """
    connection = measured.connection
    references = [name for name in (measured.baseline, measured.oracle) if name is not None]
    result = sorted(_task_comparisons(measured, references), key=PLACE)
    kept = tasks_in_mean(connection)
    for _, block in itertools.groupby(result, key=lambda c: c.block):
        tested = list(block)
        families: dict[bool, list[AccuracyComparison]] = defaultdict(list)
        for one in [*tested, *means_over_tasks(tested, kept)]:
            families[one.estimate.has_enough].append(one)
        for family in families.values():
            adjusted = sign_flip.holm_adjusted(
                [c.p if c.against in references else None for c in family]
            )
            rows = [
                _comparison_row(replace(c, p_holm=p)) for c, p in zip(family, adjusted, strict=True)
            ]
            insert_rows(connection, "accuracy_tests", rows)


def _task_comparisons(
    measured: MeasuredResults, references: Collection[str]
) -> Iterator[AccuracyComparison]:
    """Every method against the references, and the pairs of claims under headline scores."""
    connection = measured.connection
    headline = set(connection.execute(HEADLINE).fetchall())
    claimed: dict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    for scenario, model, *pair in connection.execute(CLAIMED).fetchall():
        claimed[scenario, model].append(tuple(pair))
    for group in measured.groups:
        answered = measured.outcomes(group)
        methods = dict.fromkeys(run.method for run in answered.runs)
        main = [p for p in itertools.product(methods, references) if p[0] != p[1]]
        for method, against in dict.fromkeys([*main, *claimed[group[:2]]]):
            pairs = item_points.pair_methods(answered, method, against)
            for one in compare_methods(pairs, group, method, against) if pairs else ():
                if against in references or (*group[2:], one.block[-1]) in headline:
                    yield one


def compare_methods(
    pairs: ItemDifferences, group: item_points.Group, method: str, against: str
) -> Iterator[AccuracyComparison]:
    """One comparison per metric; p is over seeds and documents, that of one seed exact.

    Args:
        pairs: The differences of the two methods, in points from -1 to 1.
        group: What was answered.
        method: The method in question.
        against: The other one.
    """
    scenario, model, task, shots, formulation = group
    for metric, sum_SxG in pairs.sums.items():
        part = mean_difference.differences_of_sums(sum_SxG, pairs.count_G, pairs.document_G)
        result = mean_difference.estimate([part])
        yield AccuracyComparison(
            block=(scenario, model, shots, formulation, metric),
            task=task,
            method=method,
            against=against,
            part=part,
            estimate=result,
            seeds=tuple(pairs.seeds),
            p=sign_flip.p_of_difference(sum_SxG, result),
            other=pairs.other[metric],
            examples=pairs.items,
            documents=len(pairs.count_G),
            discordance=float(pairs.squares[metric].mean()),
            design_effect=_design_effect(part, pairs, metric),
        )


def _design_effect(part: DocumentDifferences, pairs: ItemDifferences, metric: str) -> float | None:
    """Mean over seeds of the clustered variance, over that of as many independent items."""
    if pairs.items == 1 or len(part.share_G) == 1:
        return None
    clustered = float((part.error_SxG**2).sum(axis=1).mean())
    apart_S = pairs.squares[metric].mean(axis=1) - part.by_seed_S**2
    alone = float(apart_S.mean()) / (pairs.items - 1)
    return clustered / alone if alone > 0 else None


def tasks_in_mean(connection: duckdb.DuckDBPyConnection) -> set[tuple[str, str]]:
    """Scenario and task of what means are over."""
    return set(connection.execute("select scenario, task from mean_tasks").fetchall())


def means_over_tasks(
    block: Sequence[AccuracyComparison], mean_tasks: Container[tuple[str, str]]
) -> Iterator[AccuracyComparison]:
    """The mean over tasks of each method that was compared on all of them, with equal seeds.

    The comparisons are under one metric and sorted by `PLACE`; `mean_tasks` has the mean's tasks.
    """
    block = [c for c in block if (c.block[0], c.task) in mean_tasks]
    tasks = {comparison.task for comparison in block}
    for _, part in itertools.groupby(block, key=lambda c: (c.method, c.against)):
        same = list(part)
        if len(same) < len(tasks) or len({c.seeds for c in same}) > 1:
            continue
        result = mean_difference.estimate([c.part for c in same if c.part is not None])
        yield replace(
            same[0],
            task=MEAN,
            part=None,
            estimate=result,
            p=_p_of_mean(result),
            other=float(np.mean([c.other for c in same])),
            examples=sum(c.examples for c in same),
            documents=sum(c.documents for c in same),
            discordance=None,
            design_effect=None,
        )


def _p_of_mean(result: Estimate) -> float | None:
    """`p_value_if_enough`; of one seed, over documents enough, that over documents alone."""
    if result.seeds == 1 and result.effective >= mean_difference.LEAST_DOCUMENTS:
        return mean_difference.p_value(result)
    return mean_difference.p_value_if_enough(result)


def _comparison_row(comparison: AccuracyComparison) -> list[Any]:
    """A row of accuracy_tests: differences in percentage points."""
    scenario, model, *asked = comparison.block
    estimate = comparison.estimate
    return [
        *(scenario, model, comparison.task, *asked, comparison.method, comparison.against),
        *map(
            as_percent,
            (estimate.difference, estimate.stderr, *mean_difference.interval_ends(estimate)),
        ),
        *(comparison.p, comparison.p_holm),
        *(estimate.seeds, comparison.examples, comparison.documents),
        *map(as_percent, (comparison.discordance, estimate.seed_sd)),
        comparison.design_effect,
        *map(as_percent, (comparison.other, estimate.of_seeds, estimate.of_items)),
        *(estimate.degrees, estimate.effective),
    ]


def as_percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
