"""How much sooner a method is, and stays, where the baseline ends: the paper's "1.9 x".

Shapes: R checkpoints, S seeds, T steps, G documents of one domain or task, B draws.
"""

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pandas  # noqa: F401 - DuckDB would import it at the first data frame

from pipeline.results import comparisons, outcomes
from pipeline.results.outcomes import CheckpointKey
from pipeline.results.record_loader import insert
from pipeline.statistics import paired
from pipeline.statistics.paired import Floats

NO_SKILL = ("answer_only",)
"""Metrics that are no skill: there is nothing to reach."""

DOCUMENTS = """
    select r.method, r.seed, d.step, r.tokens * d.step / r.steps as trained, d.domain, d.document,
        d.nll, d.tokens
    from documents as d
    join runs as r on d.run = r.run
    where r.scenario = $1 and r.model = $2
    order by r.method, r.seed, d.step, d.domain, d.document
"""


@dataclass(frozen=True)
class TaskCurve:
    """One domain or task: what the checkpoints made of its documents or items."""

    name: str
    value_RxN: Floats
    """Losses or points; no number where a checkpoint lacks one."""
    count_N: npt.NDArray[Any]
    """Tokens of a document; 1 for an item."""
    document_N: npt.NDArray[Any]
    """The document of each."""
    weight: float = 1.0
    """In the mean over domains or tasks."""


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
    reached: float
    """Share of the draws in which the method gets there, and stays."""
    p: float
    """Two-sided: twice the share of the draws in which the ratio is on the other side of 1."""
    seeds: int


def lasting_reach(value_BxT: Floats, target_B: Floats, tokens_T: npt.ArrayLike) -> Floats:
    """Tokens from which on each curve is at its target or below; no number where it ends above.

    Straight lines between checkpoints: 5 after 100 tokens and 3 after 200 reach 4.5 after 125. Of
    several crossings the last counts: what is lost again was not gained.

    Args:
        value_BxT: The curves at each checkpoint; lower is better.
        target_B: The target of each.
        tokens_T: Trained tokens of the checkpoints, rising.
    """
    at_T = np.asarray(tokens_T, np.float64)
    above_BxT = value_BxT > target_B[:, None]
    # The checkpoint behind the last one above; the end where that is the last of all.
    behind_B = above_BxT.shape[1] - above_BxT[:, ::-1].argmax(axis=1)
    end_B = np.where(above_BxT.any(axis=1), behind_B, 0).clip(max=above_BxT.shape[1] - 1)
    start_B = np.maximum(end_B - 1, 0)
    row_B = np.arange(len(value_BxT))
    fall_B = value_BxT[row_B, start_B] - value_BxT[row_B, end_B]
    left_B = value_BxT[row_B, start_B] - target_B
    share_B = np.divide(left_B, fall_B, out=np.zeros_like(left_B), where=fall_B > 0)
    reach_B = at_T[start_B] + share_B * (at_T[end_B] - at_T[start_B])
    return np.where(above_BxT[:, -1], np.nan, reach_B)


