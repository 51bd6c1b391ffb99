"""Which mixtures to train next: at random, D-optimal, or most informative; and what they show.

The D-optimal and the informative design take the loss for linear in the mixture, L = s . w + noise,
which exponential laws and trees are nearly over a part of the simplex. With mixtures X trained, a
fit knows s with the covariance noise^2 (X'X)^-1, whatever the losses are; so what a run would show
is known before it is trained.

    d-optimal     lowers the volume of that covariance: the whole law is wanted
    informative   lowers the variance of predictions where the optimum may lie: among the optima of
                  resampled tables

Both choose among mixtures drawn from a Dirichlet distribution, one after the other, and then
exchange each in turn for a better one until none is; no mixture is chosen twice. As losses are
linear over a part of the simplex only, an informative design moves what is drawn at least half way
to one of the possible optima.

Shapes: K domains, n mixtures to propose, N mixtures trained, C candidates, S possible optima.
"""

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.numerics.simplex import capped_weights

Kind = Literal["dirichlet", "d-optimal", "informative"]
CANDIDATES = 2000
"""Mixtures among which is chosen."""
ROUNDS = 20
"""Exchanges of each mixture at most."""
RIDGE = 1e-3
"""Of a direction that nothing has tried, part of a run: it keeps the matrix invertible."""
SURE = 1.96
"""Standard errors of a difference that is seen in 19 of 20 cases."""


@dataclass(frozen=True)
class MixtureDistribution:
    """Where mixtures are drawn from."""

    prior_K: Floats
    """Mean of the Dirichlet distribution, before the caps."""
    cap_K: Floats
    """Largest weight of each domain; infinite without one."""
    concentration: float = 1.0
    """Its parameters are concentration K prior: with equal parts, 1 draws evenly."""

    def mixtures(self, count: int, seed: int) -> Floats:
        """Mixtures [count, K]; what is above a cap goes to the others in their proportions."""
        if self.cap_K.sum() < 1 - 1e-9:
            raise InputError(f"--cap: the caps sum to {self.cap_K.sum():.3g}: raise them")
        alpha_K = self.concentration * len(self.prior_K) * self.prior_K
        drawn = np.random.default_rng(seed).dirichlet(alpha_K, count)
        return capped_weights(drawn, self.cap_K)


def propose_mixtures(
    kind: Kind,
    count: int,
    distribution: MixtureDistribution,
    trained_NxK: Floats,
    optimum_SxK: Floats | None = None,
    *,
    seed: int = 0,
) -> Floats:
    """The next mixtures [count, K], beside those trained [N, K], which may be none.

    An informative design needs the mixtures [S, K] where the optimum may lie.
    """
    if kind == "dirichlet":
        return distribution.mixtures(count, seed)
    if kind == "informative" and (optimum_SxK is None or len(optimum_SxK) < 2):
        raise InputError("an informative design needs a table and --target")
    if count > CANDIDATES:
        raise InputError(
            f"--count: {count} mixtures cannot be chosen among {CANDIDATES} candidates: ask for "
            "fewer, or draw them (--kind dirichlet)"
        )
    candidate_CxK = distribution.mixtures(CANDIDATES, seed)
    near_SxK = optimum_SxK if kind == "informative" else None
    if near_SxK is not None:
        candidate_CxK = _candidates_near_optima(candidate_CxK, near_SxK, distribution.cap_K, seed)
    best = functools.partial(
        _best_candidate_index, _information_matrix(trained_NxK), candidate_CxK, near_SxK
    )
    chosen: list[int] = []
    # The first round chooses, the others exchange.
    for _ in range(1 + ROUNDS):
        before = list(chosen)
        for place in range(count):
            chosen[place : place + 1] = [best(chosen[:place] + chosen[place + 1 :])]
        if chosen == before:
            break
    return candidate_CxK[chosen]


def smallest_visible_loss_difference(
    optimum_SxK: Floats, trained_NxK: Floats, noise: float
) -> float:
    """The smallest difference of loss between possible optima that a fit would see, nats per token.

    With all mixtures that are or will be trained, and the standard deviation of a run's loss.

    It is 1.96 standard errors of a predicted difference from their mean, root mean square over
    them; with the same X, more noise or fewer runs make it larger.
    """
    inverse_KxK = np.linalg.inv(_information_matrix(trained_NxK))
    apart_SxK = optimum_SxK - optimum_SxK.mean(axis=0)
    variance_S = np.einsum("sk,kj,sj->s", apart_SxK, inverse_KxK, apart_SxK)
    return float(SURE * noise * np.sqrt(variance_S.mean()))


def _candidates_near_optima(
    candidate_CxK: Floats, optimum_SxK: Floats, cap_K: Floats, seed: int
) -> Floats:
    """The candidates, each moved by half to the whole of the way to a possible optimum."""
    random, C = np.random.default_rng([seed, 1]), len(candidate_CxK)
    goal_CxK = optimum_SxK[random.integers(0, len(optimum_SxK), C)]
    share_Cx1 = random.uniform(0.5, 1, (C, 1))
    moved_CxK = (1 - share_Cx1) * candidate_CxK + share_Cx1 * goal_CxK
    return capped_weights(moved_CxK, cap_K)


def _information_matrix(trained_NxK: Floats) -> Floats:
    return trained_NxK.T @ trained_NxK + RIDGE * np.eye(trained_NxK.shape[1])


def _best_candidate_index(
    information_KxK: Floats, candidate_CxK: Floats, optimum_SxK: Floats | None, chosen: list[int]
) -> int:
    """The candidate that adds most to what is trained and the others that are chosen."""
    other_MxK = candidate_CxK[chosen]
    inverse_KxK = np.linalg.inv(information_KxK + other_MxK.T @ other_MxK)
    reach_CxK = candidate_CxK @ inverse_KxK
    own_C = (reach_CxK * candidate_CxK).sum(axis=1)
    if optimum_SxK is None:
        # |M + x x'| = |M| (1 + x' M^-1 x).
        own_C[chosen] = -np.inf
        return int(own_C.argmax())
    # (M + x x')^-1 = M^-1 - M^-1 x x' M^-1 / (1 + x' M^-1 x).
    apart_SxK = optimum_SxK - optimum_SxK.mean(axis=0)
    gain_C = ((reach_CxK @ apart_SxK.T) ** 2).sum(axis=1) / (1 + own_C)
    gain_C[chosen] = -np.inf
    return int(gain_C.argmax())
