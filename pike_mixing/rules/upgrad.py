"""UPGrad (Quinton and Rey 2024, "Jacobian Descent For Multi-Objective Optimization", section 3)."""

import dataclasses
from typing import ClassVar

import numpy as np

from pike_mixing.arrays import Floats, Ints
from pike_mixing.interface import Signals, State
from pike_mixing.rules.surgeon import Surgeon, not_converged

RIDGE = 1e-10
"""Added to every cosine g_j . g_j / |g_j|^2 = 1, so that gradients of any rank have one answer."""
ENTER = 1e-12
"""A conflict of a smaller cosine than this is rounding."""
TOLERANCE = 1e-5
"""No domain may be left with a conflict of a larger cosine."""


@dataclasses.dataclass(frozen=True)
class UPGrad(Surgeon):
    """Mix, where each gradient is moved as little as makes it conflict with no domain's.

    The update is the mean of the moved gradients and conflicts with none: to first order no
    domain's loss rises. Without a conflict it is the mean of the gradients, which is Mix's scale
    and the authors' too. Unlike PCGrad's, its projections are onto all domains at once and need no
    order.
    """

    about: ClassVar[str] = (
        "Equal shares; each gradient is moved as little as makes it conflict with none."
    )

    def solve(self, gram_PxP: Floats, present_P: Ints, state: State, signals: Signals) -> Floats:
        """Coefficients of the mean of the projections of the g_k onto the dual cone."""
        norm_P = np.sqrt(gram_PxP.diagonal())
        cosine_PxP = gram_PxP / np.outer(norm_P, norm_P)
        cosine_PxP += RIDGE * np.eye(len(norm_P))
        # Of unit gradients; the projection of one is as long as the gradient times it.
        parts_PxP = np.stack([projected(cosine_PxP, i) for i in range(len(norm_P))])
        conflict = -float((parts_PxP @ cosine_PxP).min())
        if not conflict <= TOLERANCE:
            why = f"a conflict of cosine {conflict:.1g} is left"
            raise not_converged("upgrad", signals.step, why)
        return (norm_P @ parts_PxP) / norm_P / len(norm_P)


@np.errstate(divide="ignore", invalid="ignore")
def projected(cosine_PxP: Floats, i: int) -> Floats:
    """The vector nearest to g_i among those without a conflict, as coefficients r_P >= e_i.

    It minimises r . C r over r >= e_i; at the minimum no product (C r)_j is negative, and it is
    zero where r_j was raised. An active set of raised domains is walked to that point.
    """
    P = len(cosine_PxP)
    r_P = np.eye(P)[i]
    raised_P = np.zeros(P)
    active: list[int] = []
    for _ in range(20 * (P + 1)):
        entering = int((cosine_PxP @ (r_P + raised_P)).argmin())
        if entering in active or cosine_PxP[entering] @ (r_P + raised_P) >= -ENTER:
            break
        active.append(entering)
        while active:
            goal_A = np.linalg.solve(cosine_PxP[active][:, active], -cosine_PxP[active, i])
            step_A = goal_A - raised_P[active]
            limit_A = np.where(goal_A < 0, -raised_P[active] / step_A, np.inf)
            blocking = int(limit_A.argmin())
            if limit_A[blocking] > 1:
                raised_P[active] = goal_A
                break
            raised_P[active] += limit_A[blocking] * step_A
            raised_P[active.pop(blocking)] = 0
    return r_P + raised_P
