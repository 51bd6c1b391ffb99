"""TiKMiX-D (Wang et al., arXiv 2508.17677): the mixture of largest and evenest influence on tasks.

    min_w  alpha std(P) - beta sum_i P_i - gamma H(w)                     (equations 9 to 11)
    with   P_i = (S w)_i / max_j S_ij,  S w >= S w_prior,  w >= 0,  sum_j w_j = 1

S_ij is how much domain j helps task i: the paper's group influence, the task's gradient times the
inverse Hessian times the domain's gradient, with the sign by which help is positive. Every term is
convex in w. The paper finds S anew and solves for the next stage of training a few times in a run.

The interface's signals hold neither gradients of tasks nor Hessians, and the text does not say by
which approximation they are inverted; so S is the caller's, and this is a function over arrays. Nor
does it say which standard deviation: here that of a population, over n. The paper adds 1e-8 to the
divisor, which would count in a small unit of S; a task that no domain helps is refused instead.

Shapes: N tasks, K domains.
"""

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import slsqp

SMALLEST = 1e-12
"""Weights below this are not told from 0; the entropy's slope is infinite there."""
SLACK = 1e-8
"""By how much normalised influence may fall below the prior's: rounding of the solver."""


def find(
    influence_NxK: Floats,
    prior_K: Floats | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    gamma: float = 1.0,
) -> Floats:
    """The mixture of equation 11, by SLSQP, from the prior: it alone is allowed for sure.

    Args:
        influence_NxK: S, in any unit per task.
        prior_K: The mixture before, below which no task's influence may fall; equal when absent.
        alpha: Price of uneven influence.
        beta: Worth of influence; the paper takes 1 for all three.
        gamma: Worth of entropy.

    Raises:
        InputError: numbers that are not finite, a prior that is no mixture, a task that no domain
            helps, or no solution found.
    """
    scaled_NxK, prior_K = _checked(influence_NxK, prior_K)

    def objective(weights_K: Floats) -> float:
        p_N = scaled_NxK @ weights_K
        entropy = -(weights_K * np.log(weights_K)).sum()
        return float(alpha * p_N.std() - beta * p_N.sum() - gamma * entropy)

    def slope(weights_K: Floats) -> Floats:
        p_N = scaled_NxK @ weights_K
        # At 0 the standard deviation has a kink, where 0 is one of its slopes.
        uneven_N = (p_N - p_N.mean()) / (len(p_N) * max(p_N.std(), SMALLEST))
        return (alpha * uneven_N - beta) @ scaled_NxK + gamma * (np.log(weights_K) + 1)

    floor_N = scaled_NxK @ prior_K
    above = {"type": "ineq", "fun": lambda w: scaled_NxK @ w - floor_N, "jac": lambda w: scaled_NxK}
    bounds = [(SMALLEST, 1.0)] * len(prior_K)
    done = slsqp.minimise(objective, np.maximum(prior_K, SMALLEST), slope, bounds, [above])
    weights_K = np.maximum(done.x, 0) / np.maximum(done.x, 0).sum()
    if not done.success or (scaled_NxK @ weights_K < floor_N - SLACK).any():
        raise InputError(
            f"no mixture was found ({done.message}): lower alpha, or raise gamma for a smoother "
            "problem"
        )
    return weights_K


def _checked(influence_NxK: Floats, prior_K: Floats | None) -> tuple[Floats, Floats]:
    """Each task's influence over its largest, and the prior."""
    if influence_NxK.ndim != 2 or not influence_NxK.size or not np.isfinite(influence_NxK).all():
        raise InputError("influence_NxK: give a finite number for each task (row) and domain")
    K = influence_NxK.shape[1]
    prior_K = np.full(K, 1 / K) if prior_K is None else prior_K
    if prior_K.shape != (K,) or (prior_K < 0).any() or not np.isclose(prior_K.sum(), 1):
        raise InputError(f"prior_K: give {K} weights that are not negative and sum to 1")
    largest_N = influence_NxK.max(axis=1)
    if (largest_N <= 0).any():
        raise InputError(
            f"influence_NxK: no domain helps task {int((largest_N <= 0).argmax())}: leave it out, "
            "or turn the sign if help is negative"
        )
    return influence_NxK / largest_N[:, None], prior_K
