"""A schedule from losses over steps of runs that are there: the linear dynamic law (2411.05735).

    L_i(s + 1) = L_i(s) - sum_j A_ij(s) p_j(s)

Aioli's law: within a stage s of the run, each domain's rows lower each loss by so much. Aioli
estimates A while it trains; here it is fitted to the stages of many runs, by least squares, and the
weights follow from it by Aioli's formula: A without negative entries and of sum 1, p ~ exp(eta
times the sums of its columns), which the target weighs.

What a stage teaches is taken not to depend on the stages before: two phases whose worth lies in
their order are found by a law of both phases (`fit mixing-law --phases`), not by this one.

Shapes: K domains, M losses, N runs, S stages.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders.interface import Proxy, Swarm
from pike_mixing.numerics.simplex import softmax
from pike_mixing.rules.aioli import nonnegative_graph_of_sum_one

SPREAD = 1e-3
"""Least singular value of a stage's mixtures: the noise of losses is multiplied by its inverse."""


@dataclass(frozen=True)
class Stages:
    """What runs did in each stage."""

    domains: tuple[str, ...]
    losses: tuple[str, ...]
    at_S: Floats
    """Share of the run at which each stage begins."""
    weights_SxNxK: Floats
    """Mean weights of each run in each stage."""
    fall_SxNxM: Floats
    """By how much each loss fell in it, nats."""


def cut_into_stages(swarm: Swarm, count: int) -> Stages:
    """Cuts runs into stages of as many steps each, as near as their rows allow.

    Each row is named by its run: `tokens` says where that stood, `weights_K` what it was trained on
    since the row before, `loss_K` its losses there.
    """
    if any(row.tokens is None for row in swarm.runs):
        raise InputError(
            "stages: the rows do not say where in the run they stand: give a column `tokens`, or "
            "name it (--size-columns tokens=NAME)"
        )
    runs: dict[str, list[Proxy]] = defaultdict(list)
    for row in swarm.runs:
        runs[row.name].append(row)
    ordered = [sorted(rows, key=lambda row: row.tokens or 0) for rows in runs.values()]
    places = {tuple(row.tokens or 0 for row in rows) for rows in ordered}
    if len(places) != 1:
        raise InputError("the rows of all runs must stand at the same steps: leave the others out")
    at_P = np.array(next(iter(places)), dtype=np.float64)
    ends = np.linspace(at_P[0], at_P[-1], count + 1)
    cut_S1 = np.array([int(np.abs(at_P - end).argmin()) for end in ends])
    if count < 1 or len(np.unique(cut_S1)) <= count:
        raise InputError(
            f"stages: {len(at_P)} steps with losses do not make {count}: ask for fewer"
        )
    weights_NxPxK = np.array([[row.weights_K for row in rows] for rows in ordered])
    loss_NxPxM = np.array([[row.loss_K for row in rows] for rows in ordered])
    step_P = np.diff(at_P, prepend=at_P[0])
    weights_SxNxK = [
        np.average(weights_NxPxK[:, a + 1 : b + 1], axis=1, weights=step_P[a + 1 : b + 1])
        for a, b in itertools.pairwise(cut_S1)
    ]
    return Stages(
        swarm.domains,
        swarm.losses,
        at_P[cut_S1[:-1]] / at_P[-1],
        np.array(weights_SxNxK),
        -np.diff(loss_NxPxM[:, cut_S1], axis=1).swapaxes(0, 1),
    )


def find_schedule(stages: Stages, target: Mapping[str, float], eta: float = 1.0) -> Floats:
    """Weights [S, K] of each stage by Aioli's formula."""
    target_M = by_domain.shares_in_order(target, stages.losses, "target")
    parts = zip(stages.weights_SxNxK, stages.fall_SxNxM, strict=True)
    return np.array([_stage_weights(*part, target_M, eta) for part in parts])


def _stage_weights(weights_NxK: Floats, fall_NxM: Floats, target_M: Floats, eta: float) -> Floats:
    K = weights_NxK.shape[1]
    if np.linalg.matrix_rank(weights_NxK, tol=SPREAD) < K:
        raise InputError(
            f"the runs' mixtures of a stage are averages of fewer than {K}, or nearly so: nothing "
            "tells their domains apart; add runs of other mixtures"
        )
    graph_MxK = nonnegative_graph_of_sum_one(np.linalg.lstsq(weights_NxK, fall_NxM)[0].T)
    return softmax(eta * (len(target_M) * target_M) @ graph_MxK)
