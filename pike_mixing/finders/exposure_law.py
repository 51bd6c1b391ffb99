"""The exposure law: a loss falls with how often text is read, and rises where that is too often.

    L_i = beta_i - sum_k alpha_ik (1 - exp(-(rho E_k)^p))
                 + sum_k gamma_ik softplus(log(1 + E_k) - tau)^2

E_k = w_k T / N_k are epochs: T tokens are read, of which domain k has N_k. All coefficients are at
least 0: least squares under that condition for each shape (rho, p, tau) of a grid, of which each
loss takes the best. Runs with other inventories are fitted together, and predicted: they differ in
E alone. The form is that of marin's benchmark of surrogates (marin-community/marin,
experiments/domain_phase_mix, September 2026), which knows no paper; the grid is ours.

Shapes: K domains, M losses, N proxy runs, S mixtures, C = 2 K + 1 coefficients.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders.interface import Reads
from pike_mixing.finders.surface_finder import SurfaceFinder

RATES = tuple(np.geomspace(0.1, 30, 7).tolist())
"""rho times the 90 % quantile of the runs' epochs."""
POWERS = (0.2, 0.35, 0.5, 0.7, 1.0)
"""p: below 1 the first tokens of a domain tell most."""
ONSETS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Epochs at which harm sets in: tau = log(1 + these)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExposureLaw(SurfaceFinder):
    """argmin_w sum_i u_i L_i(E(w)), of epochs in the place of weights."""

    about: ClassVar[str] = (
        "Fits how each loss falls with the epochs of each domain and rises with repetition; needs "
        "to know how much text there is."
    )
    reads: ClassVar[Reads] = "epochs"

    def fit_model(
        self, weights_NxK: Floats, epochs_NxK: Floats | None, loss_NxM: Floats
    ) -> "Exposures":
        """For each loss the shape, and its coefficients, of the least squared error."""
        from scipy import optimize

        epochs_NxK = _require_epochs(epochs_NxK)
        typical = float(np.quantile(epochs_NxK[epochs_NxK > 0], 0.9))
        M = loss_NxM.shape[1]
        best_M, shape_Mx3 = np.full(M, np.inf), np.empty((M, 3))
        coefficient_MxC = np.empty((M, 2 * epochs_NxK.shape[1] + 1))
        for rate, power, onset in itertools.product(RATES, POWERS, ONSETS):
            shape = rate / typical, power, np.log1p(onset)
            features_NxC = exposure_features(epochs_NxK, *shape)
            for m, loss_N in enumerate(loss_NxM.T):
                found_C, error = optimize.nnls(features_NxC, loss_N)
                if error < best_M[m]:
                    best_M[m], shape_Mx3[m], coefficient_MxC[m] = error, shape, found_C
        return Exposures(shape_Mx3, coefficient_MxC)

    def restore_model(self, record: Mapping[str, Any]) -> "Exposures":
        """The law of a record."""
        return Exposures(np.array(record["shapes"]), np.array(record["coefficients"]))


def exposure_features(epochs_SxK: Floats, rho: float, p: float, tau: float) -> Floats:
    """What non-negative coefficients are given to [S, C]: 1, -benefit of each domain, its harm."""
    benefit_SxK = -np.expm1(-((rho * epochs_SxK.clip(min=0)) ** p))
    harm_SxK = np.logaddexp(0, np.log1p(epochs_SxK.clip(min=0)) - tau) ** 2
    return np.column_stack([np.ones(len(epochs_SxK)), -benefit_SxK, harm_SxK])


@dataclasses.dataclass(frozen=True)
class Exposures:
    """One law for each loss."""

    shape_Mx3: Floats
    """rho, p, tau."""
    coefficient_MxC: Floats
    """beta, then alpha and gamma of each domain."""

    def losses(self, weights_SxK: Floats, epochs_SxK: Floats | None) -> Floats:
        """Predicted losses of each mixture [S, M]."""
        epochs_SxK = _require_epochs(epochs_SxK)
        pairs = zip(self.shape_Mx3, self.coefficient_MxC, strict=True)
        return np.stack(
            [exposure_features(epochs_SxK, *shape) @ c_C for shape, c_C in pairs], axis=1
        )

    def record(self) -> dict[str, Any]:
        """Shapes and coefficients."""
        return {"shapes": self.shape_Mx3.tolist(), "coefficients": self.coefficient_MxC.tolist()}


def _require_epochs(epochs_SxK: Floats | None) -> Floats:
    if epochs_SxK is None:
        raise InputError(
            "the finder 'exposure-law' reads epochs: give the table columns `tokens` and "
            "`available/<domain>`, or say --budget TOKENS and --available DOMAIN=TOKENS"
        )
    return epochs_SxK
