"""Rules whose weights follow no signal: PiKE's Building Block 1, fixed, temperature, UniMax."""

import dataclasses
import hashlib
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from pike_mixing import by_domain
from pike_mixing.arrays import Floats
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, RunFacts, Signals, State
from pike_mixing.numerics.simplex import softmax
from pike_mixing.setting_limits import PositiveFloat, Proportions
from pike_mixing.setting_messages import unknown_name_message

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class WithObjective(Method):
    """A rule whose share of rows and whose weight in the loss can be set separately.

    More rows of a domain lower the noise of its gradient, and it is read more often; a higher
    weight in the loss makes it count for more. Without an objective the two are one: the training
    loss is the mean over rows.
    """

    objective: Proportions | None = dataclasses.field(default=None, kw_only=True)
    """Weight of each domain's mean loss in the training loss, divided by the sum over the domains
    that have rows in the batch; their shares of the rows when absent."""

    def for_run(self, facts: RunFacts) -> Self:
        """The same rule with the run's sizes, budget and length where none were written down."""
        known_of_run: dict[str, Any] = {
            "tokens_by_domain": dict(facts.tokens_by_domain),
            "budget_tokens": facts.budget_tokens,
            "steps": facts.steps,
        }
        own = {field.name for field in dataclasses.fields(self)}
        given = {name: value for name, value in known_of_run.items() if name in own}
        return dataclasses.replace(self, **{n: getattr(self, n) or v for n, v in given.items()})

    def objective_state(self, domains: tuple[str, ...]) -> State:
        """What the state needs for `loss_weights`: nothing without an objective."""
        if self.objective is None:
            return {}
        return {"objective_K": by_domain.shares_in_order(self.objective, domains, "objective")}

    def loss_weights(self, state: State, signals: Signals) -> Floats | None:
        """The objective over the domains with rows; 0 where none of them counts."""
        if self.objective is None:
            return None
        assert signals.count_K is not None, "the batch's counts are known before its losses"
        weight_K = np.where(signals.count_K > 0, state["objective_K"], 0.0)
        return np.asarray(weight_K / max(weight_K.sum(), np.finfo(np.float64).tiny))


def require_run_length(value: T | None, setting: str) -> T:
    """The value of a setting that says how long the run is; an InputError where it has none."""
    if value is None:
        raise InputError(f"{setting}: the length of the run is not known: give it")
    return value


@dataclasses.dataclass(frozen=True)
class Mix(Method):
    """b_t = b (1/K, ..., 1/K): PiKE's Building Block 1."""

    about: ClassVar[str] = "Every batch holds every domain in equal parts. The baseline."

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Weights 1/K."""
        return {"weights_K": by_domain.equal_weights(len(domains))}


@dataclasses.dataclass(frozen=True)
class RoundRobin(Method):
    """b_t = b e_{(t mod K) + 1}: PiKE's Building Block 1."""

    about: ClassVar[str] = "Each batch holds one domain alone; the domains take turns."

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """Only the number of domains."""
        return {"one_hot_KxK": np.eye(len(domains))}

    def weights(self, state: State, step: int) -> Floats:
        """All weight on the domain whose turn it is."""
        one_hot_KxK = state["one_hot_KxK"]
        return one_hot_KxK[step % len(one_hot_KxK)]


