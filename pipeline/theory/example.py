"""Example 1 (`example:Adaptive`): two quadratic losses whose best mixture changes at every step.

    L_1 = theta_1^2 / 2,    L_2 = theta_2^2 / 2,    L = L_1 + L_2

Each coordinate of a row's gradient is off by noise of standard deviation sigma_k: a row's variance
in the sense of Assumption `as:assumption1` is 2 sigma_k^2.

Shapes: N points of two coordinates each; shares are w_1, and w_2 = 1 - w_1.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pike_mixing.interface import Statistics
from pike_mixing.rules.conceptual_pike import ConceptualPiKE, minimiser
from pipeline.theory.problem import vector

Row = dict[str, Any]
Z95 = 1.959964


@dataclass(frozen=True)
class ExampleSetting:
    """What Example 1 leaves open."""

    name: str
    start: tuple[float, float]
    """theta_0."""
    sigma: tuple[float, float]
    """Standard deviation of a row's noise in each coordinate, by task."""
    eta: float
    """Step size."""
    b: int
    """Rows of a batch."""
    steps: int


FIGURE = ExampleSetting("figure 3", (3.0, 1.0), (1.0, 3.0), 0.1, 16, 100)
"""Figure 3. The paper does not say with which values it was drawn: these are ours
(docs/decisions.md, 0021)."""

STUCK = ExampleSetting("noise in one task alone", (0.35, 1.0), (2.0, 0.0), 0.5, 16, 100)
"""Where the best next step is not the best way: eta sigma_1^2 / b = 0.125 is above theta_1^2, so
that learning task 1 costs more at once than it gives, and the adaptive mixture never begins."""

SHOWN = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Static shares of task 1 in the figure."""


def expected_loss(theta_Nx2: Tensor, share_N: Tensor, setting: ExampleSetting) -> Tensor:
    """Equation `eq:ExampleExpectedLoss`: E[L] after one step from each point: [N]."""
    weights_Nx2 = torch.stack([share_N, 1 - share_N], dim=1)
    kept_Nx2 = (1 - setting.eta * weights_Nx2) * theta_Nx2
    noise_N = weights_Nx2 @ vector(*setting.sigma).square() / setting.b
    return kept_Nx2.square().sum(dim=1) / 2 + setting.eta**2 * noise_N


def optimal_share(theta_Nx2: Tensor, setting: ExampleSetting) -> Tensor:
    """Equation `eq:ExampleOptimalMixing`: w_1* of each point: [N].

    At theta = 0, where the equation is 0 / 0, all rows come from the task with less noise, and half
    from each where the noise is equal.
    """
    first_N, second_N = theta_Nx2.square().unbind(dim=1)
    quieter = (setting.sigma[1] ** 2 - setting.sigma[0] ** 2) / setting.b
    above_N = quieter + (first_N - second_N) / setting.eta + second_N
    below_N = first_N + second_N
    at_zero = 0.5 if quieter == 0 else float(quieter > 0)
    share_N = (above_N / below_N.masked_fill(below_N == 0, 1)).clamp(0, 1)
    return share_N.masked_fill(below_N == 0, at_zero)


def pike_share(theta_2: Tensor, setting: ExampleSetting) -> float:
    """w_1 of conceptual PiKE (Lemma `le:optimal_w_for_relax_problem`) with L = beta = gamma = 1."""
    squared_2 = theta_2.square().numpy()
    variance_2 = (2 * vector(*setting.sigma).square()).numpy()
    statistics = Statistics(squared_2, squared_2, variance_2, squared_2 / 2, variance_2)
    method = ConceptualPiKE(L=1, eta=setting.eta, norm="plug-in")
    return float(minimiser(*method.bound(statistics, setting.b))[0])


def static_losses(setting: ExampleSetting, share_N: Tensor) -> Tensor:
    """E[L] at every step under each static share: [steps + 1, N].

    `eq:ExampleExpectedLoss` holds for E[theta_k^2] in place of theta_k^2, so that the expected loss
    follows step by step without simulation.
    """
    weights_Nx2 = torch.stack([share_N, 1 - share_N], dim=1)
    noise_N = weights_Nx2 @ vector(*setting.sigma).square() / setting.b
    second_Nx2 = vector(*setting.start).square().expand(len(share_N), 2)
    found = [second_Nx2.sum(dim=1) / 2]
    for _ in range(setting.steps):
        kept_Nx2 = (1 - setting.eta * weights_Nx2).square() * second_Nx2
        second_Nx2 = kept_Nx2 + setting.eta**2 * noise_N[:, None]
        found.append(second_Nx2.sum(dim=1) / 2)
    return torch.stack(found)


def simulated(
    setting: ExampleSetting, share: float | None, paths: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Paths of SGD under a static share, or None: under `eq:ExampleOptimalMixing` at each point.

    Returns:
        Mean loss at every step, its standard error, and the mean share that the next step draws
        by: [steps + 1] each.
    """
    theta_Nx2 = vector(*setting.start).repeat(paths, 1)
    losses, shares = [], []
    for _ in range(setting.steps + 1):
        losses.append(theta_Nx2.square().sum(dim=1) / 2)
        if share is None:
            share_N = optimal_share(theta_Nx2, setting)
        else:
            share_N = torch.full((paths,), share, dtype=torch.float64)
        shares.append(share_N.mean())
        weights_Nx2 = torch.stack([share_N, 1 - share_N], dim=1)
        spread_N = (weights_Nx2 @ vector(*setting.sigma).square() / setting.b).sqrt()
        noise_Nx2 = torch.randn(theta_Nx2.shape, generator=generator, dtype=torch.float64)
        step_Nx2 = weights_Nx2 * theta_Nx2 + spread_N[:, None] * noise_Nx2
        theta_Nx2 = theta_Nx2 - setting.eta * step_Nx2
    loss_TxN = torch.stack(losses)
    return loss_TxN.mean(dim=1), loss_TxN.std(dim=1) / paths**0.5, torch.stack(shares)


