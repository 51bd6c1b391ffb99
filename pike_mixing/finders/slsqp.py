"""The search for the best mixture of K domains by SciPy's SLSQP, with exact slopes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pike_mixing.arrays import Floats


def minimise_over_simplex(
    objective: Callable[[Floats], float],
    start_K: Floats,
    slope: Callable[[Floats], Floats],
    bounds: Sequence[tuple[float, float]],
    further_constraints: Sequence[Mapping[str, Any]] = (),
    *,
    steps: int = 1000,
    ftol: float = 1e-10,
) -> Any:
    """SciPy's result for the lowest objective among weights [K] within bounds that sum to 1."""
    from scipy import optimize

    sums_to_1 = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    return optimize.minimize(
        objective,
        start_K,
        jac=slope,
        method="SLSQP",
        bounds=bounds,
        constraints=[sums_to_1, *further_constraints],
        options={"maxiter": steps, "ftol": ftol},
    )
