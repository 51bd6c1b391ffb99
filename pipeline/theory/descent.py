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

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.rules.pike import descent_bound_minimiser, descent_bound_of_moments
from pipeline.theory.problem import Problem, Row, axis_problem, leaning_problem, vector

ROWS = 16
"""Batch size b."""


def least_conflict(gradient_KxD: Floats) -> float:
    """The least c >= 0 for which the gradients are c-conflicted (`def:Interaction_LB`)."""
    pairs = itertools.combinations(gradient_KxD, 2)
    return max([0.0, *(float(-(g @ h) / (g @ g + h @ h)) for g, h in pairs if g.any() or h.any())])


def largest_cosine_or_zero(gradient_KxD: Floats) -> float:
    """The least c >= 0 for which the gradients are c-aligned (`def:Interaction_UB`)."""
    pairs = itertools.combinations(gradient_KxD, 2)
    cosines = (g @ h / math.sqrt((g @ g) * (h @ h)) for g, h in pairs if g.any() and h.any())
    return float(max([0.0, *cosines]))


def beta_of_descent_bound(conflict: float, weights_K: Floats) -> float:
    """min_k 1 + c (2 - K - b / b_k); -inf where there is conflict and a domain has no rows."""
    if conflict == 0:
        return 1.0
    least = float(weights_K.min())
    return 1 + conflict * (2 - len(weights_K) - 1 / least) if least else -math.inf


def gamma_of_descent_bound(alignment: float, K: int) -> float:
    """1 + c (K - 1)."""
    return 1 + alignment * (K - 1)


def is_bound_valid(conflict: float, weights_K: Floats) -> bool:
    """The theorem's condition c < 1 / (K - 2 + b / b_k) for all k: no domain without rows."""
    return bool(weights_K.min() > 0) and beta_of_descent_bound(conflict, weights_K) > 0


def upper_bounds_and_constants(
    problem: Problem, theta_D: Floats, weights_K: Floats, eta: float, b: int
) -> Row:
    """The right-hand side of `eq: theorem1` at a point, and the constants that it is made of.

    The bounds `printed` and `of_sum` are infinite where beta is not positive.
    """
    gradient_KxD, statistics = problem.gradients(theta_D[None])[0], problem.statistics(theta_D)
    K, c = len(weights_K), least_conflict(gradient_KxD)
    aligned = largest_cosine_or_zero(gradient_KxD)
    L, L_sum = problem.smoothness_constant(), problem.smoothness_of_sum()
    now = float(statistics.loss_K.sum())

    def bound_on_next_loss(smoothness: float, beta: float) -> float:
        if beta <= 0:  # The theorem bounds nothing, and the rule refuses it.
            return math.inf
        squares = (statistics.squared_norm_K, statistics.variance_K)
        lam_K, kap_K = descent_bound_of_moments(
            *squares, b, smoothness, eta, beta, gamma_of_descent_bound(aligned, K)
        )
        return now + float(weights_K @ lam_K + weights_K**2 @ kap_K / 2)

    added = eta * c * float(statistics.squared_norm_K.sum())
    return {
        "L": L,
        "L_sum": L_sum,
        "conflict": c,
        "alignment": aligned,
        "beta": beta_of_descent_bound(c, weights_K),
        "gamma": gamma_of_descent_bound(aligned, K),
        "applies": is_bound_valid(c, weights_K),
        "before": now,
        "printed": bound_on_next_loss(L, beta_of_descent_bound(c, weights_K)),
        "of_sum": bound_on_next_loss(L_sum, beta_of_descent_bound(c, weights_K)),
        "plain": bound_on_next_loss(L_sum, 1 - c * (K - 2)) + added,
    }


def conceptual_pike_weights(problem: Problem, theta_D: Floats, eta: float, b: int) -> Floats:
    """Conceptual PiKE's weights at a point (`eq:relax_problem`): the minimiser of `plain`."""
    gradient_KxD, statistics = problem.gradients(theta_D[None])[0], problem.statistics(theta_D)
    K, c = len(gradient_KxD), least_conflict(gradient_KxD)
    constants = (problem.smoothness_of_sum(), eta, 1 - c * (K - 2))
    squares = (statistics.squared_norm_K, statistics.variance_K)
    return descent_bound_minimiser(
        *descent_bound_of_moments(
            *squares, b, *constants, gamma_of_descent_bound(largest_cosine_or_zero(gradient_KxD), K)
        )
    )


def descent_problems() -> list[Problem]:
    """Losses from orthogonal to equal ones, of rank one to full rank, quadratic and not."""
    noise_K = vector(1, 4, 9)
    axes_KxRxD = np.random.default_rng(0).standard_normal((3, 4, 4)) / 2
    leaning_axes_KxRxD = leaning_problem("", noise_K, 0.1).axes_KxRxD
    return [
        axis_problem("orthogonal", noise_K, L=2),
        axis_problem("orthogonal, three idle parameters", noise_K, L=2, D=6),
        leaning_problem("leaning by a cosine of 0.1", noise_K, 0.1),
        leaning_problem("conflicting by a cosine of -0.1", noise_K, -0.1),
        Problem("two equal losses", np.ones((2, 1, 1)), vector(1, 1)),
        Problem("general quadratics", axes_KxRxD, noise_K, offset=1),
        Problem("log cosh of general terms", axes_KxRxD, noise_K, offset=1, shape="log-cosh"),
        Problem("log cosh, leaning", leaning_axes_KxRxD, noise_K, shape="log-cosh"),
    ]


def descent_rows(simulated_steps: int, generator: np.random.Generator) -> list[Row]:
    """The expected loss after a step, simulated and (of quadratics) exact, beside the bounds.

    Problems times points (one is 0) times mixtures times step sizes of 1/4 and 1 over the
    sum's constant.
    """
    rows = []
    for problem, point in itertools.product(descent_problems(), range(4)):
        size = (problem.axes_KxRxD.shape[2],)
        theta_D = 2 * generator.standard_normal(size) if point else np.zeros(size)
        for times in (0.25, 1.0):
            eta = times / problem.smoothness_of_sum()
            for mixture, weights_K in _compared_weights(problem, theta_D, eta).items():
                start_NxD = np.tile(theta_D, (simulated_steps, 1))
                after_NxD = problem.points_after_sgd_step(
                    start_NxD, weights_K, eta, ROWS, generator
                )
                after_N = problem.losses(after_NxD).sum(axis=1)
                exact = None
                if problem.shape == "quadratic":
                    exact = problem.expected_loss_after_step(theta_D, weights_K, eta, ROWS)
                rows.append(
                    {
                        "problem": problem.name,
                        "point": point,
                        "mixture": mixture,
                        "weights": weights_K,
                        "eta": eta,
                        "b": ROWS,
                        **upper_bounds_and_constants(problem, theta_D, weights_K, eta, ROWS),
                        "expected": exact,
                        "simulated": after_N.mean(),
                        "stderr": after_N.std(ddof=1) / math.sqrt(simulated_steps),
                    }
                )
    return rows


def _compared_weights(problem: Problem, theta_D: Floats, eta: float) -> dict[str, Floats]:
    K = len(problem.variance_K)
    uneven_K = np.arange(K, 0, -1.0)
    return {
        "uniform": np.full(K, 1 / K),
        "uneven": uneven_K / uneven_K.sum(),
        "conceptual PiKE": conceptual_pike_weights(problem, theta_D, eta, ROWS),
    }
