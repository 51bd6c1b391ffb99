"""Paired tests of accuracies, task by task and of their mean: the table accuracy_tests.

Shapes: S seeds, I items, G documents.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.comparison import mean_difference, p_values
from pike_mixing.comparison.mean_difference import DocumentDifferences, Estimate
from pipeline.results.measured_results import (
    AnsweredTask,
    Curves,
    MeasuredResults,
    ScenarioAndTask,
    pair_last_checkpoints_by_seed,
)
from pipeline.results.record_loader import insert_rows

MEAN = "mean"
"""What stands for the task in the rows of the mean over tasks."""
HEADLINE = "select distinct task, shots, formulation, metric from headline_accuracies"
CLAIMED = """
    select distinct scenario, model, method, against from claimed_pairs
    where quantity in ('accuracy', 'transfer') order by all
"""


class TableBlock(NamedTuple):
    """A section of the table of accuracies."""

    scenario: str
    model: str
    shots: int
    formulation: str
    metric: str


@dataclass(frozen=True)
class AccuracyComparison:
    """One method against another on one task, under one metric; differences are shares of 1."""

    answered: AnsweredTask
    metric: str
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

    @property
    def table_block(self) -> TableBlock:
        """The section of the table of accuracies that it belongs to."""
        scenario, model, _, shots, formulation = self.answered
        return TableBlock(scenario, model, shots, formulation, self.metric)


PLACE = attrgetter("table_block", "method", "against", "answered.task")
"""By what comparisons are sorted."""


def fill_accuracy_tests(measured: MeasuredResults) -> None:
    """Fills accuracy_tests from the tables choices, accuracies, runs and experiment.

    p_holm is corrected over a block: all methods and tasks, and their mean, under one metric,
    against the baseline and the oracle. Rows on which no verdict may rest tell of their models
    alone: a family of their own. Other pairs are those of claims, which correct their own.
    """
    connection = measured.connection
    references = [name for name in (measured.baseline, measured.oracle) if name is not None]
    result = sorted(_reference_and_claim_comparisons(measured, references), key=PLACE)
    for _, block in itertools.groupby(result, key=attrgetter("table_block")):
        tested = list(block)
        families: dict[bool, list[AccuracyComparison]] = defaultdict(list)
        for one in [*tested, *_means_over_tasks(tested, measured.tasks_in_mean)]:
            families[one.estimate.has_enough_for_verdict].append(one)
        for family in families.values():
            p_M = [one.p if one.against in references else None for one in family]
            corrected = zip(family, p_values.holm_adjusted(p_M), strict=True)
            rows = [_comparison_row(replace(one, p_holm=p)) for one, p in corrected]
            insert_rows(connection, "accuracy_tests", rows)


def _reference_and_claim_comparisons(
    measured: MeasuredResults, references: Collection[str]
) -> Iterator[AccuracyComparison]:
    """Every method against the references, and the pairs of claims under headline scores."""
    connection = measured.connection
    headline = set(connection.execute(HEADLINE).fetchall())
    claimed: dict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    for scenario, model, *pair in connection.execute(CLAIMED).fetchall():
        claimed[scenario, model].append(tuple(pair))
    for answered in measured.answered_tasks:
        outcomes = measured.outcomes(answered)
        methods = dict.fromkeys(one.method for one in outcomes.checkpoints)
        main = [p for p in itertools.product(methods, references) if p[0] != p[1]]
        for method, against in dict.fromkeys([*main, *claimed[answered[:2]]]):
            for one in _comparisons_by_metric(outcomes, answered, method, against):
                if against in references or (*answered[2:], one.metric) in headline:
                    yield one


def _comparisons_by_metric(
    outcomes: Curves, answered: AnsweredTask, method: str, against: str
) -> Iterator[AccuracyComparison]:
    """One comparison per metric, on the items that both answered with all common seeds.

    p is over seeds and documents, that of one seed exact.
    """
    seeds, rows_S, others_S = pair_last_checkpoints_by_seed(outcomes.checkpoints, method, against)
    if not seeds or not outcomes.by_name:
        return
    # A checkpoint that did not answer an item has no points of it under any metric.
    first = next(iter(outcomes.by_name.values()))
    shared_I = np.isfinite(first.value_RxN[rows_S + others_S]).all(axis=0)
    if not shared_I.any():
        return
    document_G, document_I = np.unique(first.document_N[shared_I], return_inverse=True)
    count_G = np.bincount(document_I)
    for metric, curve in outcomes.by_name.items():
        own_SxI, other_SxI = (curve.value_RxN[rows][:, shared_I] for rows in (rows_S, others_S))
        apart_SxI = own_SxI - other_SxI
        sum_SxG = np.stack([np.bincount(document_I, apart_I) for apart_I in apart_SxI])
        part = mean_difference.differences_of_sums(sum_SxG, count_G, document_G)
        square_SxI = apart_SxI**2
        result = mean_difference.estimate([part])
        yield AccuracyComparison(
            answered=answered,
            metric=metric,
            method=method,
            against=against,
            part=part,
            estimate=result,
            seeds=tuple(seeds),
            p=p_values.p_by_seeds_or_sign_flips(sum_SxG, result),
            other=float(other_SxI.mean()),
            examples=len(document_I),
            documents=len(count_G),
            discordance=float(square_SxI.mean()),
            design_effect=_design_effect(part, square_SxI),
        )


def _design_effect(part: DocumentDifferences, square_SxI: Floats) -> float | None:
    """Mean over seeds of the clustered variance, over that of as many independent items."""
    items = square_SxI.shape[1]
    if items == 1 or len(part.share_G) == 1:
        return None
    clustered = float((part.error_SxG**2).sum(axis=1).mean())
    apart_S = square_SxI.mean(axis=1) - part.by_seed_S**2
    alone = float(apart_S.mean()) / (items - 1)
    return clustered / alone if alone > 0 else None


def _means_over_tasks(
    block: Sequence[AccuracyComparison], mean_tasks: Container[ScenarioAndTask]
) -> Iterator[AccuracyComparison]:
    """The mean over tasks of each method that was compared on all of them, with equal seeds.

    The comparisons are under one metric and sorted by `PLACE`; `mean_tasks` has the mean's tasks.
    """
    block = [c for c in block if (c.answered.scenario, c.answered.task) in mean_tasks]
    tasks = {c.answered.task for c in block}
    for _, part in itertools.groupby(block, key=lambda c: (c.method, c.against)):
        same = list(part)
        if len(same) < len(tasks) or len({c.seeds for c in same}) > 1:
            continue
        result = mean_difference.estimate([c.part for c in same if c.part is not None])
        over_documents = result.seeds == 1 and result.effective >= mean_difference.LEAST_DOCUMENTS
        yield replace(
            same[0],
            answered=same[0].answered._replace(task=MEAN),
            part=None,
            estimate=result,
            p=(p_values.p_value if over_documents else p_values.p_value_if_enough)(result),
            other=float(np.mean([c.other for c in same])),
            examples=sum(c.examples for c in same),
            documents=sum(c.documents for c in same),
            discordance=None,
            design_effect=None,
        )


def _comparison_row(comparison: AccuracyComparison) -> list[Any]:
    """A row of accuracy_tests: differences in percentage points."""
    estimate, ends = comparison.estimate, mean_difference.interval_ends(comparison.estimate)
    return [
        *(*comparison.answered, comparison.metric, comparison.method, comparison.against),
        *map(_as_percent, (estimate.difference, estimate.stderr, *ends)),
        *(comparison.p, comparison.p_holm),
        *(estimate.seeds, comparison.examples, comparison.documents),
        *map(_as_percent, (comparison.discordance, estimate.seed_sd)),
        comparison.design_effect,
        *map(_as_percent, (comparison.other, estimate.of_seeds, estimate.of_items)),
        *(estimate.degrees, estimate.effective),
    ]


def _as_percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
