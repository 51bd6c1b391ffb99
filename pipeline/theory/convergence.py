"""Iterations until all gradients are small: conceptual PiKE beside uniform mixing, and the bounds.

The bounds are those of `thm:IterationComplexityConceptualPiKe`, `eq:PiKEIterationComplexity` and
`eq:UniformIterationComplexity`; the runs are of Algorithm `alg: Basic PiKE`, rounded counts and
all, and of uniform mixing, on quadratic losses.

Two targets, which the paper does not tell apart: that of its theorem, max_k E|g_k|^2 <= delta, and
that of its analysis of uniform mixing, E|sum_k g_k|^2 <= delta.

Shapes: K domains, D parameters, N paths, T steps.
"""

import math
from dataclasses import dataclass

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.interface import Signals
from pike_mixing.rules.pike import ConceptualPiKE
from pipeline.theory.problem import Problem, Row, axis_problem, leaning_problem, vector

DELTA, ROWS = 0.1, 64
"""delta and the batch size b of all runs."""
HORIZON = 80
"""Steps after which a run that has not reached its target ends."""


@dataclass(frozen=True)
class ConvergenceConstants:
    """What both bounds are made of."""

    L: float
    """Lipschitz constant of the gradient of the losses' sum: see descent.py."""
    beta: float
    gamma: float
    delta: float
    b: int
    gap: float
    """Delta_L: how far the first loss lies above the lowest one."""
    variance_K: tuple[float, ...]
    """sigma_k^2."""

    def pike_step_size(self) -> float:
        """The theorem's largest step size: beta delta / (L sigma_max^2 / b + L gamma delta)."""
        noise = max(self.variance_K) / self.b
        return self.beta * self.delta / (self.L * (noise + self.gamma * self.delta))

    def pike_iteration_bound(self) -> float:
        """T-bar = 2 L Delta_L (sigma_max^2 / b + gamma delta) / (delta^2 beta^2)."""
        noise = max(self.variance_K) / self.b
        above = 2 * self.L * self.gap * (noise + self.gamma * self.delta)
        return above / (self.delta * self.beta) ** 2

    def uniform_step_size(self) -> float:
        """The step size at which the bound on uniform mixing is lowest."""
        K = len(self.variance_K)
        return self.delta / (self.L * (self.delta / K + sum(self.variance_K) / self.b))

    def uniform_iteration_bound(self) -> float:
        """`eq:UniformIterationComplexity`: 2 L Delta_L (delta + K sigma^2 / b) / delta^2."""
        noise = sum(self.variance_K) / self.b * len(self.variance_K)
        return 2 * self.L * self.gap * (self.delta + noise) / self.delta**2


def measure_constants(
    problem: Problem, theta_D: Floats, delta: float, b: int
) -> ConvergenceConstants:
    """Constants that hold at every point, for losses of one term each (`leaning`, `along_axes`).

    beta is 1 - 2 c (K - 1), with which the theorem holds for weights of 0 too; without conflict it
    is 1, as the paper's.
    """
    K = len(problem.variance_K)
    axes_KxD = problem.axes_KxRxD[:, 0]
    unit_KxD = axes_KxD / np.linalg.norm(axes_KxD, axis=1, keepdims=True)
    cosine = float(np.abs(unit_KxD @ unit_KxD.T - np.eye(K)).max())
    return ConvergenceConstants(
        L=problem.smoothness_of_sum(),
        beta=1 - cosine * (K - 1),
        gamma=1 + cosine * (K - 1),
        delta=delta,
        b=b,
        gap=float(problem.losses(theta_D[None]).sum()),
        variance_K=tuple(problem.variance_K.tolist()),
    )


def convergence_problems_and_starts() -> list[tuple[Problem, Floats]]:
    """Losses with their starts; all have their minimum at 0."""
    even_4, start_4 = vector(6.4, 6.4, 6.4, 6.4), vector(3, 3, 3, 3)
    return [
        (axis_problem("equal tasks", even_4), start_4),
        (axis_problem("one noisy task", vector(6.4, 0.4, 0.4, 0.4)), start_4),
        (axis_problem("one task far behind", even_4), vector(6, 1, 1, 1)),
        (leaning_problem("leaning by a cosine of 0.05", even_4, 0.05), start_4),
    ]


