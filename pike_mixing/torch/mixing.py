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

import collections
import dataclasses
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from pike_mixing import flat_metrics
from pike_mixing.alarms import Alarm, Watch
from pike_mixing.arrays import Ints
from pike_mixing.delivered import Delivered, trained_tokens_of_rows
from pike_mixing.errors import InputError, refuse
from pike_mixing.interface import (
    Method,
    Needs,
    Rounding,
    RunFacts,
    State,
    Statistics,
    has_own_allocation,
    refuse_unused_needs,
)
from pike_mixing.method_registry import make
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.torch import parallel, resume_state, rows
from pike_mixing.torch.engine import Engine
from pike_mixing.torch.losses import IGNORED, RowLosses
from pike_mixing.torch.mixed_dataset import MixedDataset
from pike_mixing.torch.mixed_loader import MixedLoader
from pike_mixing.torch.parallel import Group
from pike_mixing.torch.pass_interface import Passes
from pike_mixing.torch.rows import Rows
from pike_mixing.torch.step_gradient import StepGradient, StepResult, domain_shares
from pike_mixing.torch.step_rows import StepRecord
from pike_mixing.torch.streams import Stream


def _method_for_run(
    method: Method | str, facts: RunFacts | None, loss_fn: Any, passes: Passes, optimizer: Any
) -> Method:
    """The method with the run's facts, if what it measures with is there."""
    method = make(method) if isinstance(method, str) else method
    if not isinstance(method, Method):
        name = method.__name__ if isinstance(method, type) else "ScaleFreePiKE"
        raise InputError(f"method: {method!r} is none with settings: give, for one, {name}(...)")
    if not dataclasses.is_dataclass(method):
        raise InputError(
            f"method: {type(method).__name__} is no dataclass: put @dataclasses.dataclass("
            "frozen=True) before the class"
        )
    method = method if facts is None else method.for_run(facts)
    refuse_unused_needs(method)
    needs, name = method.needs(), type(method).__name__
    if needs.moments_per_domain and not hasattr(optimizer, "update_domain_moments"):
        raise InputError(
            f"{name} needs an optimizer with moments for each domain: give `optimizer`, a "
            "pike_mixing.torch.PerDomainAdamW, and train with it"
        )
    if needs.reference and passes.excess_fn is None:
        raise InputError(
            f"{name} needs a frozen reference model: give `excess_fn(model, rows)`, the excess of "
            "each row's loss over the reference's (for a causal language model: "
            "pike_mixing.torch.causal_excess(reference))"
        )
    if needs.has_extra_passes() and loss_fn is None:
        raise InputError(
            f"{name} measures losses or gradients: give `loss_fn(model, rows)`, the loss of each "
            "row (for a causal language model: pike_mixing.torch.causal_losses)"
        )
    return method


def _refuse_unmixed_or_weighted_dataset(dataset: Any) -> None:
    if not isinstance(dataset, MixedDataset):
        raise InputError(f"dataset: give a MixedDataset, not a {type(dataset).__name__}")
    weights_K = dataset.weights_unless_published
    if weights_K is not None and not np.allclose(weights_K, 1 / len(weights_K)):
        raise InputError(
            f"dataset: it has the weights {weights_K.tolist()}, but the method sets them: leave "
            "`weights` (`probabilities`) away, or take the method "
            "Fixed(weights_by_domain={...}) with them"
        )


def _refuse_place_unlike_group(place: tuple[int, int], group: Group) -> None:
    """Refuses a data set and a group that disagree on who has rows of its own."""
    own = (parallel.rank(group), parallel.world_size(group))
    if parallel.world_size() > 1 and place != own:
        raise InputError(
            f"dataset: it deals rows to process {place[0]} of {place[1]}, but `group` makes this "
            f"one {own[0]} of {own[1]}: where processes share rows (tensor, context, pipeline "
            "parallelism), give both the data-parallel ones: MixedDataset(place=(rank, number)), "
            "Mixing(group=...)"
        )


