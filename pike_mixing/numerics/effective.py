"""How many domains a mixture spreads over."""

import math

import numpy as np

from pike_mixing.arrays import Floats


def effective_domains(weights_K: Floats) -> float:
    """Effective number of domains exp(H(w)), between 1 and K; K for equal weights."""
    positive_K = weights_K[weights_K > 0]
    return math.exp(-(positive_K * np.log(positive_K)).sum())
