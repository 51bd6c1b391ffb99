"""How much sooner a method is, and stays, where the baseline ends: the paper's "1.9 x".

Shapes: R checkpoints, S seeds, T steps, G documents of one domain or task, B draws.
"""

import itertools
import math
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
    row = {(c.method, c.seed, c.step): i for i, c in enumerate(checkpoints)}
    seeds = sorted(s for s in _seeds(checkpoints, method) if s in _seeds(checkpoints, against))
    shared = [{c.step for c in checkpoints if (c.method, c.seed) == (method, s)} for s in seeds]
    steps = sorted(set.intersection(*shared)) if shared else []
    last = {
        s: max(c.step for c in checkpoints if (c.method, c.seed) == (against, s)) for s in seeds
    }
    used = [row[method, s, t] for s in seeds for t in steps]
    used += [row[against, s, last[s]] for s in seeds]
    kept, weight_K = [_shared(part, used) for part in parts], [part.weight for part in parts]
    if len(steps) < 2 or not kept or not all(count_G.size for _, _, count_G in kept):
        return None
    tokens_T = np.mean([[checkpoints[row[method, s, t]].tokens for t in steps] for s in seeds], 0)
    budget = math.fsum(checkpoints[row[against, s, last[s]]].tokens for s in seeds) / len(seeds)

    def reached(draws: bool) -> tuple[Floats, Floats]:
        # Means over the documents, as they are (one row) or drawn anew: B x R.
        means = [
            paired.bootstrap(sum_RxG, count_G, *names, name)
            if draws
            else sum_RxG.sum(axis=1)[None] / count_G.sum()
            for name, sum_RxG, count_G in kept
        ]
        value_BxR = np.average(means, 0, weight_K)
        value_BxR = -value_BxR if higher else value_BxR
        curve_BxSxT = value_BxR[:, : -len(seeds)].reshape(-1, len(seeds), len(steps))
        target_BxS = value_BxR[:, -len(seeds) :]
        alike_BxS = np.full((1, len(seeds)), 1 / len(seeds))
        weight_BxS = paired.seed_weights(len(seeds), *names) if draws else alike_BxS
        curve_BxT = np.einsum("bst,bs->bt", curve_BxSxT, weight_BxS)
        target_B = (target_BxS * weight_BxS).sum(axis=1)
        return lasting_reach(curve_BxT, target_B, tokens_T), target_B

    (result,), (target,) = reached(False)
    drawn_B, _ = reached(True)
    with np.errstate(divide="ignore"):
        ratio_B = np.where(np.isnan(drawn_B), 0.0, budget / drawn_B)
        ratio = None if np.isnan(result) else float(budget / result)
    low, high = np.quantile(ratio_B, [0.025, 0.975], method="inverted_cdf")
    return Speedup(
        target=float(-target if higher else target),
        tokens=None if np.isnan(result) else float(result),
        baseline_tokens=budget,
        ratio=ratio,
        low=float(low) or None,
        high=float(high) or None,
        reached=float(np.isfinite(drawn_B).mean()),
        p=min(1.0, 2 * max(1 / len(ratio_B), min((ratio_B <= 1).mean(), (ratio_B >= 1).mean()))),
        seeds=len(seeds),
    )


def _seeds(checkpoints: Sequence[CheckpointKey], method: str) -> set[int]:
    return {c.seed for c in checkpoints if c.method == method}


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
                rows.append([*place, *quantity, method, known[0], *_values(result, higher)])
    insert(connection, "speedups", rows)


def _values(speedup: Speedup, percent: bool) -> list[Any]:
    target = 100 * speedup.target if percent else speedup.target
    row = [
        target,
        speedup.tokens,
        speedup.baseline_tokens,
        speedup.ratio,
        speedup.low,
        speedup.high,
    ]
    return [*row, speedup.reached, speedup.p, speedup.seeds]


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
