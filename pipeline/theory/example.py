"""Example 1 (`example:Adaptive`): two quadratic losses whose best mixture changes at every step.

    L_1 = theta_1^2 / 2,    L_2 = theta_2^2 / 2,    L = L_1 + L_2

Each coordinate of a row's gradient is off by noise of standard deviation sigma_k: a row's variance
in the sense of Assumption `as:assumption1` is 2 sigma_k^2.

Shapes: N points of two coordinates each; shares are w_1, and w_2 = 1 - w_1.
"""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.comparison.distributions import two_sided_critical_t
from pike_mixing.comparison.mean_difference import LEVEL
from pipeline.theory.problem import Row, vector


@dataclasses.dataclass(frozen=True)
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


def _weights_of_first_share(first_share_N: Floats) -> Floats:
    """w_1 and w_2: [N, 2]."""
    return np.stack([first_share_N, 1 - first_share_N], axis=1)


def _gradient_variance_of_one_coordinate(first_share_N: Floats, setting: ExampleSetting) -> Floats:
    """Variance of each coordinate of a batch's mean gradient: [N]."""
    return _weights_of_first_share(first_share_N) @ vector(*setting.sigma) ** 2 / setting.b


def optimal_share(theta_Nx2: Floats, setting: ExampleSetting) -> Floats:
    """Equation `eq:ExampleOptimalMixing`: w_1* of each point: [N].

    At theta = 0, where the equation divides by 0, all rows come from the task with less noise, and
    half from each where the noise is equal.
    """
    first_N, second_N = (theta_Nx2**2).T
    quieter = (setting.sigma[1] ** 2 - setting.sigma[0] ** 2) / setting.b
    above_N, below_N = quieter + (first_N - second_N) / setting.eta + second_N, first_N + second_N
    share_N = np.full_like(below_N, 0.5 if quieter == 0 else quieter > 0)
    return np.divide(above_N, below_N, out=share_N, where=below_N > 0).clip(0, 1)


def expected_static_losses_by_step(setting: ExampleSetting, share_N: Floats) -> Floats:
    """E[L] at every step under each static share: [steps + 1, N].

    `eq:ExampleExpectedLoss` holds for E[theta_k^2] in place of theta_k^2, so that the expected loss
    follows step by step without simulation.
    """
    kept_Nx2 = (1 - setting.eta * _weights_of_first_share(share_N)) ** 2
    added_Nx1 = setting.eta**2 * _gradient_variance_of_one_coordinate(share_N, setting)[:, None]
    second_Nx2 = np.tile(vector(*setting.start) ** 2, (len(share_N), 1))
    result = [second_Nx2.sum(axis=1) / 2]
    for _ in range(setting.steps):
        second_Nx2 = kept_Nx2 * second_Nx2 + added_Nx1
        result.append(second_Nx2.sum(axis=1) / 2)
    return np.stack(result)


class PathMeans(NamedTuple):
    """Means over simulated paths, at every step: [steps + 1] each."""

    loss_T: Floats
    stderr_T: Floats
    """Of the mean loss."""
    share_T: Floats
    """The share that the next step draws by."""


def simulate_path_means(
    setting: ExampleSetting, share: float | None, paths: int, generator: np.random.Generator
) -> PathMeans:
    """Paths of SGD under a static share, or None: under `eq:ExampleOptimalMixing` at each point."""
    theta_Nx2 = np.tile(vector(*setting.start), (paths, 1))
    losses, shares = [], []
    for _ in range(setting.steps + 1):
        losses.append((theta_Nx2**2).sum(axis=1) / 2)
        share_N = optimal_share(theta_Nx2, setting) if share is None else np.full(paths, share)
        shares.append(share_N.mean())
        noise_Nx2 = generator.standard_normal(theta_Nx2.shape)
        noise_Nx2 *= np.sqrt(_gradient_variance_of_one_coordinate(share_N, setting))[:, None]
        theta_Nx2 = theta_Nx2 - setting.eta * (
            _weights_of_first_share(share_N) * theta_Nx2 + noise_Nx2
        )
    loss_TxN = np.stack(losses)
    stderr_T = loss_TxN.std(axis=1, ddof=1) / paths**0.5
    return PathMeans(loss_TxN.mean(axis=1), stderr_T, np.array(shares))


def curve_rows(setting: ExampleSetting, paths: int, generator: np.random.Generator) -> list[Row]:
    """Figure 3: the loss at every step under the adaptive and under static mixtures.

    `loss` is the expected one: of static mixtures by formula, of the adaptive one the mean over
    the simulated paths. low and high: 95% interval of the simulated mean.
    """
    best = best_static_mixture(setting).share
    static = {f"static {share:g}": share for share in SHOWN} | {f"best static, {best:g}": best}
    rows: list[Row] = []
    for position, (name, share) in enumerate([("adaptive", None), *static.items()]):
        mean_T, stderr_T, share_T = simulate_path_means(setting, share, paths, generator)
        quantile = two_sided_critical_t(LEVEL, paths - 1)
        exact_T = mean_T
        if share is not None:
            exact_T = expected_static_losses_by_step(setting, vector(share))[:, 0]
        rows += [
            {
                "setting": setting.name,
                "mixture": name,
                "position": position,
                "step": step,
                "share": share_T[step],
                "loss": exact_T[step],
                "simulated": mean_T[step],
                "low": mean_T[step] - quantile * stderr_T[step],
                "high": mean_T[step] + quantile * stderr_T[step],
            }
            for step in range(setting.steps + 1)
        ]
    return rows


class BestStatic(NamedTuple):
    share: float
    last_loss: float


def best_static_mixture(setting: ExampleSetting) -> BestStatic:
    """The static share, of 0, 0.01 ... 1, with the lowest last expected loss."""
    share_N = np.linspace(0, 1, 101)
    last_N = expected_static_losses_by_step(setting, share_N)[-1]
    return BestStatic(round(float(share_N[last_N.argmin()]), 2), float(last_N.min()))


def compared_settings() -> list[ExampleSetting]:
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


def comparison_rows(
    chosen: Iterable[ExampleSetting], paths: int, generator: np.random.Generator
) -> list[Row]:
    """Adaptive against the best static mixture at the end of each setting.

    The best static share is chosen in hindsight, by the very loss that is compared. `ahead`: the
    adaptive loss lies below it by more than the 95% interval of the simulation; null: within it.
    """
    rows = []
    for setting in chosen:
        (theta1, theta2), (sigma1, sigma2) = setting.start, setting.sigma
        mean_T, stderr_T, _ = simulate_path_means(setting, None, paths, generator)
        share, static = best_static_mixture(setting)
        half = two_sided_critical_t(LEVEL, paths - 1) * stderr_T[-1]
        low, high = float(mean_T[-1] - half), float(mean_T[-1] + half)
        rows.append(
            {
                "setting": setting.name,
                "theta1": theta1,
                "theta2": theta2,
                "sigma1": sigma1,
                "sigma2": sigma2,
                "eta": setting.eta,
                "b": setting.b,
                "steps": setting.steps,
                "best_share": share,
                "best_static": static,
                "adaptive": mean_T[-1],
                "low": low,
                "high": high,
                "ahead": True if high < static else False if low > static else None,
            }
        )
    return rows
