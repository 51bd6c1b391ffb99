"""The tilted loss (`eq:fairness_def`) and its min-max form (`lemma:MinToMinMax`).

    tilted(tau) = log(sum_k exp(tau L_k)) / tau
    tau tilted(tau) = max over y >= 0 with sum tau of  sum_k y_k L_k - sum_k y_k/tau log(y_k/tau)

Shapes: K domains, N choices of y.
"""

import math

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.rules.balanced_pike import tilt
from pipeline.theory.problem import Row, vector

LOSSES = {
    "three languages": (3.1, 1.6, 2.4),
    "equal": (2.0, 2.0, 2.0),
    "far apart": (0.1, 9.0),
    "negative": (-3.0, -1.0, 0.5),
}
"""Losses in nats by name."""
TAUS = (1e-6, 1e-3, 0.1, 1.0, 3.0, 5.0, 100.0, 1e4)


def tilted(loss_K: Floats, tau: float) -> float:
    """`eq:fairness_def`."""
    return float(np.logaddexp.reduce(tau * loss_K)) / tau


def inner(y_NxK: Floats, loss_K: Floats, tau: float) -> Floats:
    """What the lemma maximises over y: [N]. A y_k of 0 adds 0 to the entropy."""
    share_NxK = y_NxK / tau
    logs_NxK = np.log(share_NxK, where=share_NxK > 0, out=np.zeros_like(share_NxK))
    return y_NxK @ loss_K - (share_NxK * logs_NxK).sum(axis=1)


def checks(tries: int, generator: np.random.Generator) -> list[Row]:
    """Both sides of the lemma's identity, and how near other y come.

    Columns: identity, the value at y* minus tau times the tilted loss; others, the highest value
    at any tried y minus that at y*, at most 0; above_mean, the tilted loss without log K / tau
    minus the mean loss, which tends to 0 with tau; above_max, the tilted loss minus the highest
    loss, which tends to 0 with 1 / tau; equal_step, (y_k*)^2 at equal losses: the factor that
    Balanced-PiKE puts on its steps.
    """
    rows = []
    for name, losses in LOSSES.items():
        loss_K, K = vector(*losses), len(losses)
        for tau in TAUS:
            y_K = tilt(loss_K, tau)
            best, whole = float(inner(y_K[None], loss_K, tau)[0]), tilted(loss_K, tau)
            others_NxK = _tried(y_K, tau, tries, generator)
            rows.append(
                {
                    "name": name,
                    "losses": loss_K,
                    "tau": tau,
                    "y": y_K,
                    "tilted": whole,
                    "identity": best - tau * whole,
                    "others": float(inner(others_NxK, loss_K, tau).max()) - best,
                    "above_mean": whole - math.log(K) / tau - sum(losses) / K,
                    "above_max": whole - max(losses),
                    "equal_step": (tau / K) ** 2,
                }
            )
    return rows


def _tried(y_K: Floats, tau: float, tries: int, generator: np.random.Generator) -> Floats:
    """Choices of y all over the simplex, near y*, and all on one domain: [N, K]."""
    K = len(y_K)
    nearby_NxK = y_K / tau * np.exp(0.1 * generator.standard_normal((tries, K)))
    anywhere_NxK = generator.dirichlet(np.ones(K), tries)
    every_NxK = np.concatenate([anywhere_NxK, nearby_NxK, np.eye(K)])
    return tau * every_NxK / every_NxK.sum(axis=1, keepdims=True)
