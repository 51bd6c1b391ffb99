"""A mixture that may change, as a data set of Grain.

    mixed = MixedIterDataset({"web": web, "code": code}, Schedule(...), batch_rows=256)
    batches = mixed.batch(256)

`web` and `code` are Grain's own data sets. Weights are a function of the step, so that an iterator
that is set to a saved state goes on with the elements and the weights of an uninterrupted one.

torchtitan's main branch builds its data from Grain: `MixConfig` stands there in the place of its
`DatasetMixConfig`.

Shapes: K domains, B elements of a step.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import grain
import numpy as np

from pike_mixing import method_registry
from pike_mixing.arrays import Ints
from pike_mixing.delivered import Delivered, trained_tokens_of_rows
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Needs, rows_of_domains


class MixedIterDataset(grain.IterDataset):  # type: ignore[misc]
    """Elements of named data sets, as many of each in a step as a rule's weights say.

    A step is `batch_rows` elements in an order drawn from the seed. Counts are whole numbers, and
    over the steps their means are the weights. It ends with the first data set of which an element
    is wanted that has ended: `repeat()` those that are to go on.

    Worker processes (`mp_prefetch`) have their own elements each, and steps of their own: give
    `batch_rows` those of one worker.
    """

    def __init__(
        self,
        datasets: Mapping[str, Any],
        rule: Method | str,
        *,
        batch_rows: int,
        seed: int = 0,
        delivered: bool = False,
        tokens: Callable[[Any], float] | None = None,
    ) -> None:
        """Begins at step 0.

        Args:
            datasets: By domain: `MapDataset` or `IterDataset`.
            rule: Whose weights follow no signal: fixed, schedule, temperature, unimax, mix.
            batch_rows: Elements of a step that this process draws.
            seed: Of the order of the domains within a step.
            delivered: Whether tokens of each domain are counted, and a warning is logged where
                their shares are not those of the elements; then `self.delivered` has the counts,
                those of this process.
            tokens: Tokens of an element, for `delivered`. When absent: labels that are not -100,
                else the attention mask's, else the length of `input_ids`.

        Raises:
            InputError: no data sets, no elements in a step, or a rule that follows signals.
        """
        if not datasets:
            raise InputError('datasets: give at least one domain by its name: {"en": english}')
        if batch_rows < 1:
            raise InputError(f"batch_rows: {batch_rows} must be at least 1")
        self.rule = method_registry.make(rule) if isinstance(rule, str) else rule
        if self.rule.needs() != Needs():
            raise InputError(
                f"rule: {type(self.rule).__name__} follows losses or gradients, which a data set "
                "does not see: take fixed, schedule, temperature, unimax or mix, or an adapter of "
                "a trainer"
            )
        self.domains, self.batch_rows, self.seed = tuple(datasets), batch_rows, seed
        self._state = self.rule.init(self.domains, seed)
        self.delivered = Delivered(dict.fromkeys(self.domains, 1.0)) if delivered else None
        self._tokens = tokens or (lambda element: trained_tokens_of_rows([element])[0])
        parents = [d.to_iter_dataset() if isinstance(d, grain.MapDataset) else d
                   for d in datasets.values()]  # fmt: skip
        super().__init__(parents)

    def counts(self, step: int) -> Ints:
        """Elements of each domain in a step."""
        return rows_of_domains(
            self.rule, self._state, step, self.batch_rows, "systematic", len(self.domains)
        )

    def domain_of_elements(self, step: int) -> Ints:
        """Domain of each element of a step [B]."""
        domain_B = np.repeat(np.arange(len(self.domains)), self.counts(step))
        return np.random.default_rng((self.seed, step)).permutation(domain_B)

    def count_delivered(self, domain_B: Ints, elements: list[Any]) -> None:
        """Counts the elements of a step, beside their own shares of rows."""
        if self.delivered is not None:
            row_K = np.bincount(domain_B, minlength=len(self.domains))
            plan = dict(zip(self.domains, row_K.tolist(), strict=True))
            self.delivered.add_rows(domain_B, map(self._tokens, elements), plan)
            self.delivered.warn_if_due()

    def __iter__(self) -> "MixedIterator":
        """From the first element on."""
        return MixedIterator(self, [iter(parent) for parent in self._parents])


class MixedIterator(grain.DatasetIterator):  # type: ignore[misc]
    """Where the reading stands."""

    def __init__(self, dataset: MixedIterDataset, parents: list[Any]) -> None:
        """Begins at step 0."""
        super().__init__(parents)
        self._dataset = dataset
        self._set_step_and_row(0, 0)

    def __next__(self) -> Any:
        """The next element."""
        self._assert_not_closed()
        element = next(self._parents[self._domain_B[self._row]])
        self._row += 1
        if self._dataset.delivered is not None:
            self._drawn.append(element)
        if self._row == len(self._domain_B):
            # Those before a state within a step were counted by the process that drew them.
            self._dataset.count_delivered(
                self._domain_B[self._row - len(self._drawn) :], self._drawn
            )
            self._set_step_and_row(self._step + 1, 0)
        return element

    def _set_step_and_row(self, step: int, row: int) -> None:
        self._step, self._row, self._domain_B = step, row, self._dataset.domain_of_elements(step)
        self._drawn: list[Any] = []

    def get_state(self) -> dict[str, Any]:
        """Step, element in it, and the states of the domains' iterators."""
        parents = {
            name: parent.get_state()
            for name, parent in zip(self._dataset.domains, self._parents, strict=True)
        }
        return {"step": self._step, "row": self._row, "parents": parents}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from a state.

        Raises:
            InputError: it is of other domains.
        """
        if tuple(state["parents"]) != self._dataset.domains:
            raise InputError(
                f"state: is of the domains {', '.join(state['parents'])}, but these are "
                f"{', '.join(self._dataset.domains)}: build the data set as before"
            )
        for parent, own in zip(self._parents, state["parents"].values(), strict=True):
            parent.set_state(own)
        self._set_step_and_row(state["step"], state["row"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixConfig:
    """`MixedIterDataset` as torchtitan's main branch builds one node of its data (August 2026)."""

    datasets: Mapping[str, Any]
    """By domain: torchtitan's own configurations, packed ones if weights are to count tokens."""
    rule: Method | str
    batch_rows: int
    """Rows of a step of one data-parallel process."""
    delivered: bool = False
    """Whether tokens of each domain are counted, see `MixedIterDataset`."""
    tokens: Callable[[Any], float] | None = None
    """Tokens of a row, for `delivered`."""

    def build(self, *, context: Any, dataset_iteration_policy: Any) -> MixedIterDataset:
        """The mixture, each domain in an order of its own."""
        policy = dataset_iteration_policy
        parts = {
            name: config.build(
                context=context,
                dataset_iteration_policy=dataclasses.replace(policy, seed=policy.seed + n),
            )
            for n, (name, config) in enumerate(self.datasets.items())
        }
        return MixedIterDataset(
            parts,
            self.rule,
            batch_rows=self.batch_rows,
            seed=policy.seed,
            delivered=self.delivered,
            tokens=self.tokens,
        )
