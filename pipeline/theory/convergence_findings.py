"""What is wrong in the theorem on iterations and its proof, with numbers of one instance.

The instance: K = 4 tasks, sigma_k^2 = 6.4, b = 64, delta = 0.1, Delta_L = 18, L = 1, gamma = 1,
and beta = 1 or, where it matters, 1/2.
"""

import dataclasses

from pike_mixing.rules.conceptual_pike import ConceptualPiKE, minimiser
from pipeline.theory.convergence import Constants
from pipeline.theory.finding import Finding
from pipeline.theory.problem import along_axes, vector

KNOWN = Constants(L=1, beta=1, gamma=1, delta=0.1, b=64, gap=18, variance_K=(6.4,) * 4)
HALF = dataclasses.replace(KNOWN, beta=0.5)
INSTANCE = "sigma_max^2 / b = 0.1, delta = 0.1, Delta_L = 18, L = gamma = 1"


def findings() -> list[Finding]:
    """Rows of `findings.parquet` on the number of iterations."""
    return [
        _step_size(),
        _iterations_of_the_appendix(),
        _last_line(),
        _linear_instead_of_squared(),
        _missing_sum(),
        _pointwise(),
        _terms(),
        _targets(),
    ]


def _step_size() -> Finding:
    # eta = beta delta / (L s + L eta delta) is delta L eta^2 + L s eta - beta delta = 0.
    noise = max(KNOWN.variance_K) / KNOWN.b
    root = (noise**2 + 4 * KNOWN.delta**2) ** 0.5
    literal = (root - noise) / (2 * KNOWN.delta)
    return Finding(
        "thm:IterationComplexityConceptualPiKe",
        "The step size eta = beta delta / (L sigma_max^2 / b + L eta delta), with eta on both "
        "sides, for T-bar iterations: T = 2 Delta_L / (eta beta delta) at it, and T-bar",
        KNOWN.pike_iterations(literal),
        KNOWN.pike_bound(),
        "slip",
        f"{INSTANCE}, beta = 1. In the denominator eta should read gamma, here and twice in the "
        f"restatement: then eta = {KNOWN.pike_step():g} in place of {literal:.4f}, which is above "
        "what the theorem allows.",
    )


def _iterations_of_the_appendix() -> Finding:
    eta = HALF.pike_step()
    return Finding(
        "thm:app_IterationComplexityConceptualPiKe",
        "T = 2 beta Delta_L / (eta delta): this, and the T = 2 Delta_L / (eta beta delta) of the "
        "main text and of the proof",
        2 * HALF.beta * HALF.gap / (eta * HALF.delta),
        HALF.pike_iterations(eta),
        "slip",
        f"{INSTANCE}, beta = 1/2. beta belongs below: the restatement is too small by beta^2, and "
        "contradicts its own T-bar.",
    )


def _last_line() -> Finding:
    noise = max(HALF.variance_K) / HALF.b
    stated = 2 * HALF.L * HALF.gap * (noise + HALF.gamma * HALF.delta) / HALF.delta**2 / HALF.beta
    return Finding(
        "thm:app_IterationComplexityConceptualPiKe",
        "Last line of the proof: T-bar = 2 L Delta_L / (beta delta^2) (sigma_max^2 / b + gamma "
        "delta): this, and the T-bar of the theorem",
        stated,
        HALF.pike_bound(),
        "slip",
        f"{INSTANCE}, beta = 1/2. It should have beta^2; the expression before it, "
        "2 Delta_L / (beta eta), lacks delta.",
    )


def _linear_instead_of_squared() -> Finding:
    method = ConceptualPiKE(L=1, eta=1, norm="plug-in")
    lam_2, kap_2 = method.bound(along_axes("", vector(0, 0)).statistics(vector(2, 1)), 64)
    # Linear in w: all weight on the smallest coefficient.
    cheapest = float((lam_2 + kap_2 / 2).argmin() == 0)
    return Finding(
        "eq:app_Iteration_eq_1",
        "The last term has w_k / 2 and is minimised by conceptual PiKE's weights: w_1 of the "
        "minimiser of what is printed, and w_1 of conceptual PiKE",
        cheapest,
        float(minimiser(lam_2, kap_2)[0]),
        "slip",
        "Squared norms 4 and 1, no noise, L = eta = 1. It should read w_k^2 / 2; with w_k / 2 the "
        "expression is linear, and one task gets all weight. The inequality holds either way.",
    )


def _missing_sum() -> Finding:
    # Squared norms 1 and 0.01, no noise, eta = 1/2, all weight on the first: w_2 = 0.
    method = ConceptualPiKE(L=1, eta=0.5, norm="plug-in")
    lam_2, kap_2 = method.bound(along_axes("", vector(0, 0)).statistics(vector(1, 0)), 64)
    weights_2 = minimiser(lam_2, kap_2)
    right = float(lam_2[0] + kap_2[0] / 2)
    return Finding(
        "eq:app_Iteration_eq_2",
        "For each k the left side is at most the value at the task of the largest gradient: that "
        "value, and the left side of a task without weight",
        right,
        float(weights_2[1] * lam_2[1] + weights_2[1] * kap_2[1] / 2),
        "slip",
        "Squared norms 1 and 0, no noise, eta = 1/2. The sum over k is missing on the left: with "
        "it the inequality holds.",
    )


def _pointwise() -> Finding:
    # At a point of the path with |g_k*|^2 = delta / 10, though its expectation is above delta.
    eta, squared, noise = KNOWN.pike_step(), KNOWN.delta / 10, max(KNOWN.variance_K) / KNOWN.b
    left = -eta * squared + eta**2 / 2 * noise + eta**2 / 2 * squared
    return Finding(
        "eq:app_Iteration_eq_3",
        "At each point of the path the left side is at most -beta eta |g_k*|^2 / 2: that bound, "
        "and the left side",
        -eta / 2 * squared,
        left,
        "slip",
        f"{INSTANCE}, beta = 1, |g_k*|^2 = delta / 10. The proof supposes that the expectation is "
        "above delta and uses it at a point. Both sides are linear in |g_k*|^2: taking the "
        "expectation first repairs it.",
    )


def _terms() -> Finding:
    T = KNOWN.pike_bound()
    return Finding(
        "thm:app_IterationComplexityConceptualPiKe",
        "The telescoped sum runs from t = 1 to T - 1: its number of terms, and the T that the "
        "next line has in its place",
        T - 1,
        T,
        "slip",
        "The sum begins at t = 0, as the sentence above it says.",
    )


def _targets() -> Finding:
    # For E|sum g_k|^2 <= delta of orthogonal gradients, each E|g_k|^2 <= delta / K is enough.
    strict = dataclasses.replace(KNOWN, delta=KNOWN.delta / len(KNOWN.variance_K))
    return Finding(
        "eq:PiKEIterationComplexity",
        "PiKE's bound is below that of uniform mixing, eq:UniformIterationComplexity: PiKE's, and "
        "PiKE's for the target that uniform mixing's is about",
        KNOWN.pike_bound(),
        strict.pike_bound(),
        "not comparable",
        f"{INSTANCE}, K = 4, sigma_k equal. Uniform mixing's bound, {KNOWN.uniform_bound():g}, is "
        "on E|grad L|^2 <= delta, PiKE's on each E|grad L_k|^2 <= delta: with orthogonal "
        "gradients the first needs the second at delta / K. By the theorem that takes PiKE longer "
        "than uniform mixing's bound. For the target of the theorem PiKE's bound is the lower one.",
    )
