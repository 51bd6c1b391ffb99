"""Sums of K smooth losses whose gradients, noise and constants of smoothness are known.

Shapes: K domains, D parameters, R terms of one loss, N points at once.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pike_mixing.interface import Statistics


def vector(*values: float) -> Tensor:
    """A float64 tensor of the values."""
    return torch.tensor(values, dtype=torch.float64)


@dataclass(frozen=True)
class Problem:
    """L_k(theta) = sum_r phi(a_kr . theta - c_kr), with phi(x) = x^2 / 2 or log cosh x.

    A row's gradient is that of L_k plus x of mean 0 and covariance sigma_k^2 / D I, so that its
    variance (Assumption `as:assumption1`) is sigma_k^2. Both phi have a second derivative of at
    most 1.
    """

    name: str
    axes_KxRxD: Tensor
    """The a_kr."""
    variance_K: Tensor
    """The sigma_k^2."""
    offset: float = 0.0
    """The c_kr, all the same: 0 puts the minimum of all losses at theta = 0."""
    shape: Literal["quadratic", "log-cosh"] = "quadratic"
    """phi."""

    def losses(self, theta_NxD: Tensor) -> Tensor:
        """L_k at each point: [N, K]."""
        reach_NxKxR = self._reach(theta_NxD)
        if self.shape == "quadratic":
            return reach_NxKxR.square().sum(dim=2) / 2
        # log cosh x = |x| + log(1 + exp(-2 |x|)) - log 2, which does not overflow.
        size_NxKxR = reach_NxKxR.abs()
        return (size_NxKxR + (-2 * size_NxKxR).exp().log1p() - math.log(2)).sum(dim=2)

    def gradients(self, theta_NxD: Tensor) -> Tensor:
        """The gradients of the L_k at each point: [N, K, D]."""
        reach_NxKxR = self._reach(theta_NxD)
        slope_NxKxR = reach_NxKxR if self.shape == "quadratic" else reach_NxKxR.tanh()
        return torch.einsum("nkr,krd->nkd", slope_NxKxR, self.axes_KxRxD)

    def _reach(self, theta_NxD: Tensor) -> Tensor:
        return torch.einsum("krd,nd->nkr", self.axes_KxRxD, theta_NxD) - self.offset

    def curvatures(self) -> Tensor:
        """Hessians of the L_k where phi'' is 1, its largest value: [K, D, D]."""
        return torch.einsum("krd,kre->kde", self.axes_KxRxD, self.axes_KxRxD)

    def smoothness(self) -> float:
        """L of Assumption `as:assumption1`: the Lipschitz constant of the worst grad L_k."""
        return float(torch.linalg.eigvalsh(self.curvatures()).max())

    def smoothness_of_sum(self) -> float:
        """The Lipschitz constant of grad L, L the sum of the L_k: between L and K L."""
        return float(torch.linalg.eigvalsh(self.curvatures().sum(dim=0)).max())

    def statistics(self, theta_D: Tensor) -> Statistics:
        """What estimates of the gradients at a point would be without any error."""
        squared_norm_K = self.gradients(theta_D[None])[0].square().sum(dim=1)
        loss_K = self.losses(theta_D[None])[0]
        rows_K = torch.ones_like(loss_K)
        numbers = (squared_norm_K, squared_norm_K, self.variance_K, loss_K, rows_K)
        return Statistics(*(number_K.numpy() for number_K in numbers))

    def stepped(
        self, theta_NxD: Tensor, weights_NxK: Tensor, eta: float, b: int, generator: torch.Generator
    ) -> Tensor:
        """Each point after one step of SGD on a batch of b rows (equation `eq: mix_framework`).

        The mean of the batch's noise is drawn at once: variance sum_k w_k sigma_k^2 / b in all.
        """
        gradient_NxD = (weights_NxK[:, :, None] * self.gradients(theta_NxD)).sum(dim=1)
        spread_N = (weights_NxK @ self.variance_K / b / theta_NxD.shape[1]).sqrt()
        noise_NxD = torch.randn(theta_NxD.shape, generator=generator, dtype=torch.float64)
        return theta_NxD - eta * (gradient_NxD + spread_N[:, None] * noise_NxD)

    def expected(self, theta_D: Tensor, weights_K: Tensor, eta: float, b: int) -> float:
        """E[L] after that step, from the Taylor series of quadratic losses, which ends."""
        assert self.shape == "quadratic", "the series of log cosh does not end"
        gradient_KxD = self.gradients(theta_D[None])[0]
        step_D = -eta * weights_K @ gradient_KxD
        noise = eta**2 * float(weights_K @ self.variance_K) / b / len(theta_D)
        trace = float(self.curvatures().sum(dim=0).trace())
        return float(self.losses((theta_D + step_D)[None]).sum()) + noise * trace / 2


def along_axes(name: str, variance_K: Tensor, *, L: float = 1.0, D: int | None = None) -> Problem:
    """L_k = L theta_k^2 / 2: Example 1 for K domains, the instance of `thm:DescentLowerBound`.

    Args:
        name: Its name.
        variance_K: The sigma_k^2.
        L: Curvature of each loss.
        D: Parameters; more than K leave some in no loss.
    """
    K = len(variance_K)
    axes_KxD = math.sqrt(L) * torch.eye(D or K, dtype=torch.float64)[:K]
    return Problem(name, axes_KxD[:, None], variance_K)


def leaning(name: str, variance_K: Tensor, cosine: float) -> Problem:
    """L_k = (a_k . theta)^2 / 2 with unit a_k of which any two have the cosine.

    Gradients are multiples of the a_k of either sign, so everywhere they are |cosine| / 2
    conflicted and |cosine| aligned.
    """
    K = len(variance_K)
    gram_KxK = (1 - cosine) * torch.eye(K, dtype=torch.float64) + cosine
    return Problem(name, torch.linalg.cholesky(gram_KxK)[:, None], variance_K)
