"""The steps of a training whose rows a loader draws: what happens at their begin and end.

Shapes: K domains, B rows of this process's micro-batch.
"""

import collections
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from pike_mixing import tracking
from pike_mixing.delivered import Delivered, tokens_of
from pike_mixing.errors import InputError
from pike_mixing.interface import Method, Rounding, Statistics
from pike_mixing.torch import parallel, rows
from pike_mixing.torch.engine import Engine
from pike_mixing.torch.losses import IGNORED
from pike_mixing.torch.mixed_dataset import MixedDataset
from pike_mixing.torch.rows import Rows
from pike_mixing.torch.step_gradient import StepGradient
from pike_mixing.torch.step_record import StepRecord
from pike_mixing.torch.step_result import StepResult
from pike_mixing.torch.stream_rows import StreamRows


class MixedSteps(Engine):
    """The part of `Mixing` that begins and ends its steps."""

    def __init__(
        self,
        method: Method,
        source: StreamRows,
        gradient: StepGradient,
        rounding: Rounding,
        latency: int,
    ) -> None:
        """See `Mixing`."""
        super().__init__(method, source, gradient, rounding)
        self.dataset: MixedDataset = source.dataset
        self.latency, self.group = latency, source.group
        self._collate_fn = source.collate_fn
        self._prepared = -1
        self._drawn: collections.deque[list[Rows]] = collections.deque()
        self._metrics: dict[str, float] = {}
        self._measured: Statistics | None = None
        self._makes_passes = False
        self.delivered: Delivered | None = None
        self._at = self._empty()

    def prepare(self) -> None:
        """Measures what is due before the step's rows are drawn, and publishes the next counts.

        Before the first, the rows of the domains are compared.
        """
        self.dataset.compare_rows(self._collate_fn, self.group)
        if self._prepared == self.step:
            return
        if self.dataset.published != (self._prepared + self.latency if self._prepared >= 0 else -1):
            raise InputError(
                "dataset: the counts of its steps are published by somebody else, such as the "
                "Mixing of a training before: give each Mixing a MixedDataset of its own"
            )
        fresh = self.measure()
        if fresh is not None:
            self._measured = fresh.statistics
        for later in range(self.dataset.published + 1, self.step + self.latency + 1):
            self.dataset.publish(later, self.counts(later))
        self._prepared = self.step

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
        if self.delivered is not None:
            self._count(self.delivered, self.step + len(self._drawn), micro_batches)
        keeps = self._makes_passes or self.method.needs().passes()
        self._drawn.append(list(micro_batches) if keeps else [])
        if not self._at.domains_of:
            self._begin()

    def _count(self, came: Delivered, step: int, micro_batches: Sequence[Rows]) -> None:
        """Counts a step's rows and tokens over all processes, beside the shares of its rows."""
        domains, count_K = self.dataset.domains, self.dataset.counts(step)
        token_B = [n for batch in micro_batches for n in _tokens(batch)]
        own_K = np.bincount(self.dataset.domain_of_rows(step), token_B, len(domains))
        token_K = torch.from_numpy(own_K).to(parallel.device(self.group))
        parallel.sum_([token_K], self.group)
        count = dict(zip(domains, count_K.tolist(), strict=True))
        came.add(count, dict(zip(domains, token_K.tolist(), strict=True)), plan=count)
        came.warn()

    def drop(self) -> None:
        """Forgets the rows of steps that have not ended."""
        self._drawn.clear()
        self._at = self._empty()

    def _begin(self) -> None:
        self.prepare()
        domain_B = self.dataset.domain_of_rows(self.step)
        self._at.count_K = self.dataset.counts(self.step)
        self._at.domains_of = np.split(domain_B, self.dataset.micro_batches)
        self._at.micro_batches = self._drawn.popleft()
        self.gradient.micro_batch = self.dataset.micro_batch
        if not self._makes_passes:
            self._at.result = self._compute(leaves=False)

    def _compute(self, *, leaves: bool) -> StepResult:
        return self.gradient.compute(self.method, self.state, self.step, self._at, leaves=leaves)

    def backward(self) -> StepResult:
        """All passes of a step of `steps`: leaves the gradient that the method wants, clipped.

        It is summed over all processes: DistributedDataParallel does not reduce again. Gradients
        that were there are dropped.

        Raises:
            InputError: the loop is not one over `steps`.
        """
        at = self._at
        if not self._makes_passes or not at.domains_of or at.result is not None:
            raise InputError("backward: call it once for each step of `for _ in mixing.steps():`")
        at.result = self._compute(leaves=True)
        return at.result

    def end_step(self) -> None:
        """After the optimizer's update: the method observes the step.

        Raises:
            InputError: the method wants losses, and none were given.
        """
        needs, at, result = self.method.needs(), self._at, self._at.result
        if result is None:
            raise InputError(
                "end_step: no step has begun: take its rows from mixing.data_loader, or call "
                "mixing.backward() in a loop over mixing.steps()"
            )
        wants = needs.losses or needs.losses_after or needs.weighs()
        if wants and not self.complete:
            raise InputError(
                f"end_step: {len(at.losses)} of {len(at.domains_of)} micro-batches of step "
                f"{self.step} gave their losses, which {type(self.method).__name__} needs: call "
                "weigh for each"
            )
        # Those before the passes are of evaluation mode, as are those after the update.
        if at.losses and not (needs.losses and needs.losses_after):
            result = result.with_losses(at.training_losses())
        self._measured = result.seen.statistics or self._measured
        self._metrics = tracking.metrics(
            self.dataset.domains,
            statistics=self._measured,
            weight=self.method.weights(self.state, self.step),
            count=at.count_K,
            loss=result.seen.loss_K,
            coefficient=result.coefficient_K,
        )
        self._rows = at
        self.observe(result)
        self._at = self._empty()
        # The next step may train other parameters.
        self.gradient.use(self.gradient.model)
        if self._drawn:
            self._begin()

    @property
    def complete(self) -> bool:
        """Whether the losses of all micro-batches of the step are there."""
        made = self._makes_passes and self._at.result is not None
        return made or self._at.complete

    @property
    def last(self) -> bool:
        """Whether the next micro-batch is the step's last: its backward pass is to synchronize."""
        return len(self._at.losses) + 1 == len(self._at.domains_of)

    def _empty(self) -> StepRecord:
        return StepRecord(np.zeros(len(self.dataset.domains), np.int64), group=self.group)

    def metrics(self) -> dict[str, float]:
        """Numbers of the last step, and the last statistics, by name: `mixing/weight/<domain>`."""
        return dict(self._metrics)


def _tokens(batch: Rows) -> Sequence[float]:
    """Target tokens of each row of a micro-batch."""
    if isinstance(batch, Mapping):
        return tokens_of(batch)
    # Of a pair of inputs and labels, the labels.
    last = list(rows.tensors(batch))[-1]
    return [float(n) for n in (last.flatten(start_dim=1) != IGNORED).sum(dim=1)]
