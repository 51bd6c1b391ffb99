"""Steps on the simplex of P weights whose length is a Kullback-Leibler divergence, in nats."""

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.numerics.softmax import log_softmax


def step_towards(log_goal_P: Floats, log_weights_P: Floats, max_divergence: float) -> Floats:
    """Weights half way to a goal in logarithms, or nearer, with KL(new || old) <= max_divergence.

    Along the line the divergence grows from 0; bisection finds where it reaches the bound.

    Args:
        log_goal_P: Logarithms of the goal's weights.
        log_weights_P: Those of the old weights.
        max_divergence: Nats.
    """

    def point(share: float) -> Floats:
        return log_softmax(log_weights_P + share * (log_goal_P - log_weights_P))

    def divergence(share: float) -> float:
        log_new_P = point(share)
        return float((np.exp(log_new_P) * (log_new_P - log_weights_P)).sum())

    share, step = 0.5, 0.5
    if divergence(share) <= max_divergence:
        return point(share)
    for _ in range(50):
        step /= 2
        share += step if divergence(share) <= max_divergence else -step
    return point(share - step)
