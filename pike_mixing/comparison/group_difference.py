"""Two groups of runs on the same items: the difference of their means and its error.

Shapes: S runs of one group, K tasks, G documents of a task, N documents of all tasks.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.comparison import mean_difference
from pike_mixing.comparison.distributions import two_sided_t_p
from pike_mixing.comparison.mean_difference import DocumentDifferences, Estimate

FAR_OFF = 0.001
"""Level at which one run counts as far off from the others of its recipe."""
BEYOND_ITEMS = 3.0
"""So many errors from what is random in run and document: what is less may be chance on items."""


def estimate_group_difference(
    one_or_two_groups: Sequence[Sequence[DocumentDifferences]],
    task_weights: Sequence[float],
    unseen_document_shifts: Sequence[float],
    *,
    of_recipes: bool,
) -> Estimate:
    """The difference of two groups' means over runs, documents and tasks, with its error.

    The runs of two groups need not be paired. With S_a and S_b of them, u_ag what document g adds
    to the mean of run a, and M = sum_g (mean_a u_ag - mean_b u_bg)^2,

        of_seeds^2 = SD_a^2 / S_a + SD_b^2 / S_b,
        of_items^2 = M - sum_g var_a(u_ag) / S_a - sum_g var_b(u_bg) / S_b, at least 0,

    with Welch's degrees of freedom: `mean_difference.estimate` where runs are paired, when the one
    group is that of their differences. Runs that stand for themselves have no error of seeds, and
    of_items^2 = M.

    Args:
        one_or_two_groups: Parts of both groups, or of the differences of paired runs; by group all
            tasks.
        task_weights: Of the tasks in the mean.
        unseen_document_shifts: By task as `Estimate.unseen`.
        of_recipes: Whether the runs stand for more of their recipes: at least two of each group.
    """
    groups, tasks = one_or_two_groups, range(len(task_weights))
    apart = [_difference_of_run_means(*(group[k] for group in groups)) for k in tasks]
    base = mean_difference.estimate(apart, task_weights)
    weight_K = np.array(task_weights, np.float64) / math.fsum(task_weights)
    names = [one.document_G for one in apart]
    shared = len(np.unique(np.concatenate(names))) < sum(map(len, names))
    shift_K = weight_K * unseen_document_shifts
    base = replace(base, unseen=float((sum if shared else max)(shift_K)))
    if not of_recipes:
        return replace(base, seeds=min(len(group[0].by_seed_S) for group in groups))
    of_groups = [run_means_and_error_terms(group, weight_K) for group in groups]
    variances = [means_S.var(ddof=1) / len(means_S) for means_S, _ in of_groups]
    both = sum(error_SxN.var(axis=0, ddof=1).sum() / len(error_SxN) for _, error_SxN in of_groups)
    # What is rounding of equal runs is no spread.
    of_seeds = math.sqrt(sum(variances)) if sum(variances) > 1e-24 else 0.0
    degrees = [len(means_S) - 1 for means_S, _ in of_groups]
    below = sum(v**2 / d for v, d in zip(variances, degrees, strict=True))
    items = None
    if base.of_items is not None:
        items = math.sqrt(max(0.0, base.of_items**2 - float(both)))
    return replace(
        base,
        of_seeds=of_seeds,
        of_items=items,
        seeds=min(degrees) + 1,
        welch=float(sum(variances) ** 2 / below) if below else float(sum(degrees)),
    )


def _difference_of_run_means(
    group: DocumentDifferences, minus: DocumentDifferences | None = None
) -> DocumentDifferences:
    """The mean over a group's runs, less that of the group `minus` where it is given."""
    mean, error_G = group.by_seed_S.mean(keepdims=True), group.error_SxG.mean(axis=0, keepdims=True)
    if minus is not None:
        mean = mean - minus.by_seed_S.mean(keepdims=True)
        error_G = error_G - minus.error_SxG.mean(axis=0, keepdims=True)
    return replace(group, by_seed_S=mean, error_SxG=error_G)


def run_means_and_error_terms(
    parts: Sequence[DocumentDifferences], weight_K: Floats
) -> tuple[Floats, Floats]:
    """The runs' means [S] over tasks, and what each document adds to each of them [S x N].

    Given is one group by task; the tasks' weights sum to 1.
    """
    _, place_J = np.unique(np.concatenate([p.document_G for p in parts]), return_inverse=True)
    places = np.split(place_J, np.cumsum([len(p.document_G) for p in parts])[:-1])
    error_SxN = np.zeros((len(parts[0].by_seed_S), place_J.max() + 1))
    for one, weight, place_G in zip(parts, weight_K, places, strict=True):
        error_SxN[:, place_G] += weight * one.error_SxG
    return weight_K @ [p.by_seed_S for p in parts], error_SxN


def find_outlying_run(means_S: Floats, error_SxN: Floats) -> int | None:
    """The run whose mean lies far off from all others, by Grubbs' test; None where none does.

    Their spread is then that of one run: a mean over such runs has no interval to go by. Three runs
    are too few to tell, and a run that differs on a few items is none: `error_SxN` is what
    documents add to each mean.
    """
    count, apart_S = len(means_S), abs(means_S - means_S.mean())
    place = int(apart_S.argmax())
    chance = math.sqrt(((error_SxN[place] - error_SxN.mean(axis=0)) ** 2).sum())
    if count < 4 or not apart_S[place] or apart_S[place] <= BEYOND_ITEMS * chance:
        return None
    ratio = apart_S[place] / means_S.std(ddof=1)
    rest = (count - 1) ** 2 / count - ratio**2
    t = math.inf if rest <= 0 else ratio * math.sqrt((count - 2) / rest)
    return place if count * two_sided_t_p(t, count - 2) < FAR_OFF else None
