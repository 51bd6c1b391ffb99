"""A world whose losses follow a known exponential law of three domains."""

import numpy as np

from pike_mixing.finders.exponential_law import Laws
from pike_mixing.finders.interface import Proxy, Swarm

DOMAINS = ("code", "prose", "talk")

# Each row of t sums to 0, as the fitted ones do.
LAWS = Laws(
    c_K=np.array([1.0, 2.0, 1.5]),
    b_K=np.array([0.2, 0.0, -0.3]),
    t_KxK=np.array([[-2.0, 1.5, 0.5], [0.8, -1.6, 0.8], [0.4, 1.0, -1.4]]),
)


def mixtures(count, seed=0, concentration=1.0, domains=3):
    return np.random.default_rng(seed).dirichlet([concentration] * domains, count)


def proxies(count=24, *, noise=0.0, seed=0, laws=LAWS):
    weights_NxK = mixtures(count, seed, domains=len(laws.c_K))
    errors_NxK = np.random.default_rng(seed + 1000).normal(0, noise, weights_NxK.shape)
    loss_NxK = laws.losses(weights_NxK) + errors_NxK
    return [
        Proxy(f"proxy{n:02}", weights_K=weights_NxK[n], loss_K=loss_NxK[n]) for n in range(count)
    ]


def swarm(count=24, **world):
    return Swarm(DOMAINS, proxies(count, **world))


def grid(step=0.002):
    """Every mixture of three domains with weights on a grid."""
    n = round(1 / step)
    a, b = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    inside = a + b <= n
    return np.stack([a[inside], b[inside], n - a[inside] - b[inside]], axis=1) / n


def optimum(laws=LAWS, target_K=None, *, kl=0.0, prior_K=None, cap_K=None, step=0.002):
    """The best mixture of the grid, and its objective: the search knows no gradient."""
    target_K = np.full(3, 1 / 3) if target_K is None else target_K
    prior_K = np.full(3, 1 / 3) if prior_K is None else prior_K
    weights_GxK = grid(step)
    if cap_K is not None:
        weights_GxK = weights_GxK[(weights_GxK <= cap_K + 1e-12).all(axis=1)]
    ratio_GxK = np.where(weights_GxK > 0, weights_GxK / prior_K, 1)
    value_G = laws.losses(weights_GxK) @ target_K
    value_G = value_G + kl * (weights_GxK * np.log(ratio_GxK)).sum(axis=1)
    best = value_G.argmin()
    return weights_GxK[best], value_G[best]
