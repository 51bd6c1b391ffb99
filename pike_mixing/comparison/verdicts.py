"""Verdicts on two sides: by task and over tasks, with what would tell.

Shapes: S runs of a side, I items, G documents, K tasks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.comparison import mean_difference, p_values
from pike_mixing.comparison.detectable import (
    POWER,
    detectable_difference,
    detection_power,
    smallest_sufficient_factor,
)
from pike_mixing.comparison.group_difference import (
    estimate_group_difference,
    find_outlying_run,
    run_means_and_error_terms,
)
from pike_mixing.comparison.mean_difference import (
    LEAST_DOCUMENTS,
    LEAST_SEEDS,
    LEVEL,
    DocumentDifferences,
    Estimate,
)
from pike_mixing.comparison.scores import Paired, Run

BETTER, WORSE, EQUAL, UNKNOWN = "better", "worse", "equal", "cannot tell"
WIDE = 1.05
"""So many times as wide as without room for what was not drawn, an interval holds the truth in more
than 95 %: docs/error-rates.md."""
Runs = tuple[list[Run], list[Run]]
"""Of both sides."""


@dataclass(frozen=True)
class Row:
    """One task, or the mean over tasks; differences are A - B, in the unit of the scores."""

    task: str | None
    metric: str
    higher_is_better: bool
    a: float
    b: float
    estimate: Estimate
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    verdict: str
    why_none: str | None
    """Why no verdict can rest on it."""
    items: int
    documents: int
    documents_alike: int
    """Documents that show one and the same difference, as none; of the mean, in every task."""
    is_same: bool
    """Whether both sides score every item alike: whatever else is open, they are equal here."""
    wide: bool
    """Whether the interval is wider than 95 % need: by `WIDE` or more, for what was not drawn."""
    smallest_shown: float | None
    """The smallest difference that it would have shown with probability `POWER`."""
    runs_wanted: float | None
    """Runs of each side that would show the observed difference; None: none would."""
    items_wanted: float | None
    """Items that would, by the same runs; None: none would."""


@dataclass(frozen=True)
class Comparison:
    recipes: bool
    """Whether it is about two recipes; else about these checkpoints."""
    runs: Runs
    paired: bool
    """Whether runs are paired by seed."""
    margin: float | None
    tasks: list[Row]
    mean: Row | None
    """Over tasks; None where their scores have no common mean."""
    warnings: list[str]


def compare(
    tasks: Sequence[Paired],
    runs: Runs,
    margin: float | None,
    weigh_alike: Literal["tasks", "items"] = "tasks",
) -> Comparison:
    """The verdict on each task and on their mean, over runs in the order of the tasks' rows.

    The mean, in which these weigh alike, is a family of one test. The tasks are another, whose
    p-values are Holm's; intervals are not corrected, and "equal", which differences below the
    margin are, asks for one that is.
    """
    recipes, paired = is_about_recipes(runs), _are_paired(runs)
    facts = [_Task(one, paired) for one in tasks]
    found = [_judge_mean([one], [1.0], recipes) for one in facts]
    # All tasks are of the family: which ones have no verdict follows from the same numbers.
    holm_K = p_values.holm_adjusted([p for _, p, _ in found])
    rows = [
        _build_row([one], judged, p, len(facts), margin, recipes)
        for one, judged, p in zip(facts, found, holm_K, strict=True)
    ]
    mean = None
    if len(facts) > 1 and _have_common_unit(tasks):
        weights = [float(len(one.weight_I)) if weigh_alike == "items" else 1.0 for one in tasks]
        judged = _judge_mean(facts, weights, recipes)
        mean = _build_row(facts, judged, judged.p, 1, margin, recipes, weights)
    return Comparison(
        recipes, runs, paired, margin, rows, mean, _comparison_warnings(facts, runs, recipes)
    )


def judge_mean_over_tasks(tasks: Sequence[Paired], runs: Runs) -> "Judgement":
    """The estimate of the mean over tasks, its p-value, and why no verdict may rest on it."""
    facts = [_Task(one, _are_paired(runs)) for one in tasks]
    return _judge_mean(facts, [1.0] * len(facts), is_about_recipes(runs))


def is_about_recipes(runs: Runs) -> bool:
    """Whether runs stand for more of their recipes: where both sides have enough of them."""
    return min(map(len, runs)) >= LEAST_SEEDS


def _are_paired(runs: Runs) -> bool:
    seeds = [[run.seed for run in side] for side in runs]
    return is_about_recipes(runs) and None not in seeds[0] and seeds[0] == seeds[1]


def means_by_document(value_SxI: Floats, paired: Paired) -> DocumentDifferences:
    """Runs' values on the items of a task, document by document."""
    document_G, place_I = np.unique(paired.document_I, return_inverse=True)
    count_G = np.bincount(place_I, weights=paired.weight_I)
    sums = [np.bincount(place_I, weights=row * paired.weight_I) for row in value_SxI]
    return mean_difference.differences_of_sums(np.stack(sums), count_G, document_G)


