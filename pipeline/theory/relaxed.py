"""The weights that minimise the bound (`eq:relax_problem`), proven best by a lower bound.

    min sum_k w_k lambda_k + w_k^2 kappa_k / 2   over w >= 0 that sum to 1

For any mu with mu + lambda_k >= 0 wherever kappa_k = 0, no such w has a lower value than

    -mu - sum_k max(0, -(mu + lambda_k))^2 / (2 kappa_k)

(the Lagrangian's minimum over w >= 0). At the mu of Lemma `le:optimal_w_for_relax_problem` both are
equal, so that the difference, the gap, says how far the code's weights are from the best.
"""

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.rules.conceptual_pike import minimiser
from pipeline.theory.problem import Row, vector

CASES = {
    "all positive": ([-2.0, -1.0], [3.0, 2.0]),
    "one at zero": ([-4.0, -1.0], [1.0, 1.0]),
    "equal": ([-1.0, -1.0, -1.0], [2.0, 2.0, 2.0]),
    "noise alone": ([1.0, 2.0, 0.5], [0.0, 0.0, 0.0]),
    "one without gradient takes the rest": ([-1.0, -0.5], [4.0, 0.0]),
    "one without gradient, too dear": ([-3.0, 0.5], [1.0, 0.0]),
    "two without gradient, alike": ([0.0, -1.0, 0.0], [0.0, 4.0, 0.0]),
    "scales apart": ([-1e6, -1e-6, 0.0], [1e6, 1e-6, 1e-12]),
}
"""lambda and kappa by name."""


def value(weights_K: Floats, lam_K: Floats, kap_K: Floats) -> float:
    """What is to be minimised."""
    return float(weights_K @ lam_K + weights_K**2 @ kap_K / 2)


def multiplier(weights_K: Floats, lam_K: Floats, kap_K: Floats) -> float:
    """The lemma's mu: -(lambda_k + kappa_k w_k), the same for all k with w_k > 0."""
    mu_K = -(lam_K + kap_K * weights_K)
    return float(max([mu_K[weights_K.argmax()], *-lam_K[kap_K == 0]]))


def lower_bound(mu: float, lam_K: Floats, kap_K: Floats) -> float:
    """The Lagrangian's minimum over w >= 0 at a mu of at least -lambda_k where kappa_k is 0."""
    curved_K = kap_K > 0
    below_K = np.maximum(-(mu + lam_K[curved_K]), 0)
    return -mu - float((below_K**2 / (2 * kap_K[curved_K])).sum())


def solutions(random: int, generator: np.random.Generator) -> list[Row]:
    """The code's weights in the cases above and in random ones, with their gap."""
    cases = {name: (vector(*lam), vector(*kap)) for name, (lam, kap) in CASES.items()}
    for number in range(random):
        K = 2 + number % 5
        # A tenth of the domains have no gradient.
        kap_K = generator.random(K) * 10.0 ** (number % 4 - 2) * (generator.random(K) >= 0.1)
        cases[f"random {number}"] = generator.standard_normal(K), kap_K
    return [_solved(name, lam_K, kap_K) for name, (lam_K, kap_K) in cases.items()]


def _solved(name: str, lam_K: Floats, kap_K: Floats) -> Row:
    weights_K = minimiser(lam_K, kap_K)
    found, mu = value(weights_K, lam_K, kap_K), multiplier(weights_K, lam_K, kap_K)
    return {
        "name": name,
        "lam": lam_K,
        "kap": kap_K,
        "weights": weights_K,
        "mu": mu,
        "value": found,
        "gap": found - lower_bound(mu, lam_K, kap_K),
    }
