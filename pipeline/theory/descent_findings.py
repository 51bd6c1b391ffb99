"""What is wrong in the theorem on one step, its lemmas and their proofs, with numbers."""

import torch

from pike_mixing.rules.conceptual_pike import ConceptualPiKE, minimiser
from pipeline.theory import descent
from pipeline.theory.finding import Finding
from pipeline.theory.problem import Problem, along_axes, leaning, vector


def findings() -> list[Finding]:
    """Rows of `findings.parquet` on the descent bound."""
    return [
        _constant_of_the_sum(),
        _idle_parameters(),
        _domain_without_rows(),
        _beta_is_no_constant(),
        _squared_norms_in_the_lemma(),
        _squared_norms_in_the_theorem(),
        _simplified_exponent(),
    ]


def _constant_of_the_sum() -> Finding:
    ones_2x1x1 = torch.ones(2, 1, 1, dtype=torch.float64)
    problem, half_2 = Problem("two equal losses", ones_2x1x1, vector(1, 1)), vector(0.5, 0.5)
    zero_1, eta, b = torch.zeros(1, dtype=torch.float64), 0.5, 2
    return Finding(
        "thm:DescentMainBody",
        "Upper bound on the expected loss after a step, with L the Lipschitz constant of each "
        "task's gradient; and that expected loss",
        descent.bounds(problem, zero_1, half_2, eta, b)["printed"],
        problem.expected(zero_1, half_2, eta, b),
        "false as stated",
        "L_1 = L_2 = theta^2 / 2 at theta = 0, sigma_k = 1, eta = 1/2, b = 2. The proof applies "
        "the descent lemma to the sum of the losses, whose gradient has the Lipschitz constant "
        "K L at worst (here 2): with that constant in place of L the bound holds. The theorem on "
        "iterations and the section on uniform mixing inherit this.",
    )


def _idle_parameters() -> Finding:
    problem, half_2 = along_axes("", vector(1, 1), D=4), vector(0.5, 0.5)
    theta_4, eta, b = torch.zeros(4, dtype=torch.float64), 0.5, 2
    return Finding(
        "thm:DescentLowerBound",
        "The bound holds with equality for L_k = L theta_k^2 / 2 and noise sigma_k^2 / d I: the "
        "bound, and the expected loss",
        descent.bounds(problem, theta_4, half_2, eta, b)["printed"],
        problem.expected(theta_4, half_2, eta, b),
        "assumption missing",
        "K = 2, d = 4, L = 1, theta = 0, sigma_k = 1, eta = 1/2, b = 2. There is equality for "
        "d = K alone: noise in parameters that are in no loss costs nothing, so that its term is "
        "K / d of the bound's.",
    )


def _domain_without_rows() -> Finding:
    # Gradients (3, 0, 0), (-0.15, ~1.5, 0), ...: the third is the smallest and gets nothing.
    problem = leaning("", vector(1, 1, 1), -0.1)
    theta_3, eta, b = _with_reach(problem, vector(3.0, 1.5, 0.1)), 0.1, 16
    c = descent.conflict(problem.gradients(theta_3[None])[0])
    weights_3 = descent.best_weights(problem, theta_3, eta, b)
    allowed = float((1 / (len(weights_3) - 2 + 1 / weights_3)).min())
    return Finding(
        "thm:IterationComplexityConceptualPiKe",
        "The assumptions of thm:DescentMainBody hold along the way of conceptual PiKE: the "
        "conflict c, and the 1 / (K - 2 + b / b_k) that it must be below at PiKE's own weights",
        c,
        allowed,
        "assumption missing",
        f"Three losses of cosine -0.1: PiKE's weights are {_shown(weights_3)}. A weight of 0 "
        "allows no conflict at all and makes beta -inf; w* = 0 is common. With 1 - 2 c (K - 1) in "
        "place of beta the theorem holds for any weights, as far as c < 1 / (2 (K - 1)).",
    )