def speedup(
    parts: Sequence[TaskCurve],
    checkpoints: Sequence[CheckpointKey],
    method: str,
    against: str,
    *names: str,
    higher: bool = False,
) -> Speedup | None:
    """Compares a method's curve with the baseline's end.

    Both are means over parts and over the seeds that both have. The interval is that of draws:
    documents are drawn anew within each part, the same for all checkpoints, and seeds, in pairs, by
    `paired.seed_weights`, which is as wide as Student's t.

    Args:
        parts: The domains or tasks.
        checkpoints: What the rows of the parts are.
        method: The method in question.
        against: The baseline.
        names: What the random numbers depend on.
        higher: Whether higher values are better.

    Returns:
        None where the two have no seed, no two steps of all seeds or no document in common.
    """
    curves = _curves(checkpoints, method, against)
    if curves is None or not parts:
        return None
    sign, weight_K = -1 if higher else 1, [part.weight for part in parts]
    kept = [_shared(part, curves.rows) for part in parts]
    if not all(count_G.size for _, _, count_G in kept):
        return None
    exact = [sum_RxG.sum(axis=1)[None] / count_G.sum() for _, sum_RxG, count_G in kept]
    drawn = [paired.bootstrap(sum_RxG, count_G, *names, name) for name, sum_RxG, count_G in kept]
    alike_1xS = np.full((1, curves.seeds), 1 / curves.seeds)
    (reach,), (target,) = curves.reached(sign * np.average(exact, 0, weight_K), alike_1xS)
    weight_BxS = paired.seed_weights(curves.seeds, *names)
    reach_B, _ = curves.reached(sign * np.average(drawn, 0, weight_K), weight_BxS)
    with np.errstate(divide="ignore"):
        ratio_B = np.where(np.isnan(reach_B), 0.0, curves.budget / reach_B)
        ratio = None if np.isnan(reach) else float(curves.budget / reach)
    low, high = np.quantile(ratio_B, [0.025, 0.975], method="inverted_cdf")
    return Speedup(
        target=float(sign * target),
        tokens=None if np.isnan(reach) else float(reach),
        baseline_tokens=curves.budget,
        ratio=ratio,
        low=float(low) or None,
        high=float(high) or None,
        reached=float(np.isfinite(reach_B).mean()),
        p=min(1.0, 2 * max(1 / len(ratio_B), min((ratio_B <= 1).mean(), (ratio_B >= 1).mean()))),
        seeds=curves.seeds,
    )


@dataclass(frozen=True)
class _Curves:
    """The checkpoints of two methods that are compared, over the S seeds of both."""

    rows: list[int]
    """Those of the method, by seed and step, then the baseline's last of each seed."""
    seeds: int
    tokens_T: Floats
    """Trained tokens of the method's checkpoints, mean over seeds."""
    budget: float
    """Those of the baseline's last."""

    def reached(self, value_BxR: Floats, weight_BxS: Floats) -> tuple[Floats, Floats]:
        """Tokens until the target is reached, and the target, by draw; lower values are better."""
        steps = len(self.tokens_T)
        curve_BxSxT = value_BxR[:, : -self.seeds].reshape(-1, self.seeds, steps)
        curve_BxT = np.einsum("bst,bs->bt", curve_BxSxT, weight_BxS)
        target_B = (value_BxR[:, -self.seeds :] * weight_BxS).sum(axis=1)
        return lasting_reach(curve_BxT, target_B, self.tokens_T), target_B


def _curves(checkpoints: Sequence[CheckpointKey], method: str, against: str) -> _Curves | None:
    """What is compared of two methods; None without a common seed or two common steps."""
    row = {(c.method, c.seed, c.step): i for i, c in enumerate(checkpoints)}
    steps_of: dict[tuple[str, int], set[int]] = defaultdict(set)
    for c in checkpoints:
        steps_of[c.method, c.seed].add(c.step)
    seeds = sorted(s for name, s in steps_of if name == method and (against, s) in steps_of)
    shared = [steps_of[method, s] for s in seeds]
    steps = sorted(set.intersection(*shared)) if shared else []
    if len(steps) < 2:
        return None
    of_method = [[row[method, s, t] for t in steps] for s in seeds]
    ends = [row[against, s, max(steps_of[against, s])] for s in seeds]
    tokens_T = np.mean([[checkpoints[i].tokens for i in rows] for rows in of_method], 0)
    budget = math.fsum(checkpoints[i].tokens for i in ends) / len(seeds)
    return _Curves([*itertools.chain(*of_method), *ends], len(seeds), tokens_T, budget)


