"""Sums of K smooth losses whose gradients, noise and constants of smoothness are known.

Shapes: K domains, D parameters, R terms of one loss, N points at once.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.interface import Statistics

Row = dict[str, Any]
"""A row of a record by its columns."""


@dataclass(frozen=True)
class Problem:
    """L_k(theta) = sum_r phi(a_kr . theta - c_kr), with phi(x) = x^2 / 2 or log cosh x.

    A row's gradient is that of L_k plus x of mean 0 and covariance sigma_k^2 / D I, so that its
    variance (Assumption `as:assumption1`) is sigma_k^2. Both phi have a second derivative of at
    most 1.
    """

    name: str
    axes_KxRxD: Floats
    """The a_kr."""
    variance_K: Floats
    """The sigma_k^2."""
    offset: float = 0.0
    """The c_kr, all the same: 0 puts the minimum of all losses at theta = 0."""
    shape: Literal["quadratic", "log-cosh"] = "quadratic"
    """phi."""

    def losses(self, theta_NxD: Floats) -> Floats:
        """L_k at each point: [N, K]."""
        residual_NxKxR = self._term_residuals(theta_NxD)
        if self.shape == "quadratic":
            return (residual_NxKxR**2).sum(axis=2) / 2
        # log cosh x = log(e^x + e^-x) - log 2, which does not overflow.
        return (np.logaddexp(residual_NxKxR, -residual_NxKxR) - math.log(2)).sum(axis=2)

    def gradients(self, theta_NxD: Floats) -> Floats:
        """The gradients of the L_k at each point: [N, K, D]."""
        residual_NxKxR = self._term_residuals(theta_NxD)
        slope_NxKxR = residual_NxKxR if self.shape == "quadratic" else np.tanh(residual_NxKxR)
        return np.einsum("nkr,krd->nkd", slope_NxKxR, self.axes_KxRxD)

    def _term_residuals(self, theta_NxD: Floats) -> Floats:
        """a_kr . theta - c_kr, what phi is taken of: [N, K, R]."""
        return np.einsum("krd,nd->nkr", self.axes_KxRxD, theta_NxD) - self.offset

    def bounding_hessian_matrices(self) -> Floats:
        """Hessians of the L_k where phi'' is 1, its largest value: [K, D, D]."""
        return np.einsum("krd,kre->kde", self.axes_KxRxD, self.axes_KxRxD)

    def smoothness_constant(self) -> float:
        """L of Assumption `as:assumption1`: the Lipschitz constant of the worst grad L_k."""
        return float(np.linalg.eigvalsh(self.bounding_hessian_matrices()).max())

    def smoothness_of_sum(self) -> float:
        """The Lipschitz constant of grad L, L the sum of the L_k: between L and K L."""
        return float(np.linalg.eigvalsh(self.bounding_hessian_matrices().sum(axis=0)).max())

    def statistics(self, theta_D: Floats) -> Statistics:
        """What estimates of the gradients at a point would be without any error."""
        squared_norm_K = (self.gradients(theta_D[None])[0] ** 2).sum(axis=1)
        loss_K = self.losses(theta_D[None])[0]
        return Statistics(
            squared_norm_K, squared_norm_K, self.variance_K, loss_K, np.ones_like(loss_K)
        )

    def points_after_sgd_step(
        self,
        theta_NxD: Floats,
        weights_NxK: Floats,
        eta: float,
        b: int,
        generator: np.random.Generator,
    ) -> Floats:
        """Each point after one step of SGD on a batch of b rows (equation `eq: mix_framework`).

        The mean of the batch's noise is drawn at once: variance sum_k w_k sigma_k^2 / b in all.
        """
        gradient_NxD = (weights_NxK[..., None] * self.gradients(theta_NxD)).sum(axis=1)
        spread_N = np.sqrt(weights_NxK @ self.variance_K / b / theta_NxD.shape[1])
        noise_NxD = generator.standard_normal(theta_NxD.shape)
        return theta_NxD - eta * (gradient_NxD + spread_N[..., None] * noise_NxD)

    def expected_loss_after_step(
        self, theta_D: Floats, weights_K: Floats, eta: float, b: int
    ) -> float:
        """E[L] after that step, from the Taylor series of quadratic losses, which ends."""
        assert self.shape == "quadratic", "the series of log cosh does not end"
        step_D = -eta * weights_K @ self.gradients(theta_D[None])[0]
        noise = eta**2 * float(weights_K @ self.variance_K) / b / len(theta_D)
        trace = float(self.bounding_hessian_matrices().sum(axis=0).trace())
        return float(self.losses((theta_D + step_D)[None]).sum()) + noise * trace / 2


def vector(*values: float) -> Floats:
    """A float64 array of the values."""
    return np.array(values, np.float64)


def axis_problem(name: str, variance_K: Floats, *, L: float = 1.0, D: int | None = None) -> Problem:
    """L_k = L theta_k^2 / 2: Example 1 for K domains, the instance of `thm:DescentLowerBound`.

    Of D parameters, more than K leave some in no loss.
    """
    axes_KxD = math.sqrt(L) * np.eye(len(variance_K), D)
    return Problem(name, axes_KxD[:, None], variance_K)


def leaning_problem(name: str, variance_K: Floats, cosine: float) -> Problem:
    """L_k = (a_k . theta)^2 / 2 with unit a_k of which any two have the cosine.

    Gradients are multiples of the a_k of either sign, so everywhere they are |cosine| / 2
    conflicted and |cosine| aligned.
    """
    gram_KxK = (1 - cosine) * np.eye(len(variance_K)) + cosine
    axes_KxD = np.linalg.cholesky(gram_KxK).astype(np.float64)
    return Problem(name, axes_KxD[:, None], variance_K)
