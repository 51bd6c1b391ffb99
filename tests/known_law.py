"""A world whose losses follow a known exponential law of three domains."""

import numpy as np

from pike_mixing.finders.exponential_law import Laws
from pike_mixing.finders.interface import Proxy, Swarm

DOMAINS = ("code", "prose", "talk")

UNIFORM = np.full(3, 1 / 3)
# Each row of t sums to 0, as the fitted ones do.
LAWS = Laws(
    c_K=np.array([1.0, 2.0, 1.5]),
    b_K=np.array([0.2, 0.0, -0.3]),
    t_KxK=np.array([[-2.0, 1.5, 0.5], [0.8, -1.6, 0.8], [0.4, 1.0, -1.4]]),
)


def mixtures(count, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(3), count)


def proxies(count=24, *, noise=0.0, seed=0):
    weights_NxK = mixtures(count, seed)
    errors_NxK = np.random.default_rng(seed + 1000).normal(0, noise, weights_NxK.shape)
    loss_NxK = LAWS.losses(weights_NxK) + errors_NxK
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


def optimum(*, target_K=UNIFORM, kl=0.0, prior_K=UNIFORM, cap_K=None):
    """The best mixture of the grid, and its objective: the search knows no gradient."""
    weights_GxK = grid()
    if cap_K is not None:
        weights_GxK = weights_GxK[(weights_GxK <= cap_K + 1e-12).all(axis=1)]
    ratio_GxK = np.where(weights_GxK > 0, weights_GxK / prior_K, 1)
    value_G = LAWS.losses(weights_GxK) @ target_K
    value_G = value_G + kl * (weights_GxK * np.log(ratio_GxK)).sum(axis=1)
    best = value_G.argmin()
    return weights_GxK[best], value_G[best]
