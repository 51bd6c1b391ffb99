"""Scaling laws L(n) = e^c + e^a n^-alpha, fitted to many domains from many starts at once.

The objective is that of ADO (arXiv 2410.11820): the sum over points of the Huber loss (delta 1e-3)
of log L(n) - log L, and a slope of 1 outside of bounds on a, c and alpha. The fit is Levenberg and
Marquardt's with the Huber loss as a reweighted square, which needs no line search and works on all
domains and starts as one array: first from a grid on a few points, then the best on all points.

Shapes: K domains, S starts, T points, 3 parameters of a law: a, c, alpha.
"""

import itertools

import torch
from torch import Tensor

DELTA = 1e-3
"""Where the Huber loss turns from a square to a line, in nats of log loss."""
ROUNDING = 1e-3
"""Width of the rounded kink of a bound; without it a step across the kink could not be judged."""
STARTS_Sx3 = torch.tensor(
    list(
        itertools.product(
            range(-2, 6), [step / 2 for step in range(-4, 4)], [step / 10 for step in range(8)]
        )
    ),
    dtype=torch.float64,
)
FEW = 32
"""Points on which all starts are tried."""


def smoothing(window: int) -> Tensor:
    """Matrix that replaces a window's values by its cubic least-squares fit (Savitzky-Golay).

    The middle row smooths in the interior, the rows behind it at the end of a series.
    """
    place_W = torch.linspace(-1, 1, window, dtype=torch.float64)
    basis, _ = torch.linalg.qr(torch.stack([place_W**power for power in range(4)], dim=1))
    return basis @ basis.T


def reducible(law_Kx3: Tensor, rows: float) -> Tensor:
    """The part e^a n^-alpha of each domain's loss that more rows take away, in nats."""
    a_K, _, alpha_K = law_Kx3.T
    return torch.exp(a_K - alpha_K * torch.tensor(rows, dtype=torch.float64).log())


def fit(rows_T: Tensor, loss_TxK: Tensor, min_log_irreducible: float) -> Tensor:
    """The law of each domain.

    Args:
        rows_T: n, the same for all domains.
        loss_TxK: Positive losses in nats, smoothed.
        min_log_irreducible: Bound from below on c.

    Returns:
        law_Kx3: a, c and alpha of each domain.
    """
    # A cubic can dip below a loss that is nearly 0.
    x_T, y_KxT = rows_T.double().log(), loss_TxK.double().clamp(min=1e-9).log().T
    low_3 = torch.tensor([-10.0, min_log_irreducible, 1e-3], dtype=torch.float64)
    high_3 = torch.tensor([6.5, torch.inf, 0.8], dtype=torch.float64)
    few = torch.linspace(0, len(x_T) - 1, min(FEW, len(x_T)), dtype=torch.float64).round().long()
    law_KxSx3 = STARTS_Sx3.expand(len(y_KxT), -1, -1)
    law_KxSx3, value_KxS = _descended(law_KxSx3, x_T[few], y_KxT[:, few], low_3, high_3, tries=20)
    best_KxS = value_KxS.topk(4, dim=1, largest=False).indices
    law_KxSx3 = law_KxSx3.gather(1, best_KxS[..., None].expand(-1, -1, 3))
    law_KxSx3, value_KxS = _descended(law_KxSx3, x_T, y_KxT, low_3, high_3, tries=100)
    best_K = value_KxS.argmin(dim=1)
    return law_KxSx3[torch.arange(len(best_K)), best_K]


def _descended(
    law_KxSx3: Tensor, x_T: Tensor, y_KxT: Tensor, low_3: Tensor, high_3: Tensor, *, tries: int
) -> tuple[Tensor, Tensor]:
    """Laws and objectives after `tries` steps, each taken only if it lowers the objective."""
    damping_KxS = torch.full(law_KxSx3.shape[:2], 1e-2, dtype=torch.float64)
    value_KxS, gradient, hessian = objective(law_KxSx3, x_T, y_KxT, low_3, high_3)
    for _ in range(tries):
        scale = hessian.diagonal(dim1=-2, dim2=-1) + 1e-12
        damped = hessian + torch.diag_embed(damping_KxS[..., None] * scale + 1e-15)
        step = torch.linalg.solve(damped, gradient[..., None])[..., 0]
        if (step.abs() <= 1e-10 * (1 + law_KxSx3.abs())).all():
            break
        trial = law_KxSx3 - step
        value, slope, curvature = objective(trial, x_T, y_KxT, low_3, high_3)
        better_KxS = value < value_KxS
        damping_KxS = torch.where(better_KxS, damping_KxS / 5, damping_KxS * 4).clamp(1e-12, 1e12)
        law_KxSx3 = torch.where(better_KxS[..., None], trial, law_KxSx3)
        value_KxS = torch.where(better_KxS, value, value_KxS)
        gradient = torch.where(better_KxS[..., None], slope, gradient)
        hessian = torch.where(better_KxS[..., None, None], curvature, hessian)
    return law_KxSx3, value_KxS


def objective(
    law_KxSx3: Tensor, x_T: Tensor, y_KxT: Tensor, low_3: Tensor, high_3: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Objective_KxS, gradient_KxSx3, and a positive Hessian_KxSx3x3 that bounds its curvature."""
    a, c, alpha = law_KxSx3[..., None].unbind(dim=2)
    power = a - alpha * x_T
    # Share of the power law in the loss: the derivative of logaddexp by its first argument.
    share = torch.sigmoid(power - c)
    residual = torch.logaddexp(power, c) - y_KxT[:, None]
    size = residual.abs()
    weight = (DELTA / size).clamp(max=1)
    value_KxS = torch.where(size > DELTA, DELTA * (size - DELTA / 2), residual**2 / 2).sum(-1)
    jacobian = torch.stack([share, 1 - share, -share * x_T], dim=-1)
    weighted = jacobian * weight[..., None]
    gradient = (weighted * residual[..., None]).sum(-2)
    hessian = weighted.transpose(-2, -1) @ jacobian
    for outside, sign in ((low_3 - law_KxSx3, -1), (law_KxSx3 - high_3, 1)):
        past = outside.clamp(min=0)
        kink = past.clamp(max=ROUNDING)
        value_KxS = value_KxS + (kink * (past - kink / 2)).sum(-1) / ROUNDING
        gradient = gradient + sign * kink / ROUNDING
        hessian = hessian + torch.diag_embed(torch.where(past > 0, 1 / past.clamp(ROUNDING), 0))
    return value_KxS, gradient, hessian
