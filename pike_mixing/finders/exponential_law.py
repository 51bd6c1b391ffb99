"""The exponential mixing law (arXiv 2403.16952): a domain's loss as a function of the mixture.

    L_i(w) = c_i + exp(b_i + t_i . w)

Because the weights sum to 1, a constant moved from b_i to all of t_i changes nothing: t_i is fixed
to sum to 0. Then exp(b_i) is what the mixture can still take off or add at equal weights, c_i is
what no mixture takes away, and K + 1 coefficients are free. While fitting, the exponent is written
s_i . w with s_i = b_i + t_i, where nothing is left undetermined.

Shapes: K domains, M losses, N proxy runs, B searches (M losses from several starts), I of them that
go on, C = K + 1 coefficients: c, then s.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError

ITERATIONS = 4000
"""Steps after which a fit counts as not converged."""
SHARP = 100
"""Steps in which errors beyond the bound have no curvature, which is Newton's choice. Afterwards
each has its weight as curvature: steps are shorter, and converge where the first do not."""
TOLERANCE = 1e-8
"""A fit has converged when a step lowers its cost by less than this part of it."""
EXACT = 1e-12
"""Or when its errors are below this part of huber, at most of a nat: of a constant loss above 1 the
cost falls to 0, where each step lowers it by much of itself."""
RIDGE = 1e-6
"""Price of |s|^2 beside the squared errors, nats^2; linear beyond the same bound.

It keeps the equations of a step solvable where exponentials vanish; a law that fits well does not
feel it.
"""


@dataclass(frozen=True)
class Laws:
    """One law for each of M losses, which are the domains' where nothing else is said."""

    c_K: Floats
    """Loss that no mixture takes away, nats."""
    b_K: Floats
    """Logarithm of the rest at equal weights."""
    t_KxK: Floats
    """Row i: change of the exponent of loss i per weight of each domain; sums to 0."""

    def losses(self, weights_NxK: Floats) -> Floats:
        """Predicted losses of each mixture, [N, M]."""
        return self.c_K + np.exp(self.b_K + weights_NxK @ self.t_KxK.T)


def fit(weights_NxK: Floats, loss_NxM: Floats, *, starts: int, huber: float) -> Laws:
    """Each loss's law, fitted by itself: all of them at once, from several values of c.

    Mixtures must span the simplex, losses be positive. Errors beyond `huber` nats count linearly.
    """
    N, M = loss_NxM.shape
    # c and s run along one valley that is nearly flat, and a loss that the mixture does not move
    # has several: one start is not enough.
    loss_BxN = np.repeat(loss_NxM.T, starts, axis=0)
    c_B = loss_BxN.min(axis=1) * np.tile(1 - np.geomspace(1, 1e-3, starts), M)
    search = _LevenbergMarquardt(weights_NxK, loss_BxN, huber)
    found_BxC, cost_B, converged_B = search.run(_initial_coefficients(weights_NxK, loss_BxN, c_B))
    best_M = cost_B.reshape(M, starts).argmin(axis=1) + starts * np.arange(M)
    if not converged_B[best_M].all():
        raise InputError(
            f"the mixing law does not converge on these {N} proxy runs in {ITERATIONS} steps: add "
            "proxy runs, or leave out those that diverged"
        )
    c_M, s_MxK = found_BxC[best_M, 0], found_BxC[best_M, 1:]
    b_M = s_MxK.mean(axis=1)
    return Laws(c_M, b_M, s_MxK - b_M[:, None])


def _initial_coefficients(weights_NxK: Floats, loss_BxN: Floats, c_B: Floats) -> Floats:
    """Each c with the s of linear equations [B, C].

    With c given, log(L - c) = s . w is linear in s; an error of L counts 1 / (L - c) there, so the
    equations are weighed by L - c.
    """
    rest_BxN = loss_BxN - c_B[:, None]
    matrix_BxKxK = _weighted_outer_products(weights_NxK, rest_BxN**2) + RIDGE * np.eye(
        weights_NxK.shape[1]
    )
    right_BxK = (rest_BxN**2 * np.log(rest_BxN)) @ weights_NxK
    return np.column_stack([c_B, np.linalg.solve(matrix_BxKxK, right_BxK[..., None])[..., 0]])


def _weighted_outer_products(weights_NxK: Floats, value_BxN: Floats) -> Floats:
    """sum_n value_n w_n w_n^T of each row [B, K, K]."""
    return np.matmul(weights_NxK.T * value_BxN[:, None], weights_NxK)


