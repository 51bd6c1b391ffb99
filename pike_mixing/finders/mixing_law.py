"""The mixing law as a finder: fit the law to the proxies, then solve a convex program for w.

The law is that of arXiv 2403.16952; the pull to a prior and the caps on repetition are olmix's.

Shapes: K domains, N proxy runs.
"""

import dataclasses
from typing import Annotated, Any, ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import cross_validation, exponential_law
from pike_mixing.finders.convex_program import ConvexProgram, solve_with_residual
from pike_mixing.finders.interface import FinderResult, Inventory, Reads, Swarm
from pike_mixing.setting_limits import (
    Limits,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveProportions,
    Proportions,
)
from pike_mixing.settings import CheckedSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixingLaw(CheckedSettings):
    """min_w sum_i u_i L_i(w) + kl KL(w || prior), L_i(w) = c_i + exp(b_i + t_i . w)."""

    about: ClassVar[str] = (
        "Fits how each domain's loss falls with the mixture, and solves for the best mixture that "
        "stays near a prior."
    )
    reads: ClassVar[Reads] = "losses"
    packages: ClassVar[tuple[str, ...]] = ("scipy",)

    target: Proportions | None = None
    """Weight u of each domain's loss in the objective, divided by their sum; 1/K when absent."""
    kl: NonNegativeFloat = 0.05
    """Price of a nat of divergence from the prior, in nats per token; 0 trusts the law alone."""
    prior: PositiveProportions | None = None
    """The mixture to stay near, divided by its sum; 1/K when absent."""
    epochs: PositiveFloat | None = None
    """No domain is read more than this many times: w_k <= epochs tokens_k / budget."""
    tokens_by_domain: Proportions | None = None
    """Training tokens of each domain, for epochs; absent: those that the runs' table tells."""
    budget_tokens: PositiveFloat | None = None
    """Tokens of the final run, rows x length x steps, for epochs; absent: as the table tells."""
    huber: PositiveFloat = 0.02
    """Errors beyond this many nats count linearly: a proxy that went astray does not decide."""
    starts: PositiveInt = 4
    """Values of c, from 0 to just below the lowest loss, from which a fit starts."""
    folds: Annotated[int, Limits(at_least=2)] = 10
    """Parts of the cross-validation; no more mixtures than parts means leave one out."""
    seed: NonNegativeInt = 0
    """Seed of the parts."""

    def problems(self) -> list[str]:
        """An inventory of which a part is missing, or that nothing uses."""
        parts = (self.tokens_by_domain, self.budget_tokens)
        if all(p is None for p in parts) or (self.epochs and all(p is not None for p in parts)):
            return []
        return ["epochs: give epochs, tokens_by_domain and budget_tokens, epochs alone, or none"]

    def find(self, swarm: Swarm) -> FinderResult:
        """The optimum of the program, proved to be one.

        Raises:
            InputError: too few proxies, mixtures that leave a direction untried, losses that are
                not positive, caps without room for a mixture, or a fit or a program that does not
                converge.
        """
        domains, losses = swarm.domains, swarm.losses
        weights_NxK, loss_NxK = self._mixtures_and_losses(swarm)
        program = self.fit(swarm)
        laws = program.laws
        weights_K, residual = solve_with_residual(program)
        full_K = weights_K >= program.cap_K - 1e-9
        parts = cross_validation.make_folds(weights_NxK, self.folds, self.seed)
        predicted_NxK = self._predict_held_out_losses(weights_NxK, loss_NxK, parts)
        both = predicted_NxK @ program.target_K, loss_NxK @ program.target_K
        blocks = cross_validation.held_out_of_folds(*both, weights_NxK, parts)
        predicted_2 = program.loss(weights_K), program.loss(swarm.uniform_weights())
        diagnostics = cross_validation.fit_diagnostics(
            blocks.predicted_N, blocks.actual_N, weights_K, predicted_2
        )
        diagnostics |= {
            "held_out_rmse_by_domain": _by_domain(
                losses, np.sqrt(((predicted_NxK - loss_NxK) ** 2).mean(axis=0))
            ),
            "predicted_loss_by_domain": _by_domain(losses, laws.losses(weights_K[None])[0]),
            "predicted_loss_prior": program.loss(program.prior_K),
            "kl_to_prior": program.divergence(weights_K),
            "kkt_residual": residual,
            "capped": [d for d, full in zip(domains, full_K, strict=True) if full],
            "outside_proxies": cross_validation.is_outside_hull(weights_K, weights_NxK),
            "laws": {
                d: {"c": float(c), "b": float(b), "t": _by_domain(domains, t_K)}
                for d, c, b, t_K in zip(losses, laws.c_K, laws.b_K, laws.t_KxK, strict=True)
            },
        }
        return FinderResult(weights_K, diagnostics, program, blocks)

    def fit(self, swarm: Swarm, same_way_as: FinderResult | None = None) -> ConvexProgram:
        """The laws alone, without errors on held-out proxies."""
        weights_NxK, loss_NxK = swarm.weights_and_losses()
        _refuse_few_directions(weights_NxK, len(swarm.phases))
        return self._build_program(swarm, self._fit_laws(weights_NxK, loss_NxK))

    def restore(self, swarm: Swarm, record: dict[str, Any]) -> ConvexProgram:
        """The program of a record's laws, with these settings."""
        arrays = {name: np.array(values) for name, values in record.items()}
        return self._build_program(swarm, exponential_law.Laws(**arrays))

    def _fit_laws(self, weights_NxK: Floats, loss_NxM: Floats) -> exponential_law.Laws:
        if (loss_NxM <= 0).any():
            raise InputError("the proxies' losses must be positive: they are nats per token")
        return exponential_law.fit(weights_NxK, loss_NxM, starts=self.starts, huber=self.huber)

    def _build_program(self, swarm: Swarm, laws: exponential_law.Laws) -> ConvexProgram:
        return ConvexProgram(
            laws=laws,
            target_K=swarm.target_weights(self.target),
            kl=self.kl,
            prior_K=(
                swarm.uniform_weights()
                if self.prior is None
                else by_domain.shares_in_order(self.prior, swarm.domains, "prior")
            ),
            cap_K=self._weight_caps(swarm),
            share_P=swarm.phase_shares(),
        )

    def _mixtures_and_losses(self, swarm: Swarm) -> tuple[Floats, Floats]:
        K = len(swarm.domains)
        # A part of the cross-validation is left out, and K + 1 coefficients still need K + 1 runs.
        return swarm.weights_and_losses(
            cross_validation.fewest_mixtures_for_folds(K + 1, self.folds),
            f"each of {K} laws has {K + 1} coefficients and {self.folds} parts take turns "
            "in being held out",
        )

    def _weight_caps(self, swarm: Swarm) -> Floats:
        if self.budget_tokens is not None and len(swarm.phases) == 1:
            text_K = by_domain.required_tokens_in_order(self.tokens_by_domain, swarm.domains)
            swarm = dataclasses.replace(swarm, final=Inventory(self.budget_tokens, text_K))
        return swarm.required_weight_caps(self.epochs)

    def _predict_held_out_losses(
        self, weights_NxK: Floats, loss_NxK: Floats, parts: list[cross_validation.Fold]
    ) -> Floats:
        """The losses [N, K] of each part's mixtures, by a fit of the others.

        A part may hold the only run that reads a domain: then its error says that.
        """
        predicted_NxK = np.empty_like(loss_NxK)
        for rest, part in parts:
            laws = self._fit_laws(weights_NxK[rest], loss_NxK[rest])
            predicted_NxK[part] = laws.losses(weights_NxK[part])
        return predicted_NxK


def _refuse_few_directions(weights_NxK: Floats, phases: int) -> None:
    rank = np.linalg.matrix_rank(weights_NxK, tol=1e-6)
    # The sum of a phase's weights is the same in every run.
    directions = weights_NxK.shape[1] - phases + 1
    if rank < directions:
        raise InputError(
            f"the proxies' mixtures span {rank} of {directions} directions: the law cannot tell "
            "the domains' effects apart; add proxy runs with other mixtures, drawn at random"
        )


def _by_domain(domains: tuple[str, ...], values_K: Floats) -> dict[str, float]:
    return dict(zip(domains, values_K.tolist(), strict=True))
