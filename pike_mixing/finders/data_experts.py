"""MDE, mixture of data experts (Belenki et al., ACL 2025, arXiv 2502.15950): features of a mixture.

An expert is a proxy of one domain alone. On a token of validation text the experts' probabilities
p_k, averaged by a mixture w, stand for the probability that a model of the mixture would give; so

    f_i(w) = - mean over domain i's tokens of log( sum_k w_k p_k )

approximates domain i's loss without any training. These K features and the mixture are what a
regression predicts the loss of proxies of mixtures from, and the mixture of the lowest prediction
is found.

The paper's regressions are linear, boosted trees and Gaussian processes. Here: the linear one, by
ridge regression of what sum_i u_i f_i leaves of the target's loss, so that few proxies or much
noise lead back to MDE alone. The penalty is chosen by cross-validation.

Shapes: K domains, I losses, N proxy runs, E tokens of one domain, C features.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np

from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import cross_validation, mixmin, slsqp
from pike_mixing.finders.interface import FinderResult, Proxy, Reads, Swarm
from pike_mixing.setting_limits import Limits, NonNegativeInt, Proportions
from pike_mixing.settings import CheckedSettings

PENALTIES = tuple(10.0**power for power in range(-6, 4))
"""Of the squared coefficients of standardised features, over that of one run's squared error."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MDE(CheckedSettings):
    """argmin_w of sum_i u_i f_i(w) + b + c . (w, f(w)), standardised, over the simplex."""

    about: ClassVar[str] = (
        "Predicts the loss of a mixture from the averaged predictions of models of one domain "
        "each, corrected by a regression on proxies of mixtures."
    )
    reads: ClassVar[Reads] = "predictions"
    packages: ClassVar[tuple[str, ...]] = ("scipy",)

    target: Proportions | None = None
    """Weight u of each domain's loss in what is lowered, divided by their sum; 1/K when absent."""
    folds: Annotated[int, Limits(at_least=2)] = 5
    """Parts of the cross-validation."""
    starts: Annotated[int, Limits(at_least=1)] = 4
    """Mixtures from which the search begins: those of the lowest predictions among the
    proxies', beside equal weights."""
    seed: NonNegativeInt = 0
    """Seed of the parts."""

    def find(self, swarm: Swarm) -> FinderResult:
        """The mixture of the lowest prediction.

        The runs are one expert for each domain, of weight 1, with `token_loss`; and proxies of
        mixtures, three at least.

        Raises:
            InputError: a domain without an expert or with several, or too few proxies.
        """
        experts = _expert_of_each_domain(swarm)
        because = "a regression needs three mixtures beside those of one domain each"
        weights_NxK, loss_NxI = swarm.weights_and_losses(len(swarm.domains) + 3, because)
        target_I = swarm.target_weights(self.target)
        target_N = loss_NxI @ target_I
        features = Features(experts, target_I)
        feature_NxC, base_N = features.features_and_mean_losses(weights_NxK)
        line, penalty = self._fit_model_and_penalty(weights_NxK, feature_NxC, target_N - base_N)
        held_out_N = np.empty_like(target_N)
        for rest, part in cross_validation.make_folds(weights_NxK, self.folds, self.seed):
            left_R = target_N[rest] - base_N[rest]
            other, _ = self._fit_model_and_penalty(weights_NxK[rest], feature_NxC[rest], left_R)
            held_out_N[part] = base_N[part] + other.predict(feature_NxC[part])
        uniform_K = swarm.uniform_weights()
        order = np.argsort(base_N + line.predict(feature_NxC), kind="stable")[: self.starts]
        weights_K = _mixture_of_lowest_prediction(features, line, [*weights_NxK[order], uniform_K])
        predicted_2 = [_predicted_loss(features, line, w) for w in (weights_K, uniform_K)]
        diagnostics = cross_validation.fit_diagnostics(held_out_N, target_N, weights_K, predicted_2)
        return FinderResult(weights_K, diagnostics | {"penalty": penalty})

    def _fit_model_and_penalty(
        self, weights_NxK: Floats, feature_NxC: Floats, left_N: Floats
    ) -> "tuple[LinearModel, float]":
        """The regression, and its penalty.

        The penalty is that of the lowest squared error on held-out rows, of equal ones the largest.
        """
        parts = cross_validation.make_folds(weights_NxK, self.folds, self.seed)

        def held_out_squared_error(penalty: float) -> float:
            squares = 0.0
            for rest, part in parts:
                line = _fit_ridge(feature_NxC[rest], left_N[rest], penalty)
                squares += float(((left_N[part] - line.predict(feature_NxC[part])) ** 2).sum())
            return squares

        penalty = min(reversed(PENALTIES), key=held_out_squared_error)
        return _fit_ridge(feature_NxC, left_N, penalty), penalty


