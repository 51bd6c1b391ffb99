"""What a finder reads and what it returns.

Shapes: K domains, M losses, N proxy runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Array, Floats
from pike_mixing.errors import InputError
from pike_mixing.finders.conformal_intervals import HeldOut

Reads = Literal["losses", "epochs", "state", "predictions"]
"""What a finder reads of a proxy beside its mixture; epochs: losses, and how often it read text;
predictions: losses, and those of tokens."""


@dataclass(frozen=True)
class Inventory:
    """The text that there is for a training, and how much the training reads."""

    tokens: float
    """What the training reads."""
    available_K: Floats
    """Tokens of each domain's text; of several phases each domain's stand once for each phase."""

    def epochs(self, weights_SxK: Floats) -> Floats:
        """How often each mixture reads each domain's text [S, K]: w T / N."""
        return weights_SxK * self.tokens / self.available_K


@dataclass(frozen=True)
class Proxy:
    """One finished proxy run."""

    name: str
    """Name under which the experiment knows the run."""
    weights_K: Floats | None = None
    """The static mixture that it trained on, summing to 1; None when its weights moved."""
    loss_K: Floats | None = None
    """Validation loss of each of the swarm's `losses` after the last step, nats per token."""
    state: Mapping[str, Array] | None = None
    """State of its mixing method after the last step."""
    token_loss: Sequence[Floats] | None = None
    """For each of the losses, that of each validation token, nats: of proxies of one domain."""
    parameters: float | None = None
    """Size of its model, where the table says it."""
    tokens: float | None = None
    """Tokens that it was trained on, where the table says it."""
    available_K: Floats | None = None
    """Tokens of each domain's text that it had, where the table says it."""


@dataclass(frozen=True)
class Swarm:
    """Proxy runs of the same domains."""

    domains: tuple[str, ...]
    """Names of the weights."""
    runs: Sequence[Proxy]
    losses: tuple[str, ...] = ()
    """Names of the losses that a target weighs; those of the domains when empty."""
    phases: tuple[float, ...] = (1.0,)
    """Shares of the run of its phases, in any unit. Of several phases the weights are exposures:
    of the first phase's domains, then of the second's, each phase's with the sum of its share."""
    final: Inventory | None = None
    """That of the training that the mixture is for; absent: the runs' own, where all have one."""

    def __post_init__(self) -> None:
        """Names the losses."""
        object.__setattr__(self, "losses", self.losses or self.domains)

    def weights_and_losses(
        self, fewest_mixtures: int = 1, because: str = "there is nothing to choose from"
    ) -> tuple[Floats, Floats]:
        """Mixtures [N, K] and losses [N, M] of runs that all have finite ones.

        With fewer different mixtures than `fewest_mixtures` the InputError gives `because` as the
        reason.
        """
        for run in self.runs:
            if run.weights_K is None:
                raise InputError(
                    f"proxy {run.name} has no static mixture: only runs whose weights never change "
                    "can be compared by their weights; leave it out"
                )
            if run.loss_K is None or not np.isfinite(run.loss_K).all():
                raise InputError(
                    f"proxy {run.name} has a loss that is no finite number: the run has diverged; "
                    "leave it out, or train it again with a lower training.peak_learning_rate"
                )
        weights_NxK = np.array([run.weights_K for run in self.runs], dtype=np.float64)
        N, different = len(self.runs), len(np.unique(weights_NxK, axis=0))
        if different < fewest_mixtures:
            raise InputError(
                f"{N} proxy run(s){f' of {different} mixtures' if different < N else ''} are too "
                f"few, at least {fewest_mixtures} are needed: {because}; add proxy runs of other "
                "mixtures"
            )
        return weights_NxK, np.array([run.loss_K for run in self.runs], dtype=np.float64)

    def without_unread_domains(self) -> tuple["Swarm", tuple[str, ...]]:
        """The swarm without domains that no run reads, and those: nothing is known of them."""
        weights_NxK, _ = self.weights_and_losses()
        read_K = weights_NxK.any(axis=0)
        if read_K.all() or len(self.phases) > 1:
            return self, ()
        names = np.array(self.domains)

        def select_read(values_K: Floats | None) -> Floats | None:
            return None if values_K is None else values_K[read_K]

        runs = [
            replace(run, weights_K=weights_K[read_K], available_K=select_read(run.available_K))
            for run, weights_K in zip(self.runs, weights_NxK, strict=True)
        ]
        final = self.final and replace(self.final, available_K=self.final.available_K[read_K])
        swarm = replace(self, domains=tuple(names[read_K].tolist()), runs=runs, final=final)
        return swarm, tuple(names[~read_K].tolist())

    def widen_columns(self, values_NxK: Floats, all_domains: Sequence[str]) -> Floats:
        """Values of its domains in the columns of more domains, its own among them; else 0."""
        result = np.zeros((len(values_NxK), len(all_domains)))
        result[:, [all_domains.index(domain) for domain in self.domains]] = values_NxK
        return result

    def inventories_if_all_known(self) -> list[Inventory] | None:
        """Each run's; None where one's tokens or text are not known."""
        known = [
            Inventory(run.tokens, run.available_K)
            for run in self.runs
            if run.tokens is not None and run.available_K is not None
        ]
        return known if known and len(known) == len(self.runs) else None

    def epochs_of_runs(self) -> Floats | None:
        """How often each run read each domain's text [N, K]; None where that is not known."""
        known, (weights_NxK, _) = self.inventories_if_all_known(), self.weights_and_losses()
        if known is None:
            return None
        return np.stack([i.epochs(w) for i, w in zip(known, weights_NxK, strict=True)])

    def final_or_common_inventory(self) -> Inventory | None:
        """`final`, else what all runs have in common; None where they differ or it is unknown."""
        known = self.inventories_if_all_known()
        if self.final is not None or known is None:
            return self.final
        first, *rest = known
        alike = (one.tokens == first.tokens for one in rest)
        same = (np.array_equal(one.available_K, first.available_K) for one in rest)
        return first if all(alike) and all(same) else None

    def required_weight_caps(self, epoch_limit: float | None) -> Floats:
        """Weights [K] that read each domain's text as often as allowed; no limit: infinite."""
        if epoch_limit is None:
            return np.full(len(self.domains), np.inf)
        if len(self.phases) > 1:
            raise InputError("epochs: of several phases, give the cap to the rule `schedule`")
        if (goal := self.final_or_common_inventory()) is None:
            raise InputError(
                "epochs: how much text there is for the mixture is not known: give the table "
                "columns `tokens` and `available/<domain>`, or say --budget TOKENS and --available "
                "DOMAIN=TOKENS"
            )
        cap_K = epoch_limit * goal.available_K / goal.tokens
        # Caps of exactly a whole mixture can fall short of 1 by rounding.
        if cap_K.sum() < 1 - 1e-9:
            raise InputError(
                f"epochs: the repetition caps sum to {cap_K.sum():.3g}, less than a whole mixture: "
                "there is too little text for the budget; raise epochs, add text or lower the "
                "budget"
            )
        return cap_K

    def phase_shares(self) -> Floats:
        """Share of each phase [P], summing to 1."""
        return np.array(self.phases) / np.sum(self.phases)

    def uniform_weights(self) -> Floats:
        """Equal weights of all domains, in every phase."""
        count = len(self.domains) // len(self.phases)
        return np.repeat(self.phase_shares(), count) / count

    def target_weights(self, target: Mapping[str, float] | None) -> Floats:
        """Weight of each loss [M] in the target, divided by their sum; 1/M when absent."""
        return by_domain.shares_in_order(target, self.losses, "target")


