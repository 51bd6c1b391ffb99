"""Scheffe's quadratic polynomial of a mixture (J. R. Stat. Soc. B 20, 1958): the floor for laws.

    L_i(w) = sum_k beta_ik w_k + sum_{j<k} beta_ijk w_j w_k

Its K (K + 1) / 2 coefficients are more than most tables have runs. So they are shrunk: ridge
regression of standardised terms, with the penalty of the lowest error when each run is left out in
turn, which has a closed form.

Shapes: K domains, M losses, N proxy runs, S mixtures, C terms, R penalties.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.finders.surface_finder import SurfaceFinder

PENALTIES = np.geomspace(1e-6, 1e3, 28)
"""Of the squared coefficients of standardised terms, over that of one run's squared error."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scheffe(SurfaceFinder):
    """argmin_w sum_i u_i L_i(w) of quadratic polynomials."""

    about: ClassVar[str] = (
        "Fits a quadratic polynomial of the weights by ridge regression: what a law should beat."
    )

    def fit_model(
        self, weights_NxK: Floats, epochs_NxK: Floats | None, loss_NxM: Floats
    ) -> "Polynomials":
        """Each loss's polynomial, with a penalty of its own."""
        term_NxC = polynomial_terms(weights_NxK)
        centre_C = term_NxC.mean(axis=0)
        left, size, right = np.linalg.svd(term_NxC - centre_C, full_matrices=False)
        mean_M, N = loss_NxM.mean(axis=0), len(loss_NxM)
        along_RxM = left.T @ (loss_NxM - mean_M)
        coefficient_CxM = np.empty((term_NxC.shape[1], len(mean_M)))
        for m, along_R in enumerate(along_RxM.T):
            errors = []
            for penalty in PENALTIES:
                kept_R = size**2 / (size**2 + N * penalty)
                # The leverage 1 / N is the mean's.
                leverage_N = (left**2) @ kept_R + 1 / N
                rest_N = loss_NxM[:, m] - mean_M[m] - left @ (kept_R * along_R)
                errors.append(((rest_N / (1 - leverage_N).clip(min=1e-9)) ** 2).sum())
            penalty = PENALTIES[int(np.argmin(errors))]
            shrunk_R = size / (size**2 + N * penalty) * along_R
            coefficient_CxM[:, m] = right.T @ shrunk_R
        return Polynomials(mean_M - centre_C @ coefficient_CxM, coefficient_CxM)

    def restore_model(self, record: Mapping[str, Any]) -> "Polynomials":
        """The polynomials of a record."""
        return Polynomials(np.array(record["constants"]), np.array(record["coefficients"]))


def polynomial_terms(weights_SxK: Floats) -> Floats:
    """Weights, then the products of each two [S, C]."""
    j, k = np.triu_indices(weights_SxK.shape[1], 1)
    return np.hstack([weights_SxK, weights_SxK[:, j] * weights_SxK[:, k]])


@dataclasses.dataclass(frozen=True)
class Polynomials:
    """One for each loss; as weights sum to 1, the constant is one of the linear terms."""

    constant_M: Floats
    coefficient_CxM: Floats

    def losses(self, weights_SxK: Floats, epochs_SxK: Floats | None) -> Floats:
        """Predicted losses of each mixture [S, M]."""
        return self.constant_M + polynomial_terms(weights_SxK) @ self.coefficient_CxM

    def record(self) -> dict[str, Any]:
        """Constants and coefficients."""
        values = (self.constant_M, self.coefficient_CxM)
        return dict(zip(("constants", "coefficients"), (v.tolist() for v in values), strict=True))
