"""How much sooner a method is, and stays, where the baseline ends: the paper's "1.9 x".

Shapes: R checkpoints, S seeds, T steps, N documents or items of one domain or task, G documents.
"""

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pike_mixing.arrays import Floats
from pike_mixing.comparison import mean_difference, p_values
from pipeline.results.measured_results import CheckpointKey, Curves, MeasuredResults, TaskCurve
from pipeline.results.record_loader import insert_rows

NO_SKILL = ("answer_only",)
"""Metrics that are no skill: there is nothing to reach."""


@dataclass(frozen=True)
class Speedup:
    """From when on a method stays at the baseline's last value; nothing where it does not."""

    target: float
    """The baseline's last value: nats, or a share of 1."""
    tokens: float | None
    baseline_tokens: float
    ratio: float | None
    """The baseline's tokens over the method's: 2 is twice as fast."""
    low: float | None
    """Lower end of the ratio's 95% interval; None where it holds runs that do not get there."""
    high: float | None
    p: float | None
    """Two-sided, of the difference where the baseline ends; None: over too little, or the method
    trains on and loses the lead."""
    seeds: int


def tokens_to_lasting_crossing(value_T: Floats, tokens_T: npt.ArrayLike) -> float | None:
    """Tokens from which on a curve is at zero or below; None where it ends above.

    Straight lines lie between checkpoints, whose trained tokens rise. Of several crossings the last
    counts: what is lost again was not gained.
    """
    at_T = np.asarray(tokens_T, np.float64)
    above = np.flatnonzero(value_T > 0)
    if not len(above):
        return float(at_T[0])
    last = above[-1]
    if last == len(value_T) - 1:
        return None
    share = value_T[last] / (value_T[last] - value_T[last + 1])
    return float(at_T[last] + share * (at_T[last + 1] - at_T[last]))


def speedup(
    parts: Sequence[TaskCurve],
    checkpoints: Sequence[CheckpointKey],
    method: str,
    against: str,
    *,
    higher_is_better: bool = False,
) -> Speedup | None:
    """Compares a method's curve with the baseline's end.

    Both are means over parts (domains or tasks) and over the seeds that both have. At each
    checkpoint the method less the baseline's end has an interval (`mean_difference.half_width`).
    The ends of the ratio's interval are where the upper and the lower ends of these stay at zero or
    below: the times at which a test does not tell the two apart.

    None where the two have no seed, no two steps of all seeds or no document in common, or one
    document alone.
    """
    curves = _curve_and_baseline_ends(checkpoints, method, against)
    if curves is None or not parts:
        return None
    used, seeds, tokens_T, budget = curves
    parts = [part for part in parts if part.weight]
    kept = [_item_sums_by_shared_document(part, used) for part in parts]
    if not all(len(count_G) > 1 for _, count_G, _ in kept):
        return None
    sign, weight_K = -1 if higher_is_better else 1, [part.weight for part in parts]

    def difference_from_baseline_ends(rows_S: npt.NDArray[np.int64]) -> mean_difference.Estimate:
        """The method's checkpoints less the baseline's ends."""
        apart = [
            mean_difference.differences_of_sums(
                sign * (sum_RxG[rows_S] - sum_RxG[-seeds:]), count_G, document_G
            )
            for sum_RxG, count_G, document_G in kept
        ]
        return mean_difference.estimate(apart, weight_K)

    steps = len(tokens_T)
    apart_T = [difference_from_baseline_ends(np.arange(seeds) * steps + t) for t in range(steps)]
    middle_T = np.array([e.difference for e in apart_T])
    half_T = np.array([mean_difference.half_width(e) for e in apart_T], np.float64)
    reach, late, soon = (
        tokens_to_lasting_crossing(middle_T + side * half_T, tokens_T) for side in (0, 1, -1)
    )
    ends = [sum_RxG[-seeds:].sum(axis=1) / count_G.sum() for sum_RxG, count_G, _ in kept]
    at_end = int(np.searchsorted(tokens_T, budget).clip(max=steps - 1))
    ratio, low, high = (
        None if tokens is None else budget / tokens if tokens else math.inf
        for tokens in (reach, late, soon)
    )
    ahead = ratio is not None and ratio >= 1
    return Speedup(
        target=float(np.average(np.mean(ends, axis=1), weights=weight_K)),
        tokens=reach,
        baseline_tokens=budget,
        ratio=ratio,
        low=low,
        high=high,
        p=p_values.p_value_if_enough(apart_T[at_end]) if ahead == (middle_T[at_end] <= 0) else None,
        seeds=seeds,
    )


class _CurveAndBaselineEnds(NamedTuple):
    """The checkpoints that are compared, over the S seeds of both methods."""

    used: list[int]
    """Those of the method, by seed and step, then the baseline's last of each seed."""
    seeds: int
    tokens_T: Floats
    """Trained tokens of the method's checkpoints, mean over seeds."""
    budget: float
    """Those of the baseline's last."""


