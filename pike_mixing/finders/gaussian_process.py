"""A Gaussian process over mixtures (Rasmussen and Williams 2006, chapter 2), scikit-learn's.

    log L_i ~ GP(mean, a^2 x . x' + b^2 k(|x - x'| / l) + s^2),  x = w^0.3

k is Matern's of 5/2. a, b, l and the noise s are those of the highest likelihood. In powers of the
weights the first rows of a domain tell most; 0.3 and the logarithm were chosen on RegMix's runs of
1M. Beside the loss it tells how little it knows of a mixture: there its intervals widen.

Shapes: K domains, M losses, N proxy runs, S mixtures.
"""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders.surface_finder import SurfaceFinder

POWER = 0.3


@dataclasses.dataclass(frozen=True, kw_only=True)
class GaussianProcess(SurfaceFinder):
    """argmin_w sum_i u_i E[L_i(w)] of processes that are fitted one by one."""

    about: ClassVar[str] = (
        "Interpolates losses between mixtures by a Gaussian process, and knows where it knows "
        "little."
    )
    packages: ClassVar[tuple[str, ...]] = ("scipy", "sklearn")

    def fit_model(
        self, weights_NxK: Floats, epochs_NxK: Floats | None, loss_NxM: Floats
    ) -> "GaussianProcesses":
        """Each loss's process, of the highest likelihood."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor

        if (loss_NxM <= 0).any():
            raise InputError("a Gaussian process needs positive losses: it is fitted to logarithms")
        shape_Mx4 = []
        for loss_N in loss_NxM.T:
            with warnings.catch_warnings():
                # A parameter at its bound, as of losses without noise, is an answer.
                warnings.simplefilter("ignore", ConvergenceWarning)
                process = GaussianProcessRegressor(_build_kernel(), normalize_y=True)
                shape_Mx4.append(
                    process.fit(
                        _inputs_of_gaussian_process(weights_NxK), np.log(loss_N)
                    ).kernel_.theta
                )
        return GaussianProcesses(weights_NxK, loss_NxM, np.array(shape_Mx4))

    def restore_model(self, record: Mapping[str, Any]) -> "GaussianProcesses":
        """The processes of a record."""
        return GaussianProcesses(
            *(np.array(record[name]) for name in ("weights", "losses", "kernels"))
        )


def _inputs_of_gaussian_process(weights_SxK: Floats) -> Floats:
    """The x of the process."""
    return np.asarray(weights_SxK.clip(min=0) ** POWER)


def _build_kernel() -> Any:
    from sklearn.gaussian_process import kernels

    line = kernels.ConstantKernel(1.0, (1e-4, 1e4)) * kernels.DotProduct(0, "fixed")
    bump = kernels.ConstantKernel(1.0, (1e-4, 1e4)) * kernels.Matern(1.0, (0.05, 20), nu=2.5)
    return line + bump + kernels.WhiteKernel(0.01, (1e-8, 1.0))


class GaussianProcesses:
    """One for each loss, of the same runs."""

    def __init__(self, weights_NxK: Floats, loss_NxM: Floats, kernel_Mx4: Floats) -> None:
        """Takes the runs, and the logarithms of a^2, b^2, l and s^2 for each loss."""
        from sklearn.gaussian_process import GaussianProcessRegressor

        self.weights_NxK, self.loss_NxM, self.kernel_Mx4 = weights_NxK, loss_NxM, kernel_Mx4
        self.fitted = [
            GaussianProcessRegressor(
                _build_kernel().clone_with_theta(theta), optimizer=None, normalize_y=True
            ).fit(_inputs_of_gaussian_process(weights_NxK), np.log(loss_N))
            for theta, loss_N in zip(kernel_Mx4, loss_NxM.T, strict=True)
        ]

    def losses(self, weights_SxK: Floats, epochs_SxK: Floats | None) -> Floats:
        """Expected losses of each mixture [S, M]."""
        x_SxK = _inputs_of_gaussian_process(weights_SxK)
        return np.exp([process.predict(x_SxK) for process in self.fitted]).T

    def standard_deviations(self, weights_SxK: Floats) -> Floats:
        """Standard deviations of a run's losses [S, M], by the processes' own account."""
        x_SxK = _inputs_of_gaussian_process(weights_SxK)
        told = [process.predict(x_SxK, return_std=True) for process in self.fitted]
        return np.stack([np.exp(mean_S) * spread_S for mean_S, spread_S in told], axis=1)

    def formula(self) -> dict[str, Any]:
        """Numbers of `losses` without scikit-learn: exp(mean + spread sum_n alpha_n k(x_n, x)).

        k(x_n, x) = line x_n . x + bump (1 + r + r^2 / 3) exp(-r), r = 5^(1/2) |x_n - x| / length.
        """
        return {
            "power": POWER,
            "points": _inputs_of_gaussian_process(self.weights_NxK).tolist(),
            "processes": [
                dict(zip(("line", "bump", "length"), np.exp(theta[:3]).tolist(), strict=True))
                | {"mean": float(log_N.mean()), "spread": float(log_N.std()) or 1.0}
                | {"alpha": process.alpha_.tolist()}
                for process, theta, log_N in zip(
                    self.fitted, self.kernel_Mx4, np.log(self.loss_NxM.T), strict=True
                )
            ],
        }

    def record(self) -> dict[str, Any]:
        """The runs and the kernels' parameters."""
        values = (self.weights_NxK, self.loss_NxM, self.kernel_Mx4)
        return dict(
            zip(("weights", "losses", "kernels"), (v.tolist() for v in values), strict=True)
        )