class _Task:
    """One task as parts of both groups."""

    def __init__(self, one: Paired, paired: bool) -> None:
        self.one = one
        sides = [one.value_AxI - one.value_BxI] if paired else [one.value_AxI, one.value_BxI]
        self.document_G, place_I = np.unique(one.document_I, return_inverse=True)
        self.count_G: Floats = np.bincount(place_I, weights=one.weight_I).astype(np.float64)
        self.groups = [means_by_document(value_SxI, one) for value_SxI in sides]
        values = one.value_AxI, one.value_BxI
        self.means = [value_SxI @ one.weight_I / one.weight_I.sum() for value_SxI in values]
        mean_I = (one.value_AxI.mean(axis=0) - one.value_BxI.mean(axis=0)) * one.weight_I
        self.sum_G = np.bincount(place_I, weights=mean_I)
        tell_G = np.round(self.sum_G / self.count_G, 12)
        told, times = np.unique(tell_G, return_counts=True)
        self.alike = float(times.max()) / len(tell_G)
        """Share of the documents that tell one and the same difference, as none."""
        self.apart = self.document_G[tell_G != told[times.argmax()]]
        """The other documents."""

    def effective_documents(self) -> float:
        """How many documents of one size tell as much."""
        return estimate_group_difference(
            [[group] for group in self.groups], [1.0], [0.0], of_recipes=False
        ).effective

    def mean_shift_by_unseen_document(self) -> float:
        """By how much a document moves the mean that is unlike those that are all alike.

        The range of the scores (1 for what lies between 0 and 1), times the share of an average
        document, times the share of documents that are alike less that of the others: in this task,
        since chance makes most tell in one of several. Counted over five tasks, intervals were
        narrower, and held the truth in 92 % where one document in twenty differs in all of them (50
        documents, 5 runs).
        """
        if self.alike <= 0.5:
            return 0.0
        share_G = self.count_G / self.count_G.sum()
        both = self.one.value_AxI, self.one.value_BxI
        least, most = min(v.min() for v in both), max(v.max() for v in both)
        size = 1.0 if least >= 0 and most <= 1 else float(most - least)
        return size * float((share_G**2).sum()) * (2 * self.alike - 1)


class Judgement(NamedTuple):
    """Of a mean over tasks."""

    estimate: Estimate
    p: float | None
    why_no_verdict: str | None


def _judge_mean(tasks: Sequence[_Task], weights: Sequence[float], about_recipes: bool) -> Judgement:
    """The estimate, its p-value, and why no verdict may rest on it."""
    groups = [[one.groups[g] for one in tasks] for g in range(len(tasks[0].groups))]
    shifts = [one.mean_shift_by_unseen_document() for one in tasks]
    found = estimate_group_difference(groups, weights, shifts, of_recipes=about_recipes)
    p = p_values.p_value(found)
    is_binary = len(tasks) == 1 and tasks[0].one.is_binary_and_unweighted
    if p is not None and not about_recipes and is_binary:
        # One run a side: what the exact test by document does not find, is not found.
        runs = math.lcm(len(tasks[0].one.value_AxI), len(tasks[0].one.value_BxI))
        p = max(p, p_values.exact_sign_flip_p(np.rint(tasks[0].sum_G * runs)))
    return Judgement(found, p, _too_few_documents_reason(tasks, found))


def _too_few_documents_reason(tasks: Sequence[_Task], estimate: Estimate) -> str | None:
    if estimate.effective < LEAST_DOCUMENTS:
        few = min(tasks, key=lambda one: one.effective_documents())
        name = f"{few.one.task} has " if len(tasks) > 1 else ""
        count = len(few.count_G)
        documents = "documents" if count > 1 else "document"
        worth = f"{few.effective_documents():.1f}"
        if worth == f"{count:.1f}":
            return f"{name}{count} {documents}; a verdict needs {LEAST_DOCUMENTS}: add documents"
        return (
            f"{name}{count} {documents}; their lengths are so different that they count as only "
            f"{worth} documents; a verdict needs {LEAST_DOCUMENTS}: add documents, or cut long "
            "ones to one maximum length"
        )
    return None