@dataclasses.dataclass(frozen=True)
class Random(Method):
    """b_t = b e_{k*} with k* ~ Uniform({1, ..., K}): PiKE's Building Block 1."""

    about: ClassVar[str] = "Each batch holds one domain alone, drawn at random."

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The seed of the draws; the domain of a step is a function of (seed, step) alone."""
        one_hot_KxK = np.eye(len(domains))
        return {"one_hot_KxK": one_hot_KxK, "seed": np.array(seed, dtype=np.int64)}

    def weights(self, state: State, step: int) -> Floats:
        """All weight on the drawn domain."""
        one_hot_KxK = state["one_hot_KxK"]
        key = f"random domain {int(state['seed'])} {step}".encode()
        draw = int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
        # 64 bits modulo K: no domain is favoured by more than K / 2^64.
        return one_hot_KxK[draw % len(one_hot_KxK)]


@dataclasses.dataclass(frozen=True)
class Single(Method):
    """b_t = b e_k for one k: the paper's reference for what mixing gains."""

    about: ClassVar[str] = "All batches hold the same one domain; the others are never seen."

    domain: str
    """The domain trained on."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """All weight on the domain."""
        if self.domain not in domains:
            raise InputError(unknown_name_message(self.domain, domains, "domain"))
        one_hot = [float(d == self.domain) for d in domains]
        return {"weights_K": np.array(one_hot)}


@dataclasses.dataclass(frozen=True)
class Fixed(WithObjective):
    """b_t = b w with the same w at every step."""

    about: ClassVar[str] = (
        "Every batch holds the domains in shares that someone chose beforehand, or that other runs "
        "found."
    )

    weights_by_domain: Proportions | None = None
    """Weight of each domain; divided by their sum."""
    mixture: str | None = None
    """Instead: name of a mixture that the experiment finds (mixtures)."""

    def problems(self) -> list[str]:
        """Weights that are missing or given twice."""
        if (self.weights_by_domain is None) == (self.mixture is None):
            return ["weights_by_domain: give either these or a mixture, not both"]
        return []

    def for_run(self, facts: RunFacts) -> Self:
        """The same rule with the weights of the mixture that it names."""
        if self.mixture is None:
            return self
        if facts.mixture is None:
            raise InputError(f"mixture: the weights of {self.mixture!r} were not given to the run")
        return dataclasses.replace(self, weights_by_domain=dict(facts.mixture), mixture=None)

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The normalised weights."""
        if self.weights_by_domain is None:
            raise InputError(f"mixture: the weights of {self.mixture!r} were not given to the run")
        weights_K = by_domain.shares_in_order(self.weights_by_domain, domains, "weights_by_domain")
        return {"weights_K": weights_K} | self.objective_state(domains)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Temperature(WithObjective):
    """b_t = b w with w_k ~ n_k^(1/T), n_k the tokens of domain k (mT5, arXiv 2010.11934)."""

    about: ClassVar[str] = (
        "Fixed shares by the size of each domain's text, evened out by a temperature."
    )

    temperature: PositiveFloat = 10 / 3
    """T: 1 keeps the corpora's proportions, a large T gives equal parts; mT5's n^0.3 is 10/3."""
    tokens_by_domain: dict[str, PositiveFloat] | None = None
    """Training tokens of each domain under the run's tokenizer; its corpora's own when absent."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The weights, which never change."""
        tokens_K = by_domain.required_tokens_in_order(self.tokens_by_domain, domains)
        # As a softmax, n^(1/T) cannot overflow.
        weights_K = softmax(np.log(tokens_K) / self.temperature)
        return {"weights_K": weights_K} | self.objective_state(domains)


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniMax(WithObjective):
    """Splits the run's tokens equally among the domains, the smallest first, up to N epochs each.

    UniMax (arXiv 2304.09151). A budget that exceeds N epochs of everything is split as N epochs of
    everything would be: then every domain passes N.
    """

    about: ClassVar[str] = (
        "Equal shares for all domains, except that none is read more than a few times over."
    )

    epochs: PositiveFloat = 4
    """N: no domain is read more often than this in the whole run."""
    tokens_by_domain: dict[str, PositiveFloat] | None = None
    """Training tokens of each domain under the run's tokenizer; its corpora's own when absent."""
    budget_tokens: PositiveFloat | None = None
    """Tokens of the whole run, rows x length x steps; the run's own when absent."""

    def init(self, domains: tuple[str, ...], seed: int) -> State:
        """The weights, which never change."""
        tokens_K = by_domain.required_tokens_in_order(self.tokens_by_domain, domains)
        weights_K = weights_capped_by_epochs(
            tokens_K, require_run_length(self.budget_tokens, "budget_tokens"), self.epochs
        )
        return {"weights_K": weights_K} | self.objective_state(domains)


def weights_capped_by_epochs(tokens_K: Floats, budget: float, epochs: float) -> Floats:
    """Weights of the split: from the smallest up, each takes an equal part of what is left.

    Sizes 1 and 9, a budget of 10, two epochs: the first takes its 2, the second the 8 left.
    """
    taken_K, left = np.zeros_like(tokens_K), budget
    order = tokens_K.argsort().tolist()
    for place, k in enumerate(order):
        taken_K[k] = min(left / (len(order) - place), epochs * float(tokens_K[k]))
        left -= float(taken_K[k])
    return taken_K / taken_K.sum()