def _shared(part: TaskCurve, used: list[int]) -> tuple[str, Floats, Floats]:
    """Name, R x G and G: sums over the documents of what all the used rows have."""
    value_RxN = part.value_RxN[used]
    shared_N = np.isfinite(value_RxN).all(axis=0)
    document_N = np.unique(part.document_N[shared_N], return_inverse=True)[1]
    by_row = [np.bincount(document_N, row_N) for row_N in value_RxN[:, shared_N]]
    count_G = np.bincount(document_N, part.count_N[shared_N])
    return part.name, np.asarray(by_row, np.float64), np.asarray(count_G, np.float64)


def fill(connection: duckdb.DuckDBPyConnection) -> None:
    """Fills speedups: every method against the baseline, by mean loss and by mean accuracy."""
    known = connection.execute("select baseline from experiment").fetchone()
    assert known is not None
    rows = []
    for place, quantity, parts, checkpoints in [*_losses(connection), *_accuracies(connection)]:
        higher = quantity[0] != "loss"
        for method in dict.fromkeys(c.method for c in checkpoints):
            if method == known[0]:
                continue
            result = speedup(parts, checkpoints, method, known[0], *place, higher=higher)
            if result is not None:
                values = dataclasses.asdict(result)
                values["target"] *= 100 if higher else 1
                rows.append([*place, *quantity, method, known[0], *values.values()])
    insert(connection, "speedups", rows)


Curves = tuple[tuple[str, str], tuple[Any, ...], list[TaskCurve], list[CheckpointKey]]
"""Scenario and model; quantity, shots, formulation, metric; parts; what their rows are."""


def _losses(connection: duckdb.DuckDBPyConnection) -> Iterator[Curves]:
    """Curves of the mean loss; documents of one name and length are one, as in paired_domains."""
    result = connection.execute("select scenario, domain, target from domains").fetchall()
    targets = {(scenario, domain): target for scenario, domain, target in result}
    places = "select distinct scenario, model from runs order by all"
    for scenario, model in connection.execute(places).fetchall():
        rows = connection.execute(DOCUMENTS, [scenario, model]).df()
        if rows.empty:
            continue
        table = rows.pivot(
            index=["method", "seed", "step", "trained"],
            columns=["domain", "document", "tokens"],
            values="nll",
        ).sort_index(axis=1)
        parts = [
            TaskCurve(
                domain,
                table[domain].to_numpy(),
                table[domain].columns.get_level_values("tokens").to_numpy(np.float64),
                np.arange(table[domain].shape[1]),
                targets.get((scenario, domain), 1.0),
            )
            for domain in table.columns.unique("domain")
        ]
        checkpoints = [CheckpointKey(*key) for key in table.index]
        yield (scenario, model), ("loss", None, None, None), parts, checkpoints


def _accuracies(connection: duckdb.DuckDBPyConnection) -> Iterator[Curves]:
    """Curves of the mean over tasks (mean_tasks), which all checkpoints must have answered."""
    kept = comparisons.mean_tasks(connection)

    def block(group: outcomes.Group) -> tuple[str, str, int, str]:
        scenario, model, _, shots, formulation = group
        return scenario, model, shots, formulation

    groups = sorted((g for g in outcomes.groups(connection) if (g[0], g[2]) in kept), key=block)
    for (scenario, model, shots, formulation), same in itertools.groupby(groups, key=block):
        answered = [outcomes.read(connection, group, every=True) for group in same]
        runs = [run for run in answered[0].runs if all(run in a.runs for a in answered)]
        shared = set.intersection(*(set(a.points) for a in answered))
        for metric in sorted(shared.difference(NO_SKILL)):
            parts = [_answered(a, metric, runs) for a in answered]
            yield (scenario, model), ("accuracy", shots, formulation, metric), parts, runs


def _answered(answered: outcomes.Outcomes, metric: str, runs: list[CheckpointKey]) -> TaskCurve:
    place = {run: row for row, run in enumerate(answered.runs)}
    points_RxI = answered.points[metric][[place[run] for run in runs]]
    alone_I = np.ones(points_RxI.shape[1])
    return TaskCurve(answered.task, points_RxI, alone_I, answered.document_I)