def curves(setting: ExampleSetting, paths: int, generator: torch.Generator) -> list[Row]:
    """Figure 3: the loss at every step under the adaptive and under static mixtures.

    `loss` is the expected one: of static mixtures by formula, of the adaptive one the mean over
    the simulated paths. low and high: 95% interval of the simulated mean.
    """
    best = best_static(setting)[0]
    static = {f"static {share:g}": share for share in SHOWN} | {f"best static, {best:g}": best}
    rows: list[Row] = []
    for position, (name, share) in enumerate([("adaptive", None), *static.items()]):
        mean_T, stderr_T, share_T = simulated(setting, share, paths, generator)
        exact_T = mean_T if share is None else static_losses(setting, vector(share))[:, 0]
        rows += [
            {
                "setting": setting.name,
                "mixture": name,
                "position": position,
                "step": step,
                "share": float(share_T[step]),
                "loss": float(exact_T[step]),
                "simulated": float(mean_T[step]),
                "low": float(mean_T[step] - Z95 * stderr_T[step]),
                "high": float(mean_T[step] + Z95 * stderr_T[step]),
            }
            for step in range(setting.steps + 1)
        ]
    return rows


def best_static(setting: ExampleSetting) -> tuple[float, float]:
    """The static share, of 0, 0.01 ... 1, with the lowest last expected loss, and that loss."""
    share_N = torch.linspace(0, 1, 101, dtype=torch.float64)
    last_N = static_losses(setting, share_N)[-1]
    return round(float(share_N[last_N.argmin()]), 2), float(last_N.min())


def settings() -> list[ExampleSetting]:
    """The figure's setting, a grid around it, and one where adaptive mixing loses."""
    starts, noise = ((1.0, 1.0), (3.0, 1.0), (1.0, 3.0)), (0.1, 1.0, 5.0)
    grid = itertools.product(starts, noise, (0.05, 0.2, 0.5), (4, 32))
    return [
        FIGURE,
        *(
            ExampleSetting(f"theta {a:g}, {c:g}; sigma 1, {s:g}; eta {eta:g}; b {b}",
                    (a, c), (1.0, s), eta, b, 60)
            for (a, c), s, eta, b in grid
        ),
        STUCK,
    ]  # fmt: skip


def comparisons(
    chosen: Iterable[ExampleSetting], paths: int, generator: torch.Generator
) -> list[Row]:
    """Adaptive against the best static mixture at the end of each setting.

    The best static share is chosen in hindsight, by the very loss that is compared. `ahead`: the
    adaptive loss lies below it by more than the 95% interval of the simulation; null: within it.
    """
    rows = []
    for setting in chosen:
        mean_T, stderr_T, _ = simulated(setting, None, paths, generator)
        share, static = best_static(setting)
        low, high = (float(mean_T[-1] + z * stderr_T[-1]) for z in (-Z95, Z95))
        rows.append(
            {
                "setting": setting.name,
                "theta1": setting.start[0],
                "theta2": setting.start[1],
                "sigma1": setting.sigma[0],
                "sigma2": setting.sigma[1],
                "eta": setting.eta,
                "b": setting.b,
                "steps": setting.steps,
                "best_share": share,
                "best_static": static,
                "adaptive": float(mean_T[-1]),
                "low": low,
                "high": high,
                "ahead": True if high < static else False if low > static else None,
            }
        )
    return rows


POINTS = (
    ((1.0, 0.5), (0.1, 0.1), 0.3), ((3.0, 1.0), (1.0, 3.0), 0.1), ((0.2, 0.3), (3.0, 0.2), 0.5),
    ((0.3, 0.2), (1.0, 4.0), 0.5), ((2.0, 0.1), (1.0, 1.0), 1.0), ((0.0, 1.0), (1.0, 2.0), 0.5),
)  # fmt: skip
"""theta, sigma and eta at which one step is checked; b is 16."""


def steps(draws: int, generator: torch.Generator) -> list[Row]:
    """One step from given points: the formulas beside simulation, conceptual PiKE and a search."""
    rows = []
    for theta, sigma, eta in POINTS:
        setting = ExampleSetting("point", theta, sigma, eta, 16, 1)
        theta_Nx2, grid_N = vector(*theta)[None], torch.linspace(0, 1, 1001, dtype=torch.float64)
        share_N = optimal_share(theta_Nx2, setting)
        searched = grid_N[expected_loss(theta_Nx2.expand(1001, 2), grid_N, setting).argmin()]
        mean_T, stderr_T, _ = simulated(setting, float(share_N), draws, generator)
        rows.append(
            {
                "theta1": theta[0],
                "theta2": theta[1],
                "sigma1": sigma[0],
                "sigma2": sigma[1],
                "eta": eta,
                "b": setting.b,
                "share": float(share_N),
                "share_pike": pike_share(vector(*theta), setting),
                "share_searched": float(searched),
                "expected": float(expected_loss(theta_Nx2, share_N, setting)),
                "simulated": float(mean_T[1]),
                "stderr": float(stderr_T[1]),
            }
        )
    return rows
