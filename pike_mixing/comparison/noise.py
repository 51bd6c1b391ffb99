"""The noise of a recipe from its runs: over seeds, over items, and which differences they find.

Shapes: S runs, G documents.
"""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from pike_mixing.comparison import mean_difference, scores
from pike_mixing.comparison.detectable import detectable_difference
from pike_mixing.comparison.group_difference import find_outlying_run
from pike_mixing.comparison.long_table import EVERY
from pike_mixing.comparison.mean_difference import LEAST_SEEDS, LEVEL, Estimate
from pike_mixing.comparison.p_values import holm_adjusted
from pike_mixing.comparison.report import aligned_lines
from pike_mixing.comparison.scores import Column, Scores
from pike_mixing.comparison.verdicts import means_by_document
from pike_mixing.errors import InputError, names_text

SEEDS = (1, 2, 3, 5, 10)
MOST_OF_ONE = 0.5
"""A run without which the variance is smaller than this share of it makes most of the spread."""


@dataclass(frozen=True)
class Noise:
    """Of one recipe on one task."""

    recipe: str
    task: str
    metric: str
    runs: list[str]
    sd: float
    """Over seeds, on these items."""
    means: list[float]
    """Of the runs."""
    sd_low: float
    sd_high: float
    """95 % interval of `sd`, where seeds are normal."""
    error_of_items: float | None
    """Error of a score from the choice of items."""
    error_of_items_of_a_difference: float | None
    """The same of the difference of two runs of the recipe."""
    smallest_shown: dict[int, float | None]
    """By number of seeds on each side, the smallest difference found with 80 % probability."""
    warnings: list[str]


def estimate_noise(column: Column, runs: Sequence[scores.Run], most_missing: float) -> Noise:
    """The noise of one recipe on one task.

    Two recipes with this SD are assumed to differ on no item more than two runs of one do. One and
    two seeds on each side are judged by the SD measured here, more by their own. A share of items
    up to `most_missing`, which not all runs have, is left out.

    Raises:
        InputError: there are fewer than three runs, or they do not share their items.
    """
    recipe = recipe_name(runs[0].side)
    if len(runs) < LEAST_SEEDS:
        raise InputError(
            f"{recipe}: {len(runs)} run{'s' if len(runs) > 1 else ''} of {column.task}: the SD "
            f"of seeds needs at least {LEAST_SEEDS} runs of one recipe: give more, or the folder "
            "that holds them, or name other recipes with --models"
        )
    paired = scores.pair_runs(column, (runs, runs), {}, most_missing)
    part = means_by_document(paired.value_AxI, paired)
    mean_S, degrees = part.by_seed_S, len(runs) - 1
    sd = float(mean_S.std(ddof=1))
    low, high = (
        sd * math.sqrt(degrees / special.chdtri(degrees, q)) for q in (LEVEL / 2, 1 - LEVEL / 2)
    )
    alone = mean_difference.estimate([part])
    apart = float(part.error_SxG.var(axis=0, ddof=1).sum()) * 2
    of_difference = None if math.isnan(apart) else math.sqrt(apart)
    shown: dict[int, float | None] = dict.fromkeys(SEEDS)
    for count in SEEDS if sd else ():
        own = count >= LEAST_SEEDS
        found = Estimate(
            0.0,
            of_seeds=sd * math.sqrt(2 / count),
            of_items=0.0,
            seeds=count if own else len(runs),
            degrees=alone.degrees,
            welch=float(2 * (count - 1) if own else degrees),
        )
        shown[count] = detectable_difference(found)
    names = [run.name for run in runs]
    return Noise(
        recipe,
        column.task,
        column.metric,
        names,
        sd,
        mean_S.tolist(),
        low,
        high,
        # Of a mean that is shown, without a verdict.
        None if alone.of_items is None else alone.of_items / math.sqrt(alone.factor),
        of_difference,
        shown,
        _noise_warnings(part, names),
    )


def recipe_name(side: str) -> str:
    """The name of a recipe: runs on one side, that differ in their seed alone."""
    # Of logs that were given one by one, which have no name together.
    return "these runs" if side == EVERY else side


