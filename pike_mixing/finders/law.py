"""The exponential mixing law (arXiv 2403.16952): a domain's loss as a function of the mixture.

    L_i(w) = c_i + exp(b_i + t_i . w)

Because the weights sum to 1, a constant moved from b_i to all of t_i changes nothing: t_i is fixed
to sum to 0. Then exp(b_i) is what the mixture can still take off or add at equal weights, c_i is
what no mixture takes away, and K + 1 coefficients are free. While fitting, the exponent is written
s_i . w with s_i = b_i + t_i, where nothing is left undetermined.

Shapes: K domains, M losses, N proxy runs.
"""

from dataclasses import dataclass

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError

ITERATIONS = 1000
"""Steps after which a fit counts as not converged."""
TOLERANCE = 1e-8
"""A fit has converged when its next step promises less than this part of its cost."""
RIDGE = 1e-6
"""Price of |s|^2 beside the squared errors, nats^2.

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
    """Fits each loss's law by itself.

    Args:
        weights_NxK: Mixtures that span the simplex: rank K.
        loss_NxM: Positive losses, nats per token.
        starts: From how many values of c the search starts.
        huber: Errors beyond this many nats count linearly, below quadratically.

    Raises:
        InputError: a fit does not converge.
    """
    fitted = np.stack([_fit_one(weights_NxK, loss_N, starts, huber) for loss_N in loss_NxM.T])
    c_M, s_MxK = fitted[:, 0], fitted[:, 1:]
    b_M = s_MxK.mean(axis=1)
    return Laws(c_M, b_M, s_MxK - b_M[:, None])


def _fit_one(weights_NxK: Floats, loss_N: Floats, starts: int, huber: float) -> Floats:
    """The best c and s that any start leads to, [1 + K].

    c and s run along one valley that is nearly flat, and a loss that the mixture does not move has
    several: one start is not enough.
    """
    from scipy import optimize

    N, K = weights_NxK.shape
    ridge_KxK = RIDGE**0.5 * np.eye(K)

    def errors(cs: Floats) -> Floats:
        # An exponential that overflows is an error that no step is taken to.
        e_N = np.exp((weights_NxK @ cs[1:]).clip(max=100))
        return np.concatenate([cs[0] + e_N - loss_N, ridge_KxK @ cs[1:]])

    def slopes(cs: Floats) -> Floats:
        e_N = np.exp((weights_NxK @ cs[1:]).clip(max=100))
        own = np.column_stack([np.ones(N), e_N[:, None] * weights_NxK])
        return np.vstack([own, np.column_stack([np.zeros(K), ridge_KxK])])

    done = [
        optimize.least_squares(
            errors,
            np.append(c, _start(weights_NxK, loss_N, c)),
            slopes,
            bounds=([0, *[-np.inf] * K], np.inf),
            loss="huber",
            f_scale=huber,
            ftol=TOLERANCE,
            xtol=TOLERANCE,
            gtol=TOLERANCE,
            max_nfev=ITERATIONS,
        )
        for c in loss_N.min() * (1 - np.geomspace(1, 1e-3, starts))
    ]
    best = min(done, key=lambda one: one.cost)
    if not best.success:
        raise InputError(
            f"the mixing law does not converge on these {N} proxy runs in {ITERATIONS} steps: add "
            "proxy runs, or leave out those that diverged"
        )
    return np.asarray(best.x)


def _start(weights_NxK: Floats, loss_N: Floats, c: float) -> Floats:
    """The s for a c from linear equations.

    With c given, log(L - c) = s . w is linear in s; an error of L counts 1 / (L - c) there, so the
    equations are weighed by L - c.
    """
    rest_N = loss_N - c
    s_K = np.linalg.lstsq(rest_N[:, None] * weights_NxK, rest_N * np.log(rest_N))[0]
    return np.asarray(s_K, dtype=np.float64)