def convergence_rows(
    pike_paths: int, uniform_paths: int, generator: np.random.Generator
) -> list[Row]:
    """Steps until each target is reached, by problem, method and step size.

    Step sizes: that of the method's own theorem, and of this times 1, 2, 4 ... the one that gets
    there first. reached: the first step at which the mean over paths is at most delta; null: not
    seen. bound: the paper's, where it is on this target and this step size; else null.
    """
    rows = []
    for problem, start_D in convergence_problems_and_starts():
        known = measure_constants(problem, start_D, DELTA, ROWS)
        pike = "conceptual PiKE", known.pike_step_size(), "max", known.pike_iteration_bound()
        uniform = "uniform", known.uniform_step_size(), "sum", known.uniform_iteration_bound()
        both = (pike, pike_paths, 2), (uniform, uniform_paths, 4)
        for (method, eta, own, bound), count, longest in both:
            tried = {
                size: steps_until_targets(
                    problem, start_D, known, method, size, count, HORIZON, generator
                )
                for size in (eta * 2**power for power in range(longest + 1))
            }
            for target in ("max", "sum"):
                best = min(tried, key=lambda size: tried[size][target] or math.inf)
                rows += [
                    {
                        "problem": problem.name,
                        "method": method,
                        "target": target,
                        "step_size": kind,
                        "eta": size,
                        "delta": DELTA,
                        "b": ROWS,
                        "bound": bound if (kind, target) == ("theorem", own) else None,
                        "reached": tried[size][target],
                        "paths": count,
                    }
                    for kind, size in (("theorem", eta), ("best", best))
                ]
    return rows


def steps_until_targets(
    problem: Problem,
    start_D: Floats,
    known: ConvergenceConstants,
    method: str,
    eta: float,
    paths: int,
    horizon: int,
    generator: np.random.Generator,
) -> dict[str, int | None]:
    """By target, the first step at which the mean over paths is at most delta; None: not seen."""
    K = len(problem.variance_K)
    theta_NxD = np.tile(start_D, (paths, 1))
    reached: dict[str, int | None] = {"max": None, "sum": None}
    for step in range(horizon):
        gradient_NxKxD = problem.gradients(theta_NxD)
        squared = {
            "max": (gradient_NxKxD**2).sum(axis=2).mean(axis=0).max(),
            "sum": (gradient_NxKxD.sum(axis=1) ** 2).sum(axis=1).mean(),
        }
        for target, largest in squared.items():
            if reached[target] is None and largest <= known.delta:
                reached[target] = step
        if None not in reached.values():
            break
        weights_NxK = np.full((paths, K), 1 / K)
        if method == "conceptual PiKE":
            weights_NxK = _pike_weights(problem, known, eta, theta_NxD)
        theta_NxD = problem.points_after_sgd_step(theta_NxD, weights_NxK, eta, known.b, generator)
    return reached


def _pike_weights(
    problem: Problem, known: ConvergenceConstants, eta: float, theta_NxD: Floats
) -> Floats:
    """Lines 4-7 of Algorithm `alg: Basic PiKE` with exact statistics: rounded counts over b."""
    K = len(problem.variance_K)
    # With 1 - c (K - 2) for beta the weights minimise the bound that holds for all weights.
    c = (known.gamma - 1) / (K - 1) / 2
    method = ConceptualPiKE(
        L=known.L, eta=eta, beta=1 - c * (K - 2), gamma=known.gamma, norm="plug-in"
    )
    empty = method.init(tuple(map(str, range(K))), 0)
    counts = []
    for theta_D in theta_NxD:
        signals = Signals(0, known.b, statistics=problem.statistics(theta_D))
        counts.append(method.allocate(method.observe(empty, signals), 0, known.b))
    return np.stack(counts) / known.b