def _build_passes(loss_fn: RowLosses | Passes, excess_fn: RowLosses | None, group: Group) -> Passes:
    """The user's own passes, or those of functions of rows that may lie on another device."""
    if isinstance(loss_fn, Passes):
        if excess_fn is not None or group not in (None, loss_fn.group):
            raise InputError("loss_fn: Passes have an excess_fn and a group: give them there")
        return loss_fn

    def on_model_device(of_rows: RowLosses) -> RowLosses:
        return lambda model, batch: of_rows(
            model, rows.to_device(batch, next(model.parameters()).device)
        )

    return Passes(on_model_device(loss_fn), excess_fn and on_model_device(excess_fn), group)


def _refuse_missing_losses(model: nn.Module, batch: Rows) -> Tensor:
    raise InputError("loss: give Mixing a loss_fn, or use weigh")


log = logging.getLogger("pike_mixing")


class StreamRows:
    """A `RowSource` over a mixed data set; each process reads what it passes."""

    def __init__(
        self,
        dataset: MixedDataset,
        collate_fn: Callable[[list[Any]], Rows],
        statistics_micro_batch_rows: int,
        group: Group,
    ) -> None:
        """See `Mixing`."""
        self.dataset, self.collate_fn, self.group = dataset, collate_fn, group
        self.domains, self.batch_rows, self.seed = dataset.domains, dataset.batch_rows, dataset.seed
        self._statistics_micro_batch_rows = statistics_micro_batch_rows
        self._streams: dict[str, list[Stream]] = {}
        self._comparison: StepRecord | None = None

    def draw_rows(self, purpose: str, positions_K: Ints, count_K: Ints) -> StepRecord:
        """The next rows of each domain, see `RowSource`; the loader draws those to train on."""
        if purpose == "comparison":
            # The same at every look; each process reads them all.
            if self._comparison is None:
                self._comparison = self._read(
                    purpose, positions_K, count_K, self.dataset.micro_batch_rows, slice(None)
                )
            return self._comparison
        # Whole micro-batches go to each process.
        own = slice(parallel.rank(self.group), None, parallel.world_size(self.group))
        return self._read(purpose, positions_K, count_K, self._statistics_micro_batch_rows, own)

    def _read(
        self,
        purpose: str,
        positions_K: Ints,
        count_K: Ints,
        micro_batch_rows: int,
        own_micro_batches: slice,
    ) -> StepRecord:
        if purpose not in self._streams:
            self._streams[purpose] = self.dataset.streams(purpose)
        record = StepRecord(count_K, group=self.group)
        for k, (stream, start, count) in enumerate(
            zip(self._streams[purpose], positions_K.tolist(), count_K.tolist(), strict=True)
        ):
            places = range(start, start + count)
            size = micro_batch_rows
            cut = [places[at : at + size] for at in range(0, count, size)]
            for piece in cut[own_micro_batches]:
                record.micro_batches.append(self.collate_fn([stream.row(at) for at in piece]))
                record.domains_of.append(np.full(rows.row_count(record.micro_batches[-1]), k))
        if not record.micro_batches:
            k = int(count_K.argmax())
            first = self._streams[purpose][k].row(int(positions_K[k]))
            record.spare = self.collate_fn([first])
        return record


