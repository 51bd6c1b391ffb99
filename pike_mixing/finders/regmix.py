"""RegMix (arXiv 2407.01492): boosted trees learn the loss from the mixture, then are searched.

Its code trains 512 proxies, and stops the boosting by the score on the test set. Here 20 to 50
proxies must do, and the rounds are chosen by cross-validation among them.

Shapes: K domains, N proxy runs, S drawn mixtures.
"""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.finders import cross_validation
from pike_mixing.finders.conformal_intervals import HeldOut
from pike_mixing.finders.interface import FinderResult, Reads, Swarm
from pike_mixing.numerics.simplex import capped_weights
from pike_mixing.setting_limits import (
    Limits,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveProportions,
    Proportions,
)
from pike_mixing.settings import CheckedSettings

if TYPE_CHECKING:
    import lightgbm as lgb

LEAST_PER_FOLD = 2
"""Mixtures in each part of the cross-validation, without which its score is one run's noise."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegMix(CheckedSettings):
    """The mean of the mixtures to which gradient-boosted trees give the lowest loss."""

    about: ClassVar[str] = (
        "Learns the loss from the mixture by boosted trees, and averages the best of many "
        "mixtures drawn at random."
    )
    reads: ClassVar[Reads] = "losses"
    packages: ClassVar[tuple[str, ...]] = ("lightgbm", "scipy")

    target: Proportions | None = None
    """Weight of each domain's loss in what is learned, divided by their sum; 1/K when absent."""
    epochs: PositiveFloat | None = None
    """No domain is read more than this many times; the runs' table tells how much text there is.

    What a drawn mixture has above its cap goes to the others in their proportions."""
    samples: PositiveInt = 100_000
    """Mixtures drawn from the Dirichlet distribution and scored."""
    kept: PositiveInt = 128
    """The best of them are averaged; all that tie with the last of these are taken too.

    Trees are constant by pieces, and few proxies make large pieces: among equal scores the draw
    alone would choose."""
    prior: PositiveProportions | None = None
    """Mean of the Dirichlet distribution; 1/K when absent. Take that of the proxies' mixtures."""
    concentration: PositiveFloat = 1.0
    """Its parameters are concentration K prior_k: with equal parts, 1 draws evenly.

    Trees predict the same beyond the proxies as at their edge. So draw from where they lie."""
    learning_rate: PositiveFloat = 0.03
    """Share of each tree that is added. The paper's 0.01 needs thousands of trees."""
    rounds: PositiveInt = 1000
    """Trees at most."""
    patience: PositiveInt = 50
    """Trees without a lower held-out error after which the boosting stops.

    Of few proxies the error falls unevenly: RegMix's 3 may stop at a bump."""
    leaves: Annotated[int, Limits(at_least=2)] = 4
    """Leaves per tree: 3 splits, enough for two domains to act together.

    LightGBM's 31 would give each of 30 proxies a leaf of its own."""
    min_data_in_leaf: PositiveInt = 3
    """Proxies that a leaf holds at least.

    LightGBM's 20 forbids every split below 40 proxies: the prediction would be one constant."""
    min_data_in_bin: PositiveInt = 1
    """Proxies between two places at which a tree may split, at least.

    LightGBM's 3 would hide where a split of few proxies is best."""
    folds: Annotated[int, Limits(at_least=2)] = 5
    """Parts of the cross-validation."""
    seed: NonNegativeInt = 0
    """Seed of the drawn mixtures and of the parts."""

    def problems(self) -> list[str]:
        """More mixtures to keep than are drawn."""
        if self.kept <= self.samples:
            return []
        return [f"kept: must not be more than samples ({self.samples})"]

    def find(self, swarm: Swarm) -> FinderResult:
        """The mean of the drawn mixtures with the lowest predicted sum_i u_i L_i.

        Raises:
            InputError: too few proxies, or one without a static mixture or a finite loss.
        """
        weights_NxK, target_N = self._mixtures_and_target_losses(swarm)
        trees = self.fit(swarm)
        weights_K, averaged = trees.optimum_and_mixtures_averaged()
        blocks = self._predict_held_out(weights_NxK, target_N)
        predicted_2 = trees.losses(np.stack([weights_K, swarm.uniform_weights()]))
        diagnostics = cross_validation.fit_diagnostics(
            blocks.predicted_N, target_N, weights_K, predicted_2
        )
        diagnostics |= {"trees": trees.booster.num_trees(), "averaged": averaged}
        return FinderResult(weights_K, diagnostics, trees, blocks)

    def fit(self, swarm: Swarm, same_way_as: FinderResult | None = None) -> "Trees":
        """The trees alone, without errors on held-out proxies.

        With `same_way_as` there are as many trees as in its result; at most 10,000 mixtures are
        drawn, of which the same share is kept.
        """
        if same_way_as is None:
            finder, booster = self, self._fit_trees(*self._mixtures_and_target_losses(swarm))
        else:
            weights_NxK, loss_NxM = swarm.weights_and_losses()
            target_N = loss_NxM @ swarm.target_weights(self.target)
            booster = self._train_rounds(weights_NxK, target_N, same_way_as.diagnostics["trees"])
            samples = min(self.samples, 10_000)
            kept = max(self.kept * samples // self.samples, 1)
            finder = dataclasses.replace(self, samples=samples, kept=kept)
        return Trees(booster, finder, swarm.domains, swarm.required_weight_caps(self.epochs))

    def restore(self, swarm: Swarm, record: dict[str, Any]) -> "Trees":
        """The trees of a record, with these settings."""
        import lightgbm as lgb

        try:
            booster = lgb.Booster(model_str=record["model"])
            return Trees(booster, self, swarm.domains, swarm.required_weight_caps(self.epochs))
        except lgb.basic.LightGBMError as error:
            raise ValueError(str(error)) from None

    def _mixtures_and_target_losses(self, swarm: Swarm) -> tuple[Floats, Floats]:
        if len(swarm.phases) > 1:
            raise InputError("the finder 'regmix' knows no phases: use 'mixing-law'")
        # The outer cross-validation leaves one part out; the inner one needs whole parts of the
        # rest, and a split needs two leaves' worth of what then remains.
        split = 2 * self.min_data_in_leaf
        nested = cross_validation.fewest_mixtures_for_folds(
            cross_validation.fewest_mixtures_for_folds(split, self.folds), self.folds
        )
        weights_NxK, loss_NxM = swarm.weights_and_losses(
            max(LEAST_PER_FOLD * self.folds, nested),
            f"{self.folds} parts take turns in being held out, twice nested, and a split of the "
            f"rest needs {split} runs",
        )
        return weights_NxK, loss_NxM @ swarm.target_weights(self.target)

    def _fit_trees(self, weights_NxK: Floats, target_N: Floats) -> "lgb.Booster":
        """Trees on all the proxies, as many as do best on held-out ones.

        The number is that with the lowest mean squared error over the parts; 1 tree at least.
        """
        import lightgbm as lgb

        scores = lgb.cv(
            self._lightgbm_parameters(),
            lgb.Dataset(weights_NxK, target_N, free_raw_data=False),
            num_boost_round=self.rounds,
            folds=cross_validation.make_folds(weights_NxK, self.folds, self.seed),
            callbacks=[lgb.early_stopping(self.patience, verbose=False)],
        )
        rounds = 1 + int(np.argmin(np.asarray(scores["valid l2-mean"])))
        return self._train_rounds(weights_NxK, target_N, rounds)

    def _train_rounds(self, weights_NxK: Floats, target_N: Floats, rounds: int) -> "lgb.Booster":
        import lightgbm as lgb

        data = lgb.Dataset(weights_NxK, target_N, free_raw_data=False)
        return lgb.train(self._lightgbm_parameters(), data, num_boost_round=rounds)

    def _lightgbm_parameters(self) -> dict[str, Any]:
        """LightGBM's parameters; the same data give the same bits."""
        return {
            "objective": "regression",
            "metric": "l2",
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.min_data_in_leaf,
            "min_data_in_bin": self.min_data_in_bin,
            "seed": self.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        }

    def _predict_held_out(self, weights_NxK: Floats, target_N: Floats) -> HeldOut:
        """Mixtures that saw neither the trees nor the choice of their number."""
        predicted_N = np.empty_like(target_N)
        parts = cross_validation.make_folds(weights_NxK, self.folds, self.seed)
        for rest, part in parts:
            booster = self._fit_trees(weights_NxK[rest], target_N[rest])
            predicted_N[part] = _predict_losses(booster, weights_NxK[part])
        return cross_validation.held_out_of_folds(predicted_N, target_N, weights_NxK, parts)


@dataclasses.dataclass(frozen=True)
class Trees:
    """Boosted trees, and the search among mixtures that are drawn at random."""

    booster: "lgb.Booster"
    finder: RegMix
    domains: tuple[str, ...]
    cap_K: Floats

    def losses(self, weights_SxK: Floats, epochs_SxK: Floats | None = None) -> Floats:
        """The prediction for each mixture [S], nats per token."""
        return _predict_losses(self.booster, weights_SxK)

    def optimum(self) -> Floats:
        """The mean of the drawn mixtures with the lowest predictions."""
        return self.optimum_and_mixtures_averaged()[0]

    def record(self) -> dict[str, Any]:
        """LightGBM's text of the trees."""
        return {"model": self.booster.model_to_string()}

    def optimum_and_mixtures_averaged(self) -> tuple[Floats, int]:
        """The optimum, and how many drawn mixtures it is the mean of."""
        finder = self.finder
        prior_K = by_domain.shares_in_order(finder.prior, self.domains, "prior")
        drawn_SxK = np.random.default_rng(finder.seed).dirichlet(
            finder.concentration * len(self.domains) * prior_K, finder.samples
        )
        drawn_SxK = capped_weights(drawn_SxK, self.cap_K)
        score_S = self.losses(drawn_SxK)
        chosen_S = score_S <= np.partition(score_S, finder.kept - 1)[finder.kept - 1]
        return drawn_SxK[chosen_S].mean(axis=0), int(chosen_S.sum())


def _predict_losses(booster: "lgb.Booster", weights_SxK: Floats) -> Floats:
    return np.asarray(booster.predict(weights_SxK, num_threads=1), dtype=np.float64)