def _beta_is_no_constant() -> Finding:
    problem = leaning("", vector(1, 1, 1), -0.1)
    theta_3, eta, b = _with_reach(problem, vector(2.0, 1.7, 1.5)), 0.8, 16
    third_3 = vector(1, 1, 1) / 3
    gradient_3x3 = problem.gradients(theta_3[None])[0]
    c, aligned = descent.conflict(gradient_3x3), descent.alignment(gradient_3x3)
    method = ConceptualPiKE(
        L=problem.smoothness_of_sum(),
        eta=eta,
        beta=descent.beta(c, third_3),
        gamma=descent.gamma(aligned, 3),
        norm="plug-in",
    )
    weights_3 = minimiser(*method.bound(problem.statistics(theta_3), b))
    return Finding(
        "eq:relax_problem",
        "Its solution minimises the right-hand side of eq: theorem1: the lowest value, by that "
        "solution, and the value at equal weights",
        descent.bounds(problem, theta_3, weights_3, eta, b)["of_sum"],
        descent.bounds(problem, theta_3, third_3, eta, b)["of_sum"],
        "assumption missing",
        f"Three losses of cosine -0.1, eta = {eta:g}: solution {_shown(weights_3)} for the beta of "
        "equal weights. beta depends on b / b_k and is no constant: moving weight away from a task "
        "lowers it, so that equal weights have the lower bound. Without beta (1 - c (K - 2) in its "
        "place, and a constant added) the problem has the form of eq:relax_problem, and no "
        "condition on b_k.",
    )


def _squared_norms_in_the_lemma() -> Finding:
    norm = 0.1
    return Finding(
        "le: correlation_of_losses",
        "Step (a) of the second part: |grad L|^2 is at most the sum of |g_k|^2 plus c times that "
        "of |g_j|^2 |g_k|^2 over ordered pairs: that bound, and |grad L|^2",
        2 * norm**2 + 2 * norm**4,
        (2 * norm) ** 2,
        "slip",
        "Two equal gradients of length 0.1, c = 1. The pairs' norms must not be squared, and the "
        "sums over k are missing in two lines; the lemma itself holds.",
    )


def _squared_norms_in_the_theorem() -> Finding:
    norm, rows = 0.1, 8
    return Finding(
        "thm: formal_descent_lemma",
        "Step (c): the sum over pairs of b_j b_k g_j . g_k is at most that of "
        "c b_j b_k |g_j|^2 |g_j|^2: that bound, and the sum",
        2 * rows**2 * norm**4,
        2 * rows**2 * norm**2,
        "slip",
        "Two equal gradients of length 0.1, b_k = 8, c = 1. It should read |g_j| |g_k|; step (d) "
        "goes on from that.",
    )


def _simplified_exponent() -> Finding:
    # Squared norms 4 and 1: lambda = (-4, -1), kappa = (4, 1), w = (4/5, 1/5) at mu = 4/5.
    method = ConceptualPiKE(L=1, eta=1, norm="plug-in")
    statistics = along_axes("", vector(0, 0)).statistics(vector(2, 1))
    lam_2, kap_2 = method.bound(statistics, 16)
    limits = [_mirror_descent(lam_2, curvature_2) for curvature_2 in (torch.zeros(2), kap_2)]
    return Finding(
        "sec:PiKe",
        "The coefficient of the squared norm is nearly constant in w_k, so that the term "
        "-L eta gamma w_k may be dropped: w_1 that the mirror descent without that term tends to, "
        "and w_1 that eq:relax_problem has",
        limits[0],
        limits[1],
        "assumption missing",
        "Squared norms 4 and 1, no noise, L = eta = 1. What is left without the term is linear in "
        "w: while the gradients stay as they are all weight goes to one task, at however small a "
        "step size. The rule relies on the gradients' changing faster than the weights.",
    )


def _mirror_descent(lam_K: torch.Tensor, kap_K: torch.Tensor) -> float:
    """w_1 after many small steps of mirror descent on eq:relax_problem with kappa as given."""
    log_K = torch.zeros(len(lam_K), dtype=torch.float64)
    for _ in range(2000):
        weights_K = torch.softmax(log_K, dim=0)
        log_K = log_K - 0.1 * (lam_K + kap_K * weights_K)
    return float(torch.softmax(log_K, dim=0)[0])


def _with_reach(problem: Problem, reach_K: torch.Tensor) -> torch.Tensor:
    """The theta with a_k . theta as given, for losses of one term each in K parameters."""
    return torch.linalg.solve(problem.axes_KxRxD[:, 0], reach_K)


def _shown(weights_K: torch.Tensor) -> str:
    return ", ".join(f"{float(w):.2f}" for w in weights_K)