def _noise_warnings(part: mean_difference.DocumentDifferences, names: Sequence[str]) -> list[str]:
    mean_S = part.by_seed_S
    # The variance of equal numbers may be 1e-34.
    if np.ptp(mean_S) == 0:
        return ["all runs have the same mean: does each run have a different seed?"]
    whole = float(mean_S.var(ddof=1))
    place = int(abs(mean_S - mean_S.mean()).argmax())
    rest = float(np.delete(mean_S, place).var(ddof=1))
    if (
        len(mean_S) > LEAST_SEEDS
        and rest < MOST_OF_ONE * whole
        and find_outlying_run(mean_S, part.error_SxG) is not None
    ):
        return [
            f"{names[place]} causes {1 - rest / whole:.0%} of the variance: without it the SD is "
            f"{math.sqrt(rest):.4g}"
        ]
    return []


def unequal_noise_warnings(noises: Sequence[Noise]) -> list[str]:
    """Pairs of recipes whose spread differs on a task, by the F test, over all pairs by Holm."""
    pairs = [
        (a, b) if a.sd >= b.sd else (b, a)
        for a, b in itertools.combinations(noises, 2)
        if a.task == b.task and min(a.sd, b.sd) > 0
    ]
    p_M = [
        min(1.0, 2 * float(special.fdtrc(len(a.runs) - 1, len(b.runs) - 1, (a.sd / b.sd) ** 2)))
        for a, b in pairs
    ]
    return [
        f"{a.task}: the SD of {a.recipe} is {a.sd / b.sd:.2g} times that of {b.recipe} "
        f"(p = {p:.2g}): do not use the noise of one recipe for the other"
        for (a, b), p in zip(pairs, holm_adjusted(p_M), strict=True)
        if p is not None and p < LEVEL
    ]


def noise_text(
    scores: Scores, columns: Sequence[Column], most_missing: float, format: Literal["text", "json"]
) -> str:
    """The noise of all recipes and tasks as text or JSON."""
    recipes = sorted({run.side for column in columns for run in column.rows_by_run})
    try:
        found = [
            estimate_noise(column, scores.runs(side), most_missing)
            for side in recipes
            for column in columns
        ]
    except InputError as error:
        raise scores.error_with_notes(str(error)) from None
    warnings = [*scores.all_notes(), *unequal_noise_warnings(found)]
    if format == "json":
        return json.dumps(
            {"recipes": [*map(vars, found)], "warnings": warnings}, indent=2, allow_nan=False
        )
    return "\n".join(
        [*_recipes_of_logs_lines(scores), _noise_table(found), *_closing_lines(found, warnings)]
    )


def _recipes_of_logs_lines(scores: Scores) -> list[str]:
    """Which runs count as those of one recipe, where the paths of logs alone say so."""
    sides = dict.fromkeys([EVERY, *(log.side for log in scores.logs.values())])
    named = {side: [run.name for run in scores.runs(side)] for side in sides}
    lines = [
        f"{recipe_name(side)}: runs of one recipe: {names_text(names)}"
        for side, names in named.items()
        if names
    ]
    if len(lines) == 1:
        lines[0] += ". If they are several recipes, give one folder for each."
    return [*lines, ""] if lines else []


def _noise_table(noises: Sequence[Noise]) -> str:
    head = ["recipe", "task", "runs", "mean", "SD of seeds", "95 % interval", "error by items"]
    head += [f"{count} seed{'s' if count > 1 else ''}" for count in SEEDS]
    table = [head]
    for one in noises:
        items = "" if one.error_of_items is None else f"{one.error_of_items:.4f}"
        cells = [one.recipe, one.task, str(len(one.runs)), f"{np.mean(one.means):.4f}"]
        cells += [f"{one.sd:.4f}", f"{one.sd_low:.4f} to {one.sd_high:.4f}", items]
        table.append(cells + ["" if d is None else f"{d:.4f}" for d in one.smallest_shown.values()])
    return "\n".join(aligned_lines(table, range(2, len(head))))


def _closing_lines(noises: Sequence[Noise], warnings: Sequence[str]) -> list[str]:
    lines = [
        "",
        "error by items: error from the choice of items.",
        "1 to 10 seeds on each side: the smallest difference between two recipes with this SD that",
        "is found with 80 % probability. For 1 or 2 seeds, the SD in the table is used. With 3 or",
        "more, the SD is estimated from those seeds: the number for 3 can be larger than for 2.",
    ]
    lines += [
        f"WARNING: {one.recipe}, {one.task}: {said}" for one in noises for said in one.warnings
    ]
    return lines + [f"WARNING: {said}" for said in warnings]