@dataclass(frozen=True)
class _LevenbergMarquardt:
    """Damped Gauss-Newton steps (Levenberg-Marquardt) of all searches at once, c >= 0."""

    weights_NxK: Floats
    loss_BxN: Floats
    huber: float

    def run(self, found_BxC: Floats) -> tuple[Floats, Floats, Any]:
        """Coefficients [B, C], their costs [B] and which searches have converged [B]."""
        found_BxC, B = found_BxC.copy(), len(found_BxC)
        cost_B, damping_B, factor_B = self.cost(found_BxC), np.full(B, 1e-3), np.full(B, 2.0)
        open_I = np.arange(B)
        for number in range(ITERATIONS):
            now_IxC = found_BxC[open_I]
            next_IxC, promise_I = self.next_coefficients_and_promised_falls(
                now_IxC, open_I, damping_B[open_I], number < SHARP
            )
            cost_I = self.cost(next_IxC, open_I)
            # An exponential that overflows gives a cost that no step is taken to.
            less_I = cost_B[open_I] - cost_I
            kept_I = less_I > 0
            ratio_I = np.divide(less_I, promise_I, out=np.zeros_like(less_I), where=kept_I)
            small_I = kept_I & (ratio_I > 0.25) & (less_I < TOLERANCE * cost_B[open_I])
            found_BxC[open_I[kept_I]], cost_B[open_I[kept_I]] = next_IxC[kept_I], cost_I[kept_I]
            # Nielsen's rule: a step that keeps its promise lowers the damping to a third.
            change_I = np.maximum(1 / 3, 1 - (2 * ratio_I.clip(max=2) - 1) ** 3)
            exact = EXACT * min(self.huber, 1)
            small_I |= cost_B[open_I] < self.loss_BxN.shape[1] * exact**2
            damping_B[open_I] *= np.where(kept_I, change_I, factor_B[open_I])
            factor_B[open_I] = np.where(kept_I, 2, 2 * factor_B[open_I])
            # Where no step, however short, lowers the cost, it is as low as floats tell.
            open_I = open_I[~small_I & (damping_B[open_I] < 1e12)]
            if not len(open_I):
                break
        return found_BxC, cost_B, ~np.isin(np.arange(B), open_I)

    def errors_and_exponentials(self, found_IxC: Floats, rows_I: Any) -> tuple[Floats, Floats]:
        """Predicted minus measured losses [I, N], and the exponentials."""
        e_IxN = np.exp((found_IxC[:, 1:] @ self.weights_NxK.T).clip(max=100))
        return found_IxC[:, :1] + e_IxN - self.loss_BxN[rows_I], e_IxN

    def cost(self, found_IxC: Floats, rows_I: Any = slice(None)) -> Floats:
        """Half of the squares of errors and ridge, linear beyond huber [I]."""
        all_IxD = np.column_stack(
            [self.errors_and_exponentials(found_IxC, rows_I)[0], RIDGE**0.5 * found_IxC[:, 1:]]
        )
        size_IxD = np.abs(all_IxD)
        below_IxD = np.minimum(size_IxD, self.huber)
        return np.asarray((below_IxD * (size_IxD - below_IxD / 2)).sum(axis=1))

    def next_coefficients_and_promised_falls(
        self, now_IxC: Floats, rows_I: Any, damping_I: Floats, flat_outliers: bool
    ) -> tuple[Floats, Floats]:
        """Where a step leads [I, C], and what the quadratic model of the cost promises [I].

        With `flat_outliers`, errors that count linearly have no curvature.
        """
        error_IxN, e_IxN = self.errors_and_exponentials(now_IxC, rows_I)
        push_IxN = error_IxN.clip(-self.huber, self.huber)
        ridge_IxK = (RIDGE**0.5 * now_IxC[:, 1:]).clip(-self.huber, self.huber)
        slope_IxK = (push_IxN * e_IxN) @ self.weights_NxK + RIDGE**0.5 * ridge_IxK
        slope_IxC = np.column_stack([push_IxN.sum(axis=1), slope_IxK])
        weight_IxN = np.divide(
            push_IxN, error_IxN, out=np.ones_like(push_IxN), where=error_IxN != 0
        )
        curvature_IxN = (push_IxN == error_IxN).astype(np.float64) if flat_outliers else weight_IxN
        matrix_IxCxC = self.normal_matrices_with_ridge(e_IxN, curvature_IxN)
        scale_IxC = np.einsum("icc->ic", self.normal_matrices_with_ridge(e_IxN, weight_IxN))
        damped_IxCxC = matrix_IxCxC.copy()
        np.einsum("icc->ic", damped_IxCxC)[...] += damping_I[:, None] * scale_IxC
        step_IxC = -np.linalg.solve(damped_IxCxC, slope_IxC[..., None])[..., 0]
        # The quadratic model's lowest point with c >= 0 has c = 0 where that without has c < 0.
        low = now_IxC[:, 0] + step_IxC[:, 0] < 0
        step_IxC[low, 0] = -now_IxC[low, 0]
        right = slope_IxC[low, 1:] + damped_IxCxC[low, 1:, 0] * step_IxC[low, :1]
        step_IxC[low, 1:] = -np.linalg.solve(damped_IxCxC[low, 1:, 1:], right[..., None])[..., 0]
        curved_I = np.einsum("ic,icd,id->i", step_IxC, matrix_IxCxC, step_IxC)
        return now_IxC + step_IxC, -(slope_IxC * step_IxC).sum(axis=1) - curved_I / 2

    def normal_matrices_with_ridge(self, e_IxN: Floats, weight_IxN: Floats) -> Floats:
        """Sum over runs of weighted products of the errors' slopes, and the ridge [I, C, C]."""
        K = self.weights_NxK.shape[1]
        result = np.empty((len(e_IxN), K + 1, K + 1))
        result[:, 0, 0] = weight_IxN.sum(axis=1)
        result[:, 0, 1:] = result[:, 1:, 0] = (weight_IxN * e_IxN) @ self.weights_NxK
        result[:, 1:, 1:] = _weighted_outer_products(self.weights_NxK, weight_IxN * e_IxN**2)
        result[:, 1:, 1:] += RIDGE * np.eye(K)
        return result