class Mixing(Engine):
    """A method, its state, and the rows that it chooses."""

    def __init__(
        self,
        method: Method | str,
        dataset: MixedDataset,
        model: nn.Module | None = None,
        loss_fn: RowLosses | Passes | None = None,
        *,
        collate_fn: Callable[[list[Any]], Rows] = default_collate,
        statistics_micro_batch_rows: int = 1,
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
            statistics_micro_batch_rows: Rows of a pass that measures gradient statistics.
            latency: Steps by which new weights act later. 0 where batches are drawn when they are
                needed; with workers or a loader that prefetches, the steps that are drawn ahead.
            rounding: From weights to counts: nearest at each step, or right on average over the
                steps; a method with an `allocate` of its own decides itself. The nearest count of a
                small weight is always 0: a warning is logged after 100 steps without a row.
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
        _refuse_unmixed_or_weighted_dataset(dataset)
        passes = _build_passes(loss_fn or _refuse_missing_losses, excess_fn, group)
        method = _method_for_run(method, facts, loss_fn, passes, optimizer)
        if rounding not in get_args(Rounding):
            raise InputError(f"rounding: {rounding!r}: take {' or '.join(get_args(Rounding))}")
        if latency < 0:
            raise InputError(f"latency: {latency} must not be negative")
        if statistics_micro_batch_rows < 1:
            raise InputError(
                f"statistics_micro_batch_rows: {statistics_micro_batch_rows} must be at least 1"
            )
        if not max_norm > 0:
            raise InputError(f"max_norm: {max_norm} must be positive; leave it away not to clip")
        _refuse_place_unlike_group(dataset.place, passes.group)
        gradient = StepGradient(
            model,
            passes,
            micro_batch_rows=0,
            statistics_micro_batch_rows=statistics_micro_batch_rows,
            optimizer=optimizer,
            max_norm=max_norm,
        )
        source = StreamRows(dataset, collate_fn, statistics_micro_batch_rows, passes.group)
        super().__init__(method, source, gradient, rounding)
        self.dataset, self.latency, self.group = dataset, latency, passes.group
        self.delivered = Delivered(dict.fromkeys(dataset.domains, 1.0)) if delivered else None
        own = loss_fn.loss_fn if isinstance(loss_fn, Passes) else loss_fn
        self.loss_fn = own or _refuse_missing_losses
        rounded = rounding == "largest-remainder" and not has_own_allocation(self.method)
        adapts = self.method.needs() != Needs()
        # A collapse is told by the workflow alone, where its limit can be set.
        self._watch = Watch(
            domains=dataset.domains, adapts=adapts, rounded=rounded, least_effective_domains=0
        )
        self._watched = self._watch.init()
        self._settings = {
            "rule": type(self.method).__name__,
            "method": dataclasses.asdict(cast(Any, self.method)),
            "arrays": [f"{n} {array.dtype}{array.shape}" for n, array in self.state.items()],
            "latency": latency,
            "rounding": rounding,
            "statistics_micro_batch_rows": statistics_micro_batch_rows,
        }
        self._collate_fn = collate_fn
        self._prepared = -1
        self._drawn: collections.deque[list[Rows]] = collections.deque()
        self._metrics: dict[str, float] = {}
        self._measured: Statistics | None = None
        self._makes_passes = False
        self._at = self._empty_record()

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
        self.gradient.set_model(model)

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

    def prepare_step(self) -> None:
        """Measures what is due before the step's rows are drawn, and publishes the next counts.

        Before the first, the rows of the domains are compared.
        """
        self.dataset.refuse_unusable_rows(self._collate_fn, self.group)
        if self._prepared == self.step:
            return
        if self.dataset.published_step != (
            self._prepared + self.latency if self._prepared >= 0 else -1
        ):
            raise InputError(
                "dataset: the counts of its steps are published by somebody else, such as the "
                "Mixing of a training before: give each Mixing a MixedDataset of its own"
            )
        fresh = self.measure_and_observe_before_step()
        if fresh is not None:
            self._measured = fresh.statistics
        for later in range(self.dataset.published_step + 1, self.step + self.latency + 1):
            self.dataset.publish(later, self.counts_by_present_state(later))
        self._prepared = self.step

    def begin_step(self, micro_batches: Sequence[Rows]) -> None:
        """Takes the rows of the next step, as this process passes them; its loader calls this.

        A step begins when the one before has ended, and before its own passes.

        Raises:
            InputError: they are not as many as the step has.
        """
        wanted = [self.dataset.micro_batch_rows] * self.dataset.micro_batches
        given = [rows.row_count(batch) for batch in micro_batches]
        if given != wanted:
            raise InputError(
                f"begin_step: {given} rows in the micro-batches of a step, but the data set deals "
                f"{wanted}: give all of one step; the loader's batch_size is the data set's "
                "micro_batch_rows, which is 1 where collate_fn joins rows to one (packing, "
                "padding-free)"
            )
        if self.delivered is not None:
            step = self.step + len(self._drawn)
            self._add_delivered_tokens_and_warn(self.delivered, step, micro_batches)
        keeps = self._makes_passes or self.method.needs().has_extra_passes()
        self._drawn.append(list(micro_batches) if keeps else [])
        if not self._at.domains_of:
            self._begin_and_measure_step()

    def _add_delivered_tokens_and_warn(
        self, delivered: Delivered, step: int, micro_batches: Sequence[Rows]
    ) -> None:
        """Counts a step's rows and tokens over all processes, beside the shares of its rows."""
        domains, count_K = self.dataset.domains, self.dataset.counts(step)
        token_B = [n for batch in micro_batches for n in _target_tokens_per_row(batch)]
        own_K = np.bincount(self.dataset.domain_of_rows_on_process(step), token_B, len(domains))
        token_K = torch.from_numpy(own_K).to(parallel.communication_device(self.group))
        parallel.sum_in_place([token_K], self.group)
        count = dict(zip(domains, count_K.tolist(), strict=True))
        delivered.add(count, dict(zip(domains, token_K.tolist(), strict=True)), plan=count)
        delivered.warn_if_due()

    def drop_unfinished_steps(self) -> None:
        """Forgets the rows of steps that have not ended."""
        self._drawn.clear()
        self._at = self._empty_record()

    def _begin_and_measure_step(self) -> None:
        self.prepare_step()
        domain_B = self.dataset.domain_of_rows_on_process(self.step)
        self._at.count_K = self.dataset.counts(self.step)
        self._at.domains_of = np.split(domain_B, self.dataset.micro_batches)
        self._at.micro_batches = self._drawn.popleft()
        self.gradient.micro_batch_rows = self.dataset.micro_batch_rows
        if not self._makes_passes:
            self._at.result = self._compute_gradient(leave_gradient=False)

    def _compute_gradient(self, *, leave_gradient: bool) -> StepResult:
        return self.gradient.compute(
            self.method, self.state, self.step, self._at, leave_gradient=leave_gradient
        )

    def weigh(self, loss_B: Tensor) -> Tensor:
        """The part of the next micro-batch's rows in the training loss, to which the parts add up.

        Several processes average their gradients (DistributedDataParallel, `fully_shard`), so that
        the part is multiplied by their number, or by what `set_gradient_divide_factor` says. A
        trainer that divides by the steps of accumulation must not.
        """
        at, domain_B = self._at, self._at.note_losses_and_return_domains(loss_B)
        c_K = None if at.result is None else at.result.coefficient_K
        weight_B = at.row_weights(domain_B, domain_shares(at) if c_K is None else c_K)
        divisor = parallel.fsdp2_divisor_or_world_size(self.model, self.group)
        return (loss_B * weight_B.to(loss_B)).sum() * divisor

    def record(self, loss_B: Tensor) -> None:
        """Notes the losses of the next micro-batch, where the training loss is the loop's own."""
        self._at.note_losses_and_return_domains(loss_B)

    def loss(self, model: nn.Module, micro_batch: Rows) -> Tensor:
        """`weigh` of the losses that `loss_fn` makes of the next micro-batch."""
        return self.weigh(self.loss_fn(model, micro_batch))

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
        at.result = self._compute_gradient(leave_gradient=True)
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
        wants = needs.losses or needs.losses_after or needs.has_domain_factors()
        if wants and not self.is_step_complete:
            raise InputError(
                f"end_step: {len(at.losses)} of {len(at.domains_of)} micro-batches of step "
                f"{self.step} gave their losses, which {type(self.method).__name__} needs: call "
                "weigh for each"
            )
        # Those before the passes are of evaluation mode, as are those after the update.
        if at.losses and not (needs.losses and needs.losses_after):
            result = result.with_losses_or_without(at.training_losses())
        self._measured = result.signals.statistics or self._measured
        self._metrics = flat_metrics.metrics(
            self.dataset.domains,
            statistics=self._measured,
            weight=self.method.weights(self.state, self.step),
            count=at.count_K,
            loss=result.signals.loss_K,
            coefficient=result.coefficient_K,
        )
        self._rows = at
        self._warn_of_alarms(
            self._watch.after_step(
                self._watched, self.step, self.method.weights(self.state, self.step), at.count_K
            )
        )
        self.observe_and_end_step(result)
        self._at = self._empty_record()
        # The next step may train other parameters.
        self.gradient.set_model(self.gradient.model)
        if self._drawn:
            self._begin_and_measure_step()

    @property
    def is_step_complete(self) -> bool:
        """Whether the losses of all micro-batches of the step are there."""
        made = self._makes_passes and self._at.result is not None
        return made or self._at.has_all_losses

    @property
    def is_next_micro_batch_last(self) -> bool:
        """Whether the next micro-batch is the step's last: its backward pass is to synchronize."""
        return len(self._at.losses) + 1 == len(self._at.domains_of)

    def _empty_record(self) -> StepRecord:
        return StepRecord(np.zeros(len(self.dataset.domains), np.int64), group=self.group)

    def metrics(self) -> dict[str, float]:
        """Numbers of the last step, and the last statistics, by name: `mixing/weight/<domain>`."""
        return dict(self._metrics)

    def check_validation_losses(self, losses: Mapping[str, float]) -> list[Alarm]:
        """Warns in the log `pike_mixing` of domains whose held-out loss has risen: alarms `worse`.

        Losses are in nats per token; some domains may be missing. NaN counts as infinite: the model
        diverged.

        Raises:
            InputError: a name is no domain.
        """
        domains = self.dataset.domains
        refuse(
            [
                unknown_name_message(name, domains, "check_validation_losses")
                for name in losses
                if name not in domains
            ]
        )
        given = {n: math.inf if math.isnan(loss) else loss for n, loss in losses.items()}
        loss_K = np.array([given.get(domain, math.nan) for domain in domains])
        return self._warn_of_alarms(self._watch.after_validation(self._watched, self.step, loss_K))

    def _warn_of_alarms(self, state_and_alarms: tuple[State, list[Alarm]]) -> list[Alarm]:
        self._watched, alarms = state_and_alarms
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
        return resume_state.state_with_digest(
            settings=resume_state.lossy_json_value(self._settings),
            step=self.step,
            method=resume_state.pack_state(self.state),
            fresh_positions=self.fresh_positions_K.tolist(),
            dataset=self.dataset.state_at(self.step, self.positions_K),
            prepared=self._prepared,
            watched=resume_state.pack_state(self._watched),
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state; before the loader begins.

        Raises:
            InputError: it is damaged, or of something else: each value that is not as it must be.
        """
        of_dataset = {"settings": self.dataset.settings, "reader": {}}
        state = resume_state.lossy_json_value(state)
        resume_state.refuse_other_state(state, {"settings": self._settings, "dataset": of_dataset})
        unpacked = resume_state.unpack_state(state["method"])
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
        self._watched = resume_state.unpack_state(state["watched"])
        self.drop_unfinished_steps()


def _target_tokens_per_row(batch: Rows) -> Sequence[float]:
    """Target tokens of each row of a micro-batch."""
    if isinstance(batch, Mapping):
        return trained_tokens_of_rows(batch)
    # Of a pair of inputs and labels, the labels.
    last = list(rows.tensors_of_rows(batch))[-1]
    return [float(n) for n in (last.flatten(start_dim=1) != IGNORED).sum(dim=1)]