def _curve_and_baseline_ends(
    checkpoints: Sequence[CheckpointKey], method: str, baseline: str
) -> _CurveAndBaselineEnds | None:
    """What is compared of two methods; None without a common seed or two common steps.

    Seeds of which the method's last checkpoint alone was evaluated are left out.
    """
    row = {(c.method, c.seed, c.step): i for i, c in enumerate(checkpoints)}
    steps_of: dict[tuple[str, int], set[int]] = defaultdict(set)
    for c in checkpoints:
        steps_of[c.method, c.seed].add(c.step)
    with_curve = ((name, s) for (name, s), steps in steps_of.items() if len(steps) > 1)
    seeds = sorted(s for name, s in with_curve if name == method and (baseline, s) in steps_of)
    shared = [steps_of[method, s] for s in seeds]
    steps = sorted(set.intersection(*shared)) if shared else []
    if len(steps) < 2:
        return None
    of_method = [[row[method, s, t] for t in steps] for s in seeds]
    ends = [row[baseline, s, max(steps_of[baseline, s])] for s in seeds]
    tokens_T = np.mean([[checkpoints[i].tokens for i in rows] for rows in of_method], 0)
    budget = math.fsum(checkpoints[i].tokens for i in ends) / len(seeds)
    used = [*itertools.chain(*of_method), *ends]
    return _CurveAndBaselineEnds(used, len(seeds), tokens_T, budget)


def _item_sums_by_shared_document(
    part: TaskCurve, used: list[int]
) -> tuple[Floats, Floats, npt.NDArray[Any]]:
    """Sums R x G over the documents of what all the used rows have, counts and names."""
    value_RxN = part.value_RxN[used]
    shared_N = np.isfinite(value_RxN).all(axis=0)
    document_G, document_N = np.unique(part.document_N[shared_N], return_inverse=True)
    by_row = [np.bincount(document_N, row_N) for row_N in value_RxN[:, shared_N]]
    count_G = np.bincount(document_N, part.count_N[shared_N])
    return np.asarray(by_row, np.float64), np.asarray(count_G, np.float64), document_G


def fill_speedups(measured: MeasuredResults) -> None:
    """Fills speedups: every method against the baseline, by mean loss and by mean accuracy."""
    baseline = measured.baseline
    rows = []
    for place, quantity, curves in [*_mean_loss_curves(measured), *_mean_accuracy_curves(measured)]:
        higher, parts = quantity[0] != "loss", [*curves.by_name.values()]
        for method in dict.fromkeys(c.method for c in curves.checkpoints):
            if method == baseline:
                continue
            result = speedup(parts, curves.checkpoints, method, baseline, higher_is_better=higher)
            if result is not None:
                values = dataclasses.asdict(result)
                values["target"] *= 100 if higher else 1
                rows.append([*place, *quantity, method, baseline, *values.values()])
    insert_rows(measured.connection, "speedups", rows)


class _MeanCurves(NamedTuple):
    """Curves of one quantity that is a mean over them."""

    place: tuple[str, str]
    """Scenario and model."""
    quantity: tuple[Any, ...]
    """Quantity, shots, formulation, metric."""
    curves: Curves


def _mean_loss_curves(measured: MeasuredResults) -> Iterator[_MeanCurves]:
    """Curves of the mean loss."""
    for place in measured.places:
        yield _MeanCurves(place, ("loss", None, None, None), measured.losses(*place))


def _mean_accuracy_curves(measured: MeasuredResults) -> Iterator[_MeanCurves]:
    """Curves of the mean over tasks (mean_tasks), which all checkpoints must have answered."""
    block = attrgetter("scenario", "model", "shots", "formulation")
    tasks = [t for t in measured.answered_tasks if (t.scenario, t.task) in measured.tasks_in_mean]
    for (scenario, model, shots, formulation), same in itertools.groupby(
        sorted(tasks, key=block), key=block
    ):
        answered = {one.task: measured.outcomes(one) for one in same}
        first, *others = answered.values()
        kept = [c for c in first.checkpoints if all(c in one.checkpoints for one in others)]
        rows = {task: [*map(one.checkpoints.index, kept)] for task, one in answered.items()}
        shared = set.intersection(*(set(one.by_name) for one in answered.values()))
        for metric in sorted(shared.difference(NO_SKILL)):
            parts = {}
            for task, one in answered.items():
                curve = one.by_name[metric]
                parts[task] = replace(curve, value_RxN=curve.value_RxN[rows[task]])
            quantity = ("accuracy", shots, formulation, metric)
            yield _MeanCurves((scenario, model), quantity, Curves(kept, parts))
