"""The bound on the loss after one step (`thm:DescentMainBody`, `eq: theorem1`), beside the loss.

Three versions of the bound, which differ in their constants alone:

    printed     as the paper has it, with L the constant of the single losses
    of the sum  with L the constant of the gradient of their sum: what the descent lemma asks for
    plain       the same without beta, from the step of the proof before beta comes in: in its place
                stands 1 - c (K - 2), and eta c sum_k |g_k|^2 is added. It is never above the second
                and holds where b_k = 0 too.

Shapes: K domains, D parameters.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pike_mixing.rules.conceptual_pike import coefficients, minimiser
from pipeline.theory import relaxed
from pipeline.theory.problem import Problem, along_axes, leaning, vector

Row = dict[str, Any]
ROWS = 16
"""Batch size b."""


def conflict(gradient_KxD: Tensor) -> float:
    """The least c >= 0 for which the gradients are c-conflicted (`def:Interaction_LB`)."""
    pairs = itertools.combinations(gradient_KxD, 2)
    return max([0.0, *(float(-(g @ h) / (g @ g + h @ h)) for g, h in pairs if g.any() or h.any())])


def alignment(gradient_KxD: Tensor) -> float:
    """The least c >= 0 for which the gradients are c-aligned (`def:Interaction_UB`)."""
    pairs = itertools.combinations(gradient_KxD, 2)
    return max(
        [0.0, *(float(g @ h / (g.norm() * h.norm())) for g, h in pairs if g.any() * h.any())]
    )


def beta(conflicted: float, weights_K: Tensor) -> float:
    """min_k 1 + c (2 - K - b / b_k); -inf where there is conflict and a domain has no rows."""
    if conflicted == 0:
        return 1.0
    return float((1 + conflicted * (2 - len(weights_K) - 1 / weights_K)).min())


def gamma(aligned: float, K: int) -> float:
    """1 + c (K - 1)."""
    return 1 + aligned * (K - 1)


def applies(conflicted: float, weights_K: Tensor) -> bool:
    """The theorem's condition c < 1 / (K - 2 + b / b_k) for all k: no domain without rows."""
    return bool(weights_K.min() > 0) and beta(conflicted, weights_K) > 0


def bounds(problem: Problem, theta_D: Tensor, weights_K: Tensor, eta: float, b: int) -> Row:
    """The right-hand side of `eq: theorem1` at a point, and the constants that it is made of.

    Args:
        problem: The losses.
        theta_D: The point theta_t.
        weights_K: The b_k / b.
        eta: Step size.
        b: Rows of the batch.

    Returns:
        L, L_sum, conflict, alignment, beta, gamma, applies, and the bounds on E[L] after the step:
        printed, of_sum, plain. The first two are infinite where beta is not positive.
    """
    gradient_KxD, statistics = problem.gradients(theta_D[None])[0], problem.statistics(theta_D)
    K, c, aligned = len(weights_K), conflict(gradient_KxD), alignment(gradient_KxD)
    L, L_sum = problem.smoothness(), problem.smoothness_of_sum()
    now = float(statistics.loss_K.sum())

    def bound(constant: float, factor: float) -> float:
        if factor <= 0:  # The theorem bounds nothing, and the rule refuses it.
            return math.inf
        squares = (statistics.squared_norm_K, statistics.variance_K)
        made = coefficients(*squares, b, constant, eta, factor, gamma(aligned, K))
        return now + relaxed.value(weights_K, *map(torch.from_numpy, made))

    added = eta * c * float(statistics.squared_norm_K.sum())
    return {
        "L": L,
        "L_sum": L_sum,
        "conflict": c,
        "alignment": aligned,
        "beta": beta(c, weights_K),
        "gamma": gamma(aligned, K),
        "applies": applies(c, weights_K),
        "before": now,
        "printed": bound(L, beta(c, weights_K)),
        "of_sum": bound(L_sum, beta(c, weights_K)),
        "plain": bound(L_sum, 1 - c * (K - 2)) + added,
    }