def _build_row(
    facts: Sequence[_Task], judgement: Judgement, p_holm: float | None, tests: int,
    margin: float | None, about_recipes: bool, weights: Sequence[float] | None = None,
) -> Row:  # fmt: skip
    found, p, why = judgement
    p_holm = p_holm if why is None else None
    verdict, level = UNKNOWN, LEVEL / tests
    low, high = mean_difference.interval_ends(found)
    strict = mean_difference.half_width(found, level)
    known = why is None and strict is not None
    if known and margin is not None and abs(found.difference) + (strict or 0.0) < margin:
        verdict = EQUAL
    elif p_holm is not None and p_holm < LEVEL:
        verdict = BETTER if (found.difference > 0) == facts[0].one.higher else WORSE
    open_ = known and verdict == UNKNOWN and found.difference != 0
    names = np.unique(np.concatenate([one.document_G for one in facts]))
    means = [
        float(np.average([one.means[side].mean() for one in facts], weights=weights))
        for side in (0, 1)
    ]
    return Row(
        task=facts[0].one.task if len(facts) == 1 else None,
        metric=facts[0].one.metric if len({one.one.metric for one in facts}) == 1 else "scores",
        higher_is_better=facts[0].one.higher,
        a=means[0],
        b=means[1],
        estimate=found,
        low=low,
        high=high,
        p=p,
        p_holm=p_holm,
        verdict=verdict,
        why_none=why,
        items=sum(len(one.one.weight_I) for one in facts),
        documents=len(names),
        documents_alike=len(names) - len(np.unique(np.concatenate([one.apart for one in facts]))),
        is_same=all(
            np.array_equal(one.one.value_AxI.mean(0), one.one.value_BxI.mean(0)) for one in facts
        ),
        wide=mean_difference.width_ratio_to_interval_without_unseen(found) >= WIDE,
        smallest_shown=detectable_difference(found, level) if known else None,
        runs_wanted=_runs_wanted(found, level) if open_ and about_recipes else None,
        items_wanted=_items_wanted(facts, found, level) if open_ else None,
    )


def _outlying_run_warnings(tasks: Sequence[_Task], runs: Runs) -> list[str]:
    """Runs, or pairs of them, that lie far off from the others, with the tasks where they do.

    The verdict stays: such a run makes the interval wide, and errs less. Without a verdict there
    the others would err more, since the samples that are left spread too little.
    """
    found: dict[str, list[str]] = {}
    for fact in tasks:
        for side, group in enumerate(fact.groups):
            if (
                place := find_outlying_run(*run_means_and_error_terms([group], np.ones(1)))
            ) is not None:
                name = f"{runs[side][place].name} of side {'AB'[side]}"
                if len(fact.groups) == 1:
                    name = f"{runs[0][place].name} minus {runs[1][place].name}"
                found.setdefault(name, []).append(fact.one.task)
    return [
        f"{name} is far from the others on {', '.join(names)}, which makes the interval wide: "
        "did its training fail?"
        for name, names in found.items()
    ]


def _have_common_unit(tasks: Sequence[Paired]) -> bool:
    """Whether scores of all tasks have one unit, so that their mean says something."""
    if len({one.higher for one in tasks}) > 1:
        return False
    return all(one.is_within_one for one in tasks) or len({one.metric for one in tasks}) == 1


def _runs_wanted(estimate: Estimate, level: float) -> float | None:
    size = abs(estimate.difference)
    factor = smallest_sufficient_factor(
        lambda f: detection_power(size, estimate, level, runs=f) >= POWER
    )
    return None if factor is None else float(math.ceil(round(factor * estimate.seeds, 2)))


def _items_wanted(tasks: Sequence[_Task], estimate: Estimate, level: float) -> float | None:
    size, items = abs(estimate.difference), sum(len(one.one.weight_I) for one in tasks)
    factor = smallest_sufficient_factor(
        lambda f: detection_power(size, estimate, level, items=f) >= POWER
    )
    return None if factor is None else float(math.ceil(factor * items))


def _comparison_warnings(facts: Sequence[_Task], runs: Runs, about_recipes: bool) -> list[str]:
    result = []
    for fact in facts:
        one = fact.one
        if left := one.only_a + one.only_b + one.incomplete:
            result.append(
                f"{one.task}: {left} items are left out: {one.only_a} only on side A, {one.only_b} "
                f"only on side B, {one.incomplete} not in all runs"
            )
    result += _outlying_run_warnings(facts, runs) if about_recipes else []
    known: dict[bytes, Run] = {}
    for side, of_side in enumerate(runs):
        for n, run in enumerate(of_side):
            both = ((fact.one.value_AxI, fact.one.value_BxI) for fact in facts)
            scores = b"".join(values[side][n].tobytes() for values in both)
            if (first := known.setdefault(scores, run)) is not run:
                result.append(
                    f"{first.name} and {run.name} have the same score on every item: is one a copy "
                    "of the other? Then give each run once"
                )
    if not about_recipes and max(map(len, runs)) > 1:
        counts = " and ".join(str(len(side)) for side in runs)
        result.append(
            f"the result is about these {counts} runs only: a verdict about recipes needs "
            f"{LEAST_SEEDS} runs on each side"
        )
    return result
