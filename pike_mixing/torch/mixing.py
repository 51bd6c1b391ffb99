"""A mixing method that runs beside a training, whoever writes the loop.

A step of the training, and what happens in it:

    prepare      before the step's rows are drawn: measurements that are due, the next counts
    begin_step   the rows are there: measurements of them, the domains' factors in the loss
    weigh        the losses of a micro-batch's rows become its part in the training loss
    end_step     after the optimizer: the method observes

The loader of `Mixing.data_loader` does the first two. A training loop keeps its form:

    mixing = Mixing(method, dataset, model, row_losses)
    for batch in mixing.data_loader():
        mixing.loss(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        mixing.end_step()

A coefficient c_k of a domain's gradient is a factor of its mean loss, so that methods which combine
gradients need no other backward pass than that of the training. Their K gradients are made before
it, in passes of their own.

Shapes: K domains, B rows of this process's micro-batch.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from torch import Tensor, nn
from torch.utils.data import default_collate

from pike_mixing import tracking
from pike_mixing.apportion import systematic
from pike_mixing.arrays import Ints
from pike_mixing.errors import InputError
from pike_mixing.interface import Facts, Method, Signals, State, Statistics
from pike_mixing.torch import fitness, parallel, rows, states
from pike_mixing.torch.losses import RowLosses
from pike_mixing.torch.measuring import Measuring
from pike_mixing.torch.mixed_dataset import MixedDataset
from pike_mixing.torch.mixed_loader import MixedLoader
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.rows import Rows
from pike_mixing.torch.signals import all_reduce
from pike_mixing.torch.step_record import StepRecord


class Mixing:
    """A method, its state, and the rows that it chooses."""

    def __init__(
        self,
        method: Method | str,
        dataset: MixedDataset,
        model: nn.Module | None = None,
        loss_fn: RowLosses | None = None,
        *,
        collate_fn: Callable[[list[Any]], Rows] = default_collate,
        statistics_micro_batch: int = 1,
        latency: int = 0,
        rounding: Literal["largest-remainder", "systematic"] = "largest-remainder",
        facts: Facts | None = None,
        group: Group = None,
    ) -> None:
        """Begins before step 0.

        Args:
            method: A rule with settings, or the name of one without.
            dataset: What it mixes.
            model: The model, wrapped or not; it may be set later.
            loss_fn: Loss of each row: `loss_fn(model, rows)` gives B numbers, means over the row's
                tokens, with a graph. Only methods that measure need it.
            collate_fn: Makes rows of a list of the data set's; also for the loader.
            statistics_micro_batch: Rows of a pass that measures gradient statistics.
            latency: Steps by which new weights act later. 0 where batches are drawn when they are
                needed; with workers or a loader that prefetches, the steps that are drawn ahead.
            rounding: From weights to counts: the method's own way, or one that evens out.
            facts: Sizes and budget, for methods that ask for them.
            group: The data-parallel processes.

        Raises:
            InputError: the method needs what a loop outside the pipeline does not give.
        """
        if not isinstance(dataset, MixedDataset):
            raise InputError(f"dataset: give a MixedDataset, not a {type(dataset).__name__}")
        self.method = fitness.fit(method, facts, has_losses=loss_fn is not None)
        self.dataset, self.latency, self.group = dataset, latency, group
        self._rounding = rounding
        self._measuring = Measuring(
            dataset, model, loss_fn, collate_fn, statistics_micro_batch, group
        )
        if latency < 0:
            raise InputError(f"latency: {latency} must not be negative")
        self.step, self._prepared = 0, -1
        self.state: State = self.method.init(dataset.domains, dataset.seed)
        self._settings = {
            "rule": type(self.method).__name__,
            "method": dataclasses.asdict(cast(Any, self.method)),
            "arrays": [f"{n} {array.dtype}{array.shape}" for n, array in self.state.items()],
            "latency": latency,
            "rounding": rounding,
            "statistics_micro_batch": statistics_micro_batch,
        }
        self.positions_K = np.zeros(len(dataset.domains), dtype=np.int64)
        self.fresh_positions_K = self.positions_K.copy()
        self._drawn: collections.deque[list[Rows]] = collections.deque()
        self._metrics: dict[str, float] = {}
        self._measured: Statistics | None = None
        self._at = StepRecord(len(self.dataset.domains))

    @property
    def weights(self) -> dict[str, float]:
        """Sampling weights of the next counts, by domain."""
        weights_K = self.method.weights(self.state, self.step)
        return dict(zip(self.dataset.domains, weights_K.tolist(), strict=True))

    @property
    def model(self) -> nn.Module | None:
        """The model that is measured: the one that trains, wrapped or not."""
        return self._measuring.model

    @model.setter
    def model(self, model: nn.Module) -> None:
        self._measuring.model = model

    def data_loader(self, **options: Any) -> MixedLoader:
        """The loader of the data set's micro-batches, from the present step on.

        Args:
            options: Those of a DataLoader: num_workers, prefetch_factor, pin_memory, ....

        Raises:
            InputError: its workers draw more steps ahead than `latency`.
        """
        return MixedLoader(self, {"collate_fn": self._measuring.collate_fn} | options)

    def prepare(self) -> None:
        """Measures what is due before the step's rows are drawn, and publishes the next counts."""
        if self._prepared == self.step:
            return
        needs, step, b = self.method.needs(), self.step, self.dataset.batch_rows
        due = needs.statistics
        if due is not None and due.fresh and due.due(step):
            count_K = self._counts(step).clip(min=due.rows)
            found, gram_KxK = [], None
            for _ in range(due.estimates):
                pieces_K = self._measuring.fresh_pieces(self.fresh_positions_K, count_K)
                self.fresh_positions_K = self.fresh_positions_K + count_K
                if due.inner_products:
                    gram_KxK, measured = self._measuring.gramian(pieces_K)
                else:
                    measured = self._measuring.statistics(pieces_K)
                found.append(measured)
            self._at.statistics = Statistics.averaged(found)
            early = Signals(step, b, statistics=self._at.statistics, gram_KxK=gram_KxK)
            self.state = self.method.observe(self.state, early)
        if needs.validation is not None and needs.validation.due(step):
            loss_K = self._measuring.comparison(needs.validation.rows)
            early = Signals(step, b, validation_loss_K=loss_K)
            self.state = self.method.observe(self.state, early)
        for later in range(self.dataset.published + 1, step + self.latency + 1):
            self.dataset.publish(later, self._counts(later))
        self._prepared = step

    def begin_step(self, micro_batches: Sequence[Rows]) -> None:
        """Takes the rows of the next step, as this process passes them; its loader calls this.

        A step begins when the one before has ended, and before its own passes.

        Raises:
            InputError: they are not as many as the step has.
        """
        wanted = [self.dataset.micro_batch] * self.dataset.micro_batches
        given = [rows.count(batch) for batch in micro_batches]
        if given != wanted:
            raise InputError(
                f"begin_step: {given} rows in the micro-batches of a step, but the data set deals "
                f"{wanted}: give all of one step; the loader's batch_size is the data set's "
                "micro_batch, which is 1 where collate_fn joins rows to one (packing, padding-free)"
            )
        self._drawn.append(list(micro_batches) if self.method.needs().passes() else [])
        if not self._at.domains_of:
            self._begin()

    def _begin(self) -> None:
        self.prepare()
        domain_B = self.dataset.domain_of_rows(self.step)
        self._at.domains_of = np.split(domain_B, self.dataset.micro_batches)
        self._at.micro_batches = self._drawn.popleft()
        self._at.coefficient_K = self._measuring.coefficients(
            self.method, self.state, self.step, self._at
        )

    def weigh(self, loss_B: Tensor) -> Tensor:
        """The part of the next micro-batch in the training loss; the parts of a step add up to it.

        Several processes average their gradients (DistributedDataParallel, `fully_shard`), so that
        the part is multiplied by their number. A trainer that divides by the steps of accumulation
        must not.

        Args:
            loss_B: Loss of each row of the micro-batch, with its graph.
        """
        weight_B = self._at.weights(self._at.take(loss_B), self.dataset.counts(self.step))
        return (loss_B * weight_B.to(loss_B)).sum() * parallel.world_size(self.group)

    def record(self, loss_B: Tensor) -> None:
        """Notes the losses of the next micro-batch, where the training loss is the loop's own."""
        self._at.take(loss_B)

    def loss(self, model: nn.Module, micro_batch: Rows) -> Tensor:
        """`weigh` of the losses that `loss_fn` makes of the next micro-batch."""
        if self._measuring.loss_fn is None:
            raise InputError("loss: give Mixing a loss_fn, or use weigh")
        return self.weigh(self._measuring.loss_fn(model, micro_batch))

    def end_step(self) -> None:
        """After the optimizer's update: the method observes the step.

        Raises:
            InputError: the method wants losses, and none were given.
        """
        needs, passes = self.method.needs(), len(self._at.domains_of)
        if not passes:
            raise InputError("end_step: no step has begun: take its rows from mixing.data_loader")
        wants = needs.losses or needs.losses_after or self._at.coefficient_K is not None
        if wants and not self.complete:
            raise InputError(
                f"end_step: {self._at.passed} of {passes} micro-batches of step {self.step} gave "
                f"their losses, which {type(self.method).__name__} needs: call weigh for each"
            )
        seen = self._at.signals(self.step)
        if needs.losses_after:
            after_K = self._measuring.losses(self._at.domains_of, self._at.micro_batches)
            before_K = seen.loss_K if self._at.before_K is None else self._at.before_K
            seen = dataclasses.replace(seen, loss_K=before_K, loss_after_K=after_K)
        seen = all_reduce(seen, self.group)
        weights_K = self.method.weights(self.state, self.step)
        of_batch = needs.batch_statistics(self.step)
        if needs.losses or needs.gramian or needs.losses_after or of_batch:
            statistics = self._at.statistics if of_batch else None
            told = dataclasses.replace(seen, gram_KxK=self._at.gram_KxK, statistics=statistics)
            self.state = self.method.observe(self.state, told)
        self._measured = self._at.statistics or self._measured
        self._metrics = tracking.metrics(
            self.dataset.domains,
            statistics=self._measured,
            weight=weights_K,
            count=seen.count_K,
            loss=seen.loss_K,
            coefficient=self._at.coefficient_K,
        )
        self.positions_K = self.positions_K + self.dataset.counts(self.step)
        self.step += 1
        self._at = StepRecord(len(self.dataset.domains))
        if self._drawn:
            self._begin()

    @property
    def complete(self) -> bool:
        """Whether the losses of all micro-batches of the step are there."""
        return self._at.complete

    @property
    def last(self) -> bool:
        """Whether the next micro-batch is the step's last: its backward pass is to synchronize."""
        return self._at.passed + 1 == len(self._at.domains_of)

    def metrics(self) -> dict[str, float]:
        """Numbers of the last step, and the last statistics, by name: `mixing/weight/<domain>`."""
        return dict(self._metrics)

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on from, as plain values that JSON can hold.

        The same on all processes; it holds nothing of the model. Within a step it is that of the
        step's beginning.
        """
        return states.sealed(
            settings=states.as_json(self._settings),
            step=self.step,
            method=states.packed(self.state),
            fresh_positions=self.fresh_positions_K.tolist(),
            dataset=self.dataset.state_at(self.step, self.positions_K),
            prepared=self._prepared,
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state; before the loader begins.

        Raises:
            InputError: it is damaged, or of something else: each value that is not as it must be.
        """
        of_dataset = {"settings": self.dataset.settings, "reader": {}}
        states.refuse_unfit(state, {"settings": self._settings, "dataset": of_dataset})
        unpacked = states.unpacked(state["method"])
        weights_K = self.method.weights(unpacked, state["step"])
        if not abs(weights_K.sum() - 1) < 1e-6:
            raise InputError(
                f"state.method: its weights are {weights_K.tolist()}, as those of a training that "
                "diverged: go on from an earlier checkpoint"
            )
        self.dataset.load_state_dict(state["dataset"])
        self.step, self.state = state["step"], unpacked
        self.positions_K = np.array(state["dataset"]["positions"], dtype=np.int64)
        self.fresh_positions_K = np.array(state["fresh_positions"], dtype=np.int64)
        self._prepared = state["prepared"]
        self._drawn.clear()
        self._at = StepRecord(len(self.dataset.domains))

    def _counts(self, step: int) -> Ints:
        b = self.dataset.batch_rows
        if self._rounding == "systematic":
            return systematic(self.method.weights(self.state, step), b, step)
        return self.method.allocate(self.state, step, b)