class Features:
    """The features of a mixture, C = K + I: its weights, then f_i."""

    def __init__(self, experts: Sequence[Proxy], target_I: Floats) -> None:
        """Takes the losses of the experts' tokens, domain by domain."""
        tables = zip(*(expert.token_loss or () for expert in experts), strict=True)
        self.log_probability = [-np.stack(columns, axis=1, dtype=float) for columns in tables]
        self.target_I = target_I

    def features_and_mean_losses(self, weights_SxK: Floats) -> tuple[Floats, Floats]:
        """Features [S, C] and sum_i u_i f_i [S] of S mixtures."""
        f_SxI = np.stack(
            [mixmin.mixture_losses(p, weights_SxK) for p in self.log_probability], axis=1
        )
        return np.concatenate([weights_SxK, f_SxI], axis=1), f_SxI @ self.target_I

    def expert_loss_slope(self, weights_K: Floats) -> Floats:
        """Derivatives of f_i by w_k, [I, K]: - mean p_k / sum_j w_j p_j."""
        result = []
        for p in self.log_probability:
            ratio_ExK = np.exp(p - p.max(axis=1, keepdims=True))
            result.append(-(ratio_ExK / (ratio_ExK @ weights_K)[:, None]).mean(axis=0))
        return np.stack(result)


@dataclasses.dataclass(frozen=True)
class LinearModel:
    """b + c . x."""

    b: float
    c_C: Floats

    def predict(self, feature_SxC: Floats) -> Floats:
        """Values of S rows of features."""
        return self.b + feature_SxC @ self.c_C


def _expert_of_each_domain(swarm: Swarm) -> list[Proxy]:
    """The runs of one domain alone, in the order of the domains."""
    result: list[Proxy] = []
    for k, domain in enumerate(swarm.domains):
        own = [r for r in swarm.runs if r.weights_K is not None and r.weights_K[k] == 1]
        if len(own) != 1:
            raise InputError(
                f"{len(own)} proxies train on {domain!r} alone, one is needed for each domain: "
                "name one method of the rule `single` for each beside the swarm"
            )
        if own[0].token_loss is None:
            raise InputError(f"proxy {own[0].name} has no losses of tokens: evaluate with them")
        result += own
    return result


def _fit_ridge(feature_NxC: Floats, left_N: Floats, penalty: float) -> LinearModel:
    """The b and c of least |left - b - c . x|^2 + penalty N |c sd|^2; a constant feature gets 0."""
    centre_C, spread_C = feature_NxC.mean(axis=0), feature_NxC.std(axis=0)
    unit_C = np.where(spread_C > 1e-12, spread_C, np.inf)
    x_NxC = (feature_NxC - centre_C) / unit_C
    gram_CxC = x_NxC.T @ x_NxC + penalty * len(left_N) * np.eye(len(centre_C))
    c_C = np.linalg.solve(gram_CxC, x_NxC.T @ (left_N - left_N.mean())) / unit_C
    return LinearModel(float(left_N.mean() - centre_C @ c_C), c_C)


def _predicted_loss(features: Features, line: LinearModel, weights_K: Floats) -> float:
    feature_1xC, base_1 = features.features_and_mean_losses(weights_K[None])
    return float(base_1[0] + line.predict(feature_1xC)[0])


def _mixture_of_lowest_prediction(
    features: Features, line: LinearModel, starts: Sequence[Floats]
) -> Floats:
    """The mixture of the lowest prediction, by SLSQP from each start; never worse than the best."""

    def loss(weights_K: Floats) -> float:
        return _predicted_loss(features, line, weights_K)

    def slope(weights_K: Floats) -> Floats:
        K = len(weights_K)
        slope_IxK = features.expert_loss_slope(weights_K)
        return (features.target_I + line.c_C[K:]) @ slope_IxK + line.c_C[:K]

    result = list(starts)
    for start_K in starts:
        bounds = [(0.0, 1.0)] * len(start_K)
        done = slsqp.minimise_over_simplex(loss, start_K, slope, bounds, steps=500)
        at_K = np.maximum(done.x, 0)
        if np.isfinite(at_K).all() and at_K.sum() > 0:
            result.append(at_K / at_K.sum())
    return min(result, key=loss)
