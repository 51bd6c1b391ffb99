"""The tilted loss (`eq:fairness_def`) and its min-max form (`lemma:MinToMinMax`).

    tilted(tau) = log(sum_k exp(tau L_k)) / tau
    tau tilted(tau) = max over y >= 0 with sum tau of  sum_k y_k L_k - sum_k y_k/tau log(y_k/tau)

Shapes: K domains, N choices of y.
"""

import math
from typing import Any

import torch
from torch import Tensor

from pike_mixing.rules.balanced_pike import tilt
from pike_mixing.rules.conceptual_pike import minimiser
from pipeline.theory.finding import Finding
from pipeline.theory.problem import vector

Row = dict[str, Any]

LOSSES = {
    "three languages": (3.1, 1.6, 2.4),
    "equal": (2.0, 2.0, 2.0),
    "far apart": (0.1, 9.0),
    "negative": (-3.0, -1.0, 0.5),
}
"""Losses in nats by name."""
TAUS = (1e-6, 1e-3, 0.1, 1.0, 3.0, 5.0, 100.0, 1e4)


def tilted(loss_K: Tensor, tau: float) -> float:
    """`eq:fairness_def`."""
    return float(torch.logsumexp(tau * loss_K, dim=0)) / tau


def inner(y_NxK: Tensor, loss_K: Tensor, tau: float) -> Tensor:
    """What the lemma maximises over y: [N]. A y_k of 0 adds 0 to the entropy."""
    share_NxK = y_NxK / tau
    return y_NxK @ loss_K - torch.special.xlogy(share_NxK, share_NxK).sum(dim=1)


def checks(tries: int, generator: torch.Generator) -> list[Row]:
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
            best, whole = float(inner(y_K[None], loss_K, tau)), tilted(loss_K, tau)
            others_NxK = _tried(y_K, tau, tries, generator)
            rows.append(
                {
                    "name": name,
                    "losses": list(losses),
                    "tau": tau,
                    "y": y_K.tolist(),
                    "tilted": whole,
                    "identity": best - tau * whole,
                    "others": float(inner(others_NxK, loss_K, tau).max()) - best,
                    "above_mean": whole - math.log(K) / tau - sum(losses) / K,
                    "above_max": whole - max(losses),
                    "equal_step": (tau / K) ** 2,
                }
            )
    return rows


def _tried(y_K: Tensor, tau: float, tries: int, generator: torch.Generator) -> Tensor:
    """Choices of y all over the simplex, near y*, and all on one domain: [N, K]."""
    K = len(y_K)
    anywhere_NxK = -torch.rand(tries, K, generator=generator, dtype=torch.float64).log()
    noise_NxK = torch.randn(tries, K, generator=generator, dtype=torch.float64)
    nearby_NxK = (y_K / tau) * (0.1 * noise_NxK).exp()
    every_NxK = torch.cat([anywhere_NxK, nearby_NxK, torch.eye(K, dtype=torch.float64)])
    return tau * every_NxK / every_NxK.sum(dim=1, keepdim=True)


def alternated(theta: float, tau: float, rounds: int) -> float:
    """Minimises over theta and maximises over y by turns.

    L_1 = (theta - 1)^2 / 2 and L_2 = (theta + 1)^2 / 2. The minimiser for given y is
    (y_1 - y_2) / tau, so that one round maps theta to -tanh(tau theta): back and forth between two
    points for tau > 1.
    """
    for _ in range(rounds):
        y_2 = tilt(vector((theta - 1) ** 2 / 2, (theta + 1) ** 2 / 2), tau)
        theta = float(y_2[0] - y_2[1]) / tau
    return theta


def findings() -> list[Finding]:
    """Rows of `findings.parquet` on the tilted loss and Balanced-PiKE."""
    return [_sum_of_y(), _limit(), _positive(), _alternation(), _squared_y()]


def _sum_of_y() -> Finding:
    tau = 3.0
    return Finding(
        "le:fairness_optimal_y",
        "alpha should be chosen such that sum_k y_k* = 1: this sum, and that of the y* which the "
        "proof gives next",
        1.0,
        float(tilt(vector(3.1, 1.6, 2.4), tau).sum()),
        "slip",
        "tau = 3. The constraint is a sum of tau. The -1 in the lemma's exponents cancels.",
    )


def _limit() -> Finding:
    losses, tau = (3.1, 1.6, 2.4), 1e-3
    return Finding(
        "eq:fairness_def",
        "The objective tends to the average loss as tau tends to 0: the average loss, and the "
        "objective at tau = 0.001",
        sum(losses) / len(losses),
        tilted(vector(*losses), tau),
        "false as stated",
        "Losses 3.1, 1.6, 2.4. There is no 1 / K in the logarithm, so that log(K) / tau is added, "
        "which has no limit. What is minimised has one: without that constant it is the mean.",
    )


def _positive() -> Finding:
    losses, tau = (-3.0, -1.0, 0.5), 3.0
    loss_3 = vector(*losses)
    gap = float(inner(tilt(loss_3, tau)[None], loss_3, tau)) - tau * tilted(loss_3, tau)
    assert abs(gap) < 1e-12, "the identity needs positive losses after all"
    return Finding(
        "lemma:MinToMinMax",
        "Assumes L_k > 0: the lowest loss allowed, and one at which the identity holds to 1e-12",
        0.0,
        min(losses),
        "assumption not needed",
        "Losses -3, -1, 0.5 at tau = 3. The restatement in the appendix leaves it out. The value "
        "of the min-max is tau times that of eq:fairness_def, with the same minimisers.",
    )


def _alternation() -> Finding:
    tau, rounds = 3.0, 101
    theta = alternated(0.5, tau, rounds)
    losses_2 = vector((theta - 1) ** 2 / 2, (theta + 1) ** 2 / 2)
    return Finding(
        "lemma:MinToMinMax",
        "Minimising over theta and maximising over y by turns solves eq:fairness_def: its lowest "
        "value, and the value after 101 turns of each",
        tilted(vector(0.5, 0.5), tau),
        tilted(losses_2, tau),
        "false as stated",
        "L_1 = (theta - 1)^2 / 2, L_2 = (theta + 1)^2 / 2, tau = 3, from theta = 0.5. A turn maps "
        "theta to -tanh(tau theta), which for tau > 1 jumps between two points, here "
        f"{theta:.4f} and {-theta:.4f}; the minimum is at 0. Single gradient steps in theta with "
        "y = y*(theta), as in Balanced-PiKE, are those of gradient descent on the tilted loss.",
    )


def _squared_y() -> Finding:
    # Orthogonal losses theta_k^2 / 2 without noise at theta = (2, 1), tau = eta = 1.
    theta_2, tau, eta = vector(2, 1), 1.0, 1.0
    y_2 = tilt(theta_2.square() / 2, tau)

    def after(power: int) -> float:
        slope_2 = y_2**power * theta_2.square()
        weights_2 = minimiser(-eta * slope_2, eta**2 * slope_2)
        return float(y_2 @ ((1 - eta * weights_2) * theta_2).square() / 2)

    return Finding(
        "alg: fair_main",
        "(y_k*)^2 multiplies norm and variance: the lowest sum_k y_k L_k after a step on rows "
        "drawn by the weights that follow, and that by weights with y_k* to the first power",
        after(2),
        after(1),
        "assumption missing",
        "L_k = theta_k^2 / 2 at (2, 1), tau = eta = 1, no noise, weights by eq:relax_problem. "
        "The square belongs to updates along sum_k y_k grad l_k; the algorithm's step is along the "
        "gradient of the rows themselves, and for that the first power gives the lower loss.",
    )