class Predictor(Protocol):
    """What a finder has fitted to a swarm."""

    def losses(self, weights_SxK: Floats, epochs_SxK: Floats | None = None) -> Floats:
        """The predicted loss of the target for each mixture [S], nats per token.

        `epochs_SxK` says how often each reads each domain's text; absent: with the inventory of
        `Swarm.final_or_common_inventory`. Finders that see weights alone do not read it.
        """

    def optimum(self) -> Floats:
        """The mixture [K] that is found.

        Raises:
            InputError: the search did not reach it.
        """

    def record(self) -> dict[str, Any]:
        """JSON values from which `SwarmFinder.restore` makes the same predictor."""


@dataclass(frozen=True)
class FinderResult:
    """A mixture, and what tells how far to trust it."""

    weights_K: Floats
    """Not negative, summing to 1."""
    diagnostics: dict[str, Any]
    """JSON values by name; losses and errors in nats per token."""
    predictor: Predictor | None = None
    """What was fitted, of finders that fit."""
    held_out: HeldOut | None = None
    """The runs as fits that have not seen them predict the target, of finders that predict."""


class Finder(Protocol):
    """Settings of one way to find a mixture."""

    about: ClassVar[str]
    """What it does, in one sentence."""
    reads: ClassVar[Reads]
    packages: ClassVar[tuple[str, ...]]
    """What `find` imports beside NumPy: packages of the extra `finders`."""

    def find(self, swarm: Swarm) -> FinderResult:
        """The mixture that the runs speak for.

        Raises:
            InputError: the runs do not suffice.
        """


class SwarmFinder(Finder, Protocol):
    """A finder of mixtures from losses, whose fit can be repeated on other runs, and kept."""

    def fit(self, swarm: Swarm, same_way_as: FinderResult | None = None) -> Predictor:
        """What is fitted to the runs, without errors on held-out ones.

        With `same_way_as`, a result for other runs, it is fitted in the same way, without a new
        cross-validation.

        Raises:
            InputError: the runs do not suffice.
        """

    def restore(self, swarm: Swarm, record: dict[str, Any]) -> Predictor:
        """The predictor of its `record`; domains and losses are those of its fit, without runs."""
