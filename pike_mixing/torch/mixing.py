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
it, in passes of their own. A loop that leaves the passes to the method saves these:

    for _ in mixing.steps():
        mixing.backward()
        optimizer.step()
        mixing.end_step()

Shapes: K domains, B rows of this process's micro-batch.
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import numpy as np
from torch import Tensor, nn
from torch.utils.data import default_collate

from pike_mixing.alarms import Alarm, Watch
from pike_mixing.delivered import Delivered
from pike_mixing.errors import InputError, refuse
from pike_mixing.interface import Method, Rounding, RunFacts
from pike_mixing.settings import unknown
from pike_mixing.torch import loop_checks, parallel, states
from pike_mixing.torch.losses import RowLosses
from pike_mixing.torch.mixed_dataset import MixedDataset
from pike_mixing.torch.mixed_loader import MixedLoader
from pike_mixing.torch.mixed_steps import MixedSteps
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.passes import Passes
from pike_mixing.torch.rows import Rows
from pike_mixing.torch.step_gradient import StepGradient, shares
from pike_mixing.torch.stream_rows import StreamRows

log = logging.getLogger("pike_mixing")


class Mixing(MixedSteps):
    """A method, its state, and the rows that it chooses."""

    def __init__(
        self,
        method: Method | str,
        dataset: MixedDataset,
        model: nn.Module | None = None,
        loss_fn: RowLosses | Passes | None = None,
        *,
        collate_fn: Callable[[list[Any]], Rows] = default_collate,
        statistics_micro_batch: int = 1,
        latency: int = 0,
        rounding: Rounding = "largest-remainder",
        facts: RunFacts | None = None,
        excess_fn: RowLosses | None = None,
        optimizer: Any = None,
        max_norm: float = math.inf,
        group: Group = None,
        delivered: bool = False,
    ) -> None:
        """Begins before step 0.

        Args:
            method: A rule with settings, or the name of one without.
            dataset: What it mixes.
            model: The model, wrapped or not; it may be set later.
            loss_fn: Loss of each row: `loss_fn(model, rows)` gives B numbers, means over the row's
                tokens, with a graph. Only methods that measure need it. In its place `Passes` of
                one's own, which make losses in another way (`chunked_loss`).
            collate_fn: Makes rows of a list of the data set's; also for the loader.
            statistics_micro_batch: Rows of a pass that measures gradient statistics.
            latency: Steps by which new weights act later. 0 where batches are drawn when they are
                needed; with workers or a loader that prefetches, the steps that are drawn ahead.
            rounding: From weights to counts: the method's own way, or one that evens out.
            facts: Sizes and budget, for methods that ask for them.
            excess_fn: Excess of each row over a frozen reference model, for DoReMi: B means over
                the row's tokens of max(l - l_reference, 0).
            optimizer: A `PerDomainAdamW` that trains the model, for AdaTask.
            max_norm: Longest gradient that `backward` leaves; with AdaTask, of each domain.
            group: The data-parallel processes.
            delivered: Whether tokens of each domain are counted in the batches, and a warning is
                logged where their shares are not those of the rows; then `self.delivered` has the
                counts, which begin anew with each process.

        Raises:
            InputError: the method needs one of these that is missing, one is out of its limits,
                processes share rows, or the data set has weights of its own.
        """
        loop_checks.refuse_dataset(dataset)
        passes = loop_checks.passes_of(loss_fn, excess_fn, group)
        method = loop_checks.fit(
            method,
            facts,
            has_losses=loss_fn is not None,
            has_excess=passes.excess_fn is not None,
            has_moments=hasattr(optimizer, "take"),
        )
        loop_checks.refuse_numbers(rounding, latency, statistics_micro_batch, max_norm)
        loop_checks.refuse_shared_rows(dataset.place, passes.group)
        gradient = StepGradient(
            model,
            passes,
            micro_batch=0,
            statistics_micro_batch=statistics_micro_batch,
            optimizer=optimizer,
            max_norm=max_norm,
        )
        source = StreamRows(dataset, collate_fn, statistics_micro_batch, passes.group)
        super().__init__(method, source, gradient, rounding, latency)
        self.delivered = Delivered(dict.fromkeys(dataset.domains, 1.0)) if delivered else None
        self.loss_fn = loss_fn.loss_fn if isinstance(loss_fn, Passes) else loss_fn
        self._watch = Watch(domains=dataset.domains)
        self._watched = self._watch.init()
        self._settings = {
            "rule": type(self.method).__name__,
            "method": dataclasses.asdict(cast(Any, self.method)),
            "arrays": [f"{n} {array.dtype}{array.shape}" for n, array in self.state.items()],
            "latency": latency,
            "rounding": rounding,
            "statistics_micro_batch": statistics_micro_batch,
        }

    @property
    def weights(self) -> dict[str, float]:
        """Sampling weights of the next counts, by domain."""
        weights_K = self.method.weights(self.state, self.step)
        return dict(zip(self.dataset.domains, weights_K.tolist(), strict=True))

    @property
    def model(self) -> nn.Module | None:
        """The model that is measured: the one that trains, wrapped or not."""
        return self.gradient.model

    @model.setter
    def model(self, model: nn.Module) -> None:
        self.gradient.use(model)

    def data_loader(self, **options: Any) -> MixedLoader:
        """The loader of the data set's micro-batches, from the present step on.

        It takes the options of a DataLoader: num_workers, prefetch_factor, pin_memory, ....

        Raises:
            InputError: its workers draw more steps ahead than `latency`.
        """
        return MixedLoader(self, {"collate_fn": self._collate_fn} | options)

    def steps(self, **options: Any) -> Iterator[int]:
        """The steps of a loop whose passes `backward` makes; options are those of `data_loader`."""
        self._makes_passes = True
        for number, _ in enumerate(self.data_loader(**options)):
            if number % self.dataset.micro_batches == 0:
                yield self.step

    def weigh(self, loss_B: Tensor) -> Tensor:
        """The part of the next micro-batch's rows in the training loss, to which the parts add up.

        Several processes average their gradients (DistributedDataParallel, `fully_shard`), so that
        the part is multiplied by their number, or by what `set_gradient_divide_factor` says. A
        trainer that divides by the steps of accumulation must not.
        """
        at, domain_B = self._at, self._at.take(loss_B)
        c_K = None if at.result is None else at.result.coefficient_K
        weight_B = at.weights(domain_B, shares(at) if c_K is None else c_K)
        return (loss_B * weight_B.to(loss_B)).sum() * parallel.averaged(self.model, self.group)

    def record(self, loss_B: Tensor) -> None:
        """Notes the losses of the next micro-batch, where the training loss is the loop's own."""
        self._at.take(loss_B)

    def loss(self, model: nn.Module, micro_batch: Rows) -> Tensor:
        """`weigh` of the losses that `loss_fn` makes of the next micro-batch."""
        if self.loss_fn is None:
            raise InputError("loss: give Mixing a loss_fn, or use weigh")
        return self.weigh(self.loss_fn(model, micro_batch))

    def validated(self, losses: Mapping[str, float]) -> list[Alarm]:
        """Warns in the log `pike_mixing` of domains whose held-out loss has risen: alarms `worse`.

        Losses are in nats per token; some domains may be missing. NaN counts as infinite: the model
        diverged.

        Raises:
            InputError: a name is no domain.
        """
        domains = self.dataset.domains
        refuse([unknown(name, domains, "validated") for name in losses if name not in domains])
        given = {n: math.inf if math.isnan(loss) else loss for n, loss in losses.items()}
        loss_K = np.array([given.get(domain, math.nan) for domain in domains])
        self._watched, alarms = self._watch.after_validation(self._watched, self.step, loss_K)
        for alarm in alarms:
            log.warning("step %d: %s", alarm.step, alarm.message)
        return alarms

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on from, as plain values that strict JSON can hold.

        The same on all processes; it holds nothing of the model. Within a step it is that of the
        step's beginning, but for an optimizer's moments per domain: of these it warns.
        """
        # Lightning, when it goes on, saves once more within the first step.
        if self._at.result is not None and self.method.needs().moments_per_domain:
            log.warning(
                "step %d: a training that goes on from this state, within the step, moves the "
                "optimizer's moments twice: go on from a state between two steps",
                self.step,
            )
        return states.sealed(
            settings=states.as_json(self._settings),
            step=self.step,
            method=states.packed(self.state),
            fresh_positions=self.fresh_positions_K.tolist(),
            dataset=self.dataset.state_at(self.step, self.positions_K),
            prepared=self._prepared,
            watched=states.packed(self._watched),
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state; before the loader begins.

        Raises:
            InputError: it is damaged, or of something else: each value that is not as it must be.
        """
        of_dataset = {"settings": self.dataset.settings, "reader": {}}
        state = states.plain(state)
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
        self._watched = states.unpacked(state["watched"])
        self.drop()
