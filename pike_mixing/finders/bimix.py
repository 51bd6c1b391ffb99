"""BiMix (Ge et al., arXiv 2405.14908): a domain's loss as a function of its share and of the steps.

    L_i(r_i, s) = A_i / r_i^alpha_i (B_i / s^beta_i + C_i)                             (equation 3)

Only A_i B_i and A_i C_i can be told apart, so A_i is 1 here. With the law, the mixture of lowest
mean loss is known for longer runs than those that it was fitted to (equations 15 and 16).

It needs losses at several steps of runs of several mixtures. The table of proxies holds those after
the last step, so these are functions over arrays and no finder of `FINDERS`.

Shapes: K domains, N measurements: mixtures x steps.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError

COEFFICIENTS = 4
"""Of one domain: alpha, beta, B, C."""


@dataclass(frozen=True)
class Laws:
    """One law for each of K domains' losses; none of the numbers is negative."""

    alpha_K: Floats
    """Exponent of the domain's share."""
    beta_K: Floats
    """Exponent of the steps."""
    b_K: Floats
    """What steps take away, nats."""
    c_K: Floats
    """What no number of steps takes away, nats."""

    def at(self, steps: float) -> Floats:
        """B / s^beta + C: the loss of a domain that has all rows for so many steps, nats."""
        return self.b_K / steps**self.beta_K + self.c_K

    def losses(self, weights_NxK: Floats, steps: float) -> Floats:
        """Loss of each mixture on each domain after so many steps, nats, [N, K]."""
        return self.at(steps) / weights_NxK**self.alpha_K


def fit(weights_NxK: Floats, steps_N: Floats, loss_NxK: Floats) -> Laws:
    """Fits each domain's law by itself, by least squares of the losses (trust region reflective).

    Args:
        weights_NxK: The mixture of each measurement; positive.
        steps_N: The steps after which it was made; positive.
        loss_NxK: Losses, nats per token.

    Raises:
        InputError: numbers that are not positive or not finite, or too few different shares or
            steps to tell the coefficients.
    """
    arrays = {"weights_NxK": weights_NxK, "steps_N": steps_N, "loss_NxK": loss_NxK}
    for name, array in arrays.items():
        if not (np.isfinite(array) & (array > 0)).all():
            raise InputError(f"{name}: all numbers must be positive and finite")
    if len(np.unique(steps_N)) < 3:
        raise InputError("steps_N: the curve over steps needs measurements after 3 numbers of them")
    constant_K = np.ptp(weights_NxK, axis=0) == 0
    if len(steps_N) < COEFFICIENTS or constant_K.any():
        raise InputError(
            "weights_NxK: each domain needs at least two different shares, and "
            f"{COEFFICIENTS} measurements"
        )
    # With steps as parts of their geometric mean, b is near the size of the loss.
    middle = float(np.exp(np.log(steps_N).mean()))
    fitted_Kx4 = np.stack(
        [
            _fitted(np.log(weights_K), np.log(steps_N / middle), loss_K)
            for weights_K, loss_K in zip(weights_NxK.T, loss_NxK.T, strict=True)
        ]
    )
    alpha_K, beta_K, b_K, c_K = fitted_Kx4.T
    return Laws(alpha_K, beta_K, b_K * middle**beta_K, c_K)


def optimum(laws: Laws, steps: float, target_K: Floats | None = None) -> Floats:
    """The mixture that minimises sum_i u_i L_i(r_i, s).

    Where r_i > 0 the Lagrangian's slope vanishes: r_i = (u_i alpha_i L_i(1, s) / mu)^(1 / (1 +
    alpha_i)), and the one mu with shares of sum 1 is found by bisection.

    Args:
        laws: The fitted laws.
        steps: Length of the run that the mixture is for.
        target_K: u, not negative; equal when absent.

    Raises:
        InputError: no share changes any loss that counts.
    """
    target_K = np.ones(len(laws.alpha_K)) if target_K is None else target_K
    with np.errstate(divide="ignore"):
        log_gain_K = np.log(target_K * laws.alpha_K * laws.at(steps))
    if not np.isfinite(log_gain_K).any():
        raise InputError(
            "laws: no share changes any loss that counts: all alpha are 0, or the target is"
        )

    def weights(log_mu: float) -> Floats:
        return np.exp((log_gain_K - log_mu) / (1 + laws.alpha_K))

    # At the lower end one share is 1, at the upper end each is 1 / K at most.
    low = float(log_gain_K.max())
    high = low + float((1 + laws.alpha_K).max() * np.log(len(log_gain_K)))
    log_mu = optimize.brentq(lambda at: weights(at).sum() - 1, low, high + 1e-9, xtol=1e-14)
    return weights(log_mu) / weights(log_mu).sum()


def _fitted(log_weight_N: Floats, log_steps_N: Floats, loss_N: Floats) -> Floats:
    def residuals(coefficients_4: Floats) -> Floats:
        alpha, beta, b, c = coefficients_4
        curve_N = b * np.exp(-beta * log_steps_N) + c
        return curve_N * np.exp(-alpha * log_weight_N) - loss_N

    start_4 = np.array([0.1, 0.5, loss_N.mean() / 2, loss_N.mean() / 2])
    done = optimize.least_squares(
        residuals, start_4, bounds=(0, np.inf), x_scale="jac", xtol=1e-12, ftol=1e-12, gtol=1e-12
    )
    return np.asarray(done.x)