def best_weights(problem: Problem, theta_D: Tensor, eta: float, b: int) -> Tensor:
    """Conceptual PiKE's weights at a point (`eq:relax_problem`): the minimiser of `plain`."""
    gradient_KxD, statistics = problem.gradients(theta_D[None])[0], problem.statistics(theta_D)
    K, c = len(gradient_KxD), conflict(gradient_KxD)
    constants = (problem.smoothness_of_sum(), eta, 1 - c * (K - 2))
    squares = (statistics.squared_norm_K, statistics.variance_K)
    made = coefficients(*squares, b, *constants, gamma(alignment(gradient_KxD), K))
    return torch.from_numpy(minimiser(*made))


def problems() -> list[Problem]:
    """Losses from orthogonal to equal ones, of rank one to full rank, quadratic and not."""
    noise_K, generator = vector(1, 4, 9), torch.Generator().manual_seed(0)
    axes_KxRxD = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64) / 2
    one_2x1x1 = torch.ones(2, 1, 1, dtype=torch.float64)
    return [
        along_axes("orthogonal", noise_K, L=2),
        along_axes("orthogonal, three idle parameters", noise_K, L=2, D=6),
        leaning("leaning by a cosine of 0.1", noise_K, 0.1),
        leaning("conflicting by a cosine of -0.1", noise_K, -0.1),
        Problem("two equal losses", one_2x1x1, vector(1, 1)),
        Problem("general quadratics", axes_KxRxD, noise_K, offset=1),
        Problem("log cosh of general terms", axes_KxRxD, noise_K, offset=1, shape="log-cosh"),
        Problem(
            "log cosh, leaning", leaning("", noise_K, 0.1).axes_KxRxD, noise_K, shape="log-cosh"
        ),
    ]


def measurements(draws: int, generator: torch.Generator) -> list[Row]:
    """The expected loss after a step, simulated and (of quadratics) exact, beside the bounds.

    Problems times points (one the minimum) times mixtures times step sizes of 1/4 and 1 over the
    sum's constant.
    """
    rows = []
    for problem, (point, theta_D) in _points(generator):
        for times, (mixture, fixed_K) in itertools.product((0.25, 1.0), _mixtures(problem)):
            eta = times / problem.smoothness_of_sum()
            weights_K = best_weights(problem, theta_D, eta, ROWS) if fixed_K is None else fixed_K
            start_NxD = theta_D.repeat(draws, 1)
            weights_NxK = weights_K.repeat(draws, 1)
            after_N = problem.losses(
                problem.stepped(start_NxD, weights_NxK, eta, ROWS, generator)
            ).sum(dim=1)
            quadratic = problem.shape == "quadratic"
            rows.append(
                {
                    "problem": problem.name,
                    "point": point,
                    "mixture": mixture,
                    "weights": weights_K.tolist(),
                    "eta": eta,
                    "b": ROWS,
                    **bounds(problem, theta_D, weights_K, eta, ROWS),
                    "expected": problem.expected(theta_D, weights_K, eta, ROWS)
                    if quadratic
                    else None,
                    "simulated": float(after_N.mean()),
                    "stderr": float(after_N.std()) / math.sqrt(draws),
                }
            )
    return rows


def _points(generator: torch.Generator) -> Iterator[tuple[Problem, tuple[int, Tensor]]]:
    for problem in problems():
        D = problem.axes_KxRxD.shape[2]
        yield problem, (0, torch.zeros(D, dtype=torch.float64))
        for point in (1, 2, 3):
            yield problem, (point, 2 * torch.randn(D, generator=generator, dtype=torch.float64))


def _mixtures(problem: Problem) -> list[tuple[str, Tensor | None]]:
    K = len(problem.variance_K)
    uneven_K = torch.arange(K, 0, -1, dtype=torch.float64)
    return [
        ("uniform", torch.full((K,), 1 / K, dtype=torch.float64)),
        ("uneven", uneven_K / uneven_K.sum()),
        ("conceptual PiKE", None),
    ]
