"""Losses of larger or longer runs from those of smaller ones, mixture by mixture (2403.16952).

    L(x) = c + k / x^alpha

x is the size of the model or the tokens read. Each mixture has its own c and k; alpha is shared by
all mixtures of a loss, as in the code of the paper (commit 8ad3e12, `tie_alpha`), which fits them
from random starts with Huber's loss. Here c and k follow from alpha by least squares, so that one
number is searched for. Tokens come first, then sizes: the paper's nested laws. What comes out is a
table of mixtures at the larger size, to which any finder can be fitted.

Shapes: N curves, each with P points.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError, refuse_without_package
from pike_mixing.finders.interface import Proxy, Swarm

EXPONENTS = (0.02, 2.0)
"""Between these alpha is searched for."""
SIZE_TOLERANCE = 0.01
"""Sizes that differ by a smaller part are one: runs end with a few tokens more or less."""
FEWEST = 3
"""Points of a curve: it has three coefficients, one of them shared."""


def extrapolate_long_curves(swarm: Swarm, target_sizes: Mapping[str, float]) -> Swarm:
    """One run for each mixture (and other size), with the losses of the laws at these sizes.

    Sizes are tokens, parameters, or both. Mixtures with fewer than three sizes are left out.
    """
    refuse_without_package("--at", "scipy")
    for axis in ("tokens", "parameters"):
        if axis in target_sizes:
            runs = _extrapolate_long_curves_along(swarm, axis, target_sizes[axis])
            swarm = replace(swarm, runs=runs)
    return swarm


def refuse_several_sizes(swarm: Swarm, option: str = "--where") -> None:
    """Refuses runs of several sizes: the largest model's loss is lowest, whatever its mixture."""
    for axis in ("parameters", "tokens"):
        sizes = {size for run in swarm.runs if (size := getattr(run, axis))}
        if sizes and max(sizes) > min(sizes) * (1 + SIZE_TOLERANCE):
            raise InputError(
                f"rows of {len(sizes)} {axis}: their losses do not compare: choose with "
                f"{option} {axis}={max(sizes):g}, or extrapolate with `fit --at`"
            )


def _extrapolate_long_curves_along(swarm: Swarm, axis: str, size: float) -> list[Proxy]:
    weights_NxK, loss_NxM = swarm.weights_and_losses()
    x_N = np.array([getattr(run, axis) or np.nan for run in swarm.runs])
    if not (x_N > 0).all() or not size > 0:
        raise InputError(
            f"--at {axis}: every row needs a positive number of {axis}: name its column "
            f"(--size-columns {axis}=NAME)"
        )
    other = "parameters" if axis == "tokens" else "tokens"
    curves: dict[object, list[int]] = defaultdict(list)
    for n, (run, weights_K) in enumerate(zip(swarm.runs, weights_NxK, strict=True)):
        curves[getattr(run, other), *weights_K.round(6).tolist()].append(n)
    kept = [rows for rows in curves.values() if len(np.unique(x_N[rows])) >= FEWEST]
    if not kept:
        raise InputError(
            f"--at {axis}: no mixture has runs of {FEWEST} different {axis}: add some, or leave "
            f"the {axis} as they are (--where)"
        )
    predicted_MxN = [
        power_law_losses([x_N[rows] for rows in kept], [loss_N[rows] for rows in kept], size)
        for loss_N in loss_NxM.T
    ]
    reached: dict[str, Any] = {axis: size}
    return [
        replace(swarm.runs[rows[0]], loss_K=loss_K, **reached)
        for rows, loss_K in zip(kept, np.array(predicted_MxN).T, strict=True)
    ]


def power_law_losses(x_NxP: Sequence[Floats], loss_NxP: Sequence[Floats], size: float) -> Floats:
    """The loss [N], nats, that each curve reaches at a size; curves may differ in their points."""
    from scipy import optimize

    curves = list(zip(x_NxP, loss_NxP, strict=True))

    def error(alpha: float) -> float:
        return sum(
            _power_law_and_squared_error(x_P / size, loss_P, alpha)[1] for x_P, loss_P in curves
        )

    alpha = optimize.minimize_scalar(error, bounds=EXPONENTS, method="bounded").x
    # With x as parts of `at`, c + k is the loss there.
    return np.array(
        [_power_law_and_squared_error(x_P / size, loss_P, alpha)[0].sum() for x_P, loss_P in curves]
    )


def _power_law_and_squared_error(x_P: Floats, loss_P: Floats, alpha: float) -> tuple[Floats, float]:
    """Gives c and k, neither negative, and the sum of the squared errors."""
    from scipy import optimize

    powers_Px2 = np.column_stack([np.ones_like(x_P), x_P**-alpha])
    found_2, norm = optimize.nnls(powers_Px2, loss_P)
    return found_2, float(norm) ** 2
