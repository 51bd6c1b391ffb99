"""A mixing method in the `Trainer` of torchtitan.

    main(mixing_trainer(PiKE(zeta1=0.05, zeta2=0.005, every=100), domains))

The method chooses the rows in the place of torchtitan's data loader, rank by rank of the
data-parallel mesh; its state lies in torchtitan's checkpoints as the data loader's. A row is a pair
of `{"input": tokens}` and labels, each of L tokens, as torchtitan's own data sets give them.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.loss import IGNORE_INDEX
from torchtitan.tools.logging import logger
from torchtitan.train import Trainer

from pike_mixing.errors import InputError
from pike_mixing.interface import Method
from pike_mixing.torch import MixedDataset, Mixing, model_losses
from pike_mixing.torch.losses import losses_of_logits
from pike_mixing.torch.mixed_loader import micro_batches_ahead
from pike_mixing.torch.row_checks import Columns
from pike_mixing.torch.rows import Rows

Domains = Callable[[Any, Any], Mapping[str, Any]]
"""Data sets by domain, of the tokenizer and the configuration of the job."""


def mixing_trainer(
    method: Method | str, domains: Domains, *, columns: Columns = "same", **options: Any
) -> type[Trainer]:
    """A class for `torchtitan.train.main`, in which a method chooses the rows.

    Args:
        method: A rule with settings, or the name of one without.
        domains: Called with the tokenizer and the job's configuration: data sets by domain.
        columns: Whether the domains' rows are compared, see `MixedDataset`.
        options: Further arguments of `Mixing`: statistics_micro_batch_rows, rounding, ...
    """
    own = {"method": method, "domains": staticmethod(domains), "options": options}
    own["columns"] = columns
    return type(MixingTrainer.__name__, (MixingTrainer,), own)


class _Loader(BaseDataLoader):  # type: ignore[misc]
    """The micro-batches of this process, and the state of the mixing."""

    def __init__(self, mixing: Mixing, options: Mapping[str, Any]) -> None:
        self.mixing, self._loader = mixing, mixing.data_loader(**options)

    def __iter__(self) -> Iterator[Rows]:
        return iter(self._loader)

    def state_dict(self) -> dict[str, Any]:
        return {"mixing": json.dumps(self.mixing.state_dict())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # The template of a checkpoint without a data loader is empty.
        if state_dict:
            self.mixing.load_state_dict(json.loads(state_dict["mixing"]))


class MixingTrainer(Trainer):  # type: ignore[misc]
    """torchtitan's Trainer, which tells the method of its steps."""

    method: Method | str
    domains: Domains
    columns: Columns
    options: Mapping[str, Any]
    loss_fn: Any

    def __init__(self, job_config: Any) -> None:
        """Builds the job.

        Raises:
            InputError: its parallelism does not fit the method.
        """
        super().__init__(job_config)
        self.mixing: Mixing = self.dataloader.mixing
        needs = self.mixing.method.needs()
        self._weighs = needs.has_domain_factors()
        self._compares = needs.losses or needs.has_extra_passes()
        self._own_loss = self.loss_fn
        if self._weighs:
            self.loss_fn = lambda pred, labels: self.mixing.weigh(
                _row_losses_of_logits(pred, labels)
            )
        elif needs.losses or needs.losses_after:
            self.loss_fn = self._unweighed_loss_recording_row_losses
        if len(self.model_parts) == 1:
            self.mixing.model = self.model_parts[0]

    @property
    def train_spec(self) -> Any:
        """The model's specification, with the method's data loader."""
        return self._spec

    @train_spec.setter
    def train_spec(self, spec: Any) -> None:
        self._spec = dataclasses.replace(spec, build_dataloader_fn=self._build_loader)

    def _build_loader(
        self, *, dp_world_size: int, dp_rank: int, tokenizer: Any, job_config: Any
    ) -> _Loader:
        training = job_config.training
        size, every = training.local_batch_size, training.global_batch_size
        rows = every if every > 0 else size * dp_world_size
        workers = dataclasses.asdict(training.dataloader)
        dataset = MixedDataset(
            self.domains(tokenizer, job_config),
            rows,
            seed=job_config.debug.seed or 0,
            micro_batch_rows=size,
            steps=training.steps,
            place=(dp_rank, dp_world_size),
            columns=self.columns,
        )
        mixing = Mixing(
            self.method,
            dataset,
            loss_fn=self._row_losses,
            latency=math.ceil(micro_batches_ahead(workers) / dataset.micro_batches),
            group=self._data_parallel_group(),
            **self.options,
        )
        self._refuse_unfit_parallelism(mixing)
        return _Loader(mixing, workers)

    def _data_parallel_group(self) -> Any:
        """The processes that have rows of their own."""
        dims = self.parallel_dims
        if dims.dp_enabled:
            return dims.get_mesh("batch").get_group()
        return None if dims.world_size == 1 else dist.new_subgroups(1)[0]

    def _refuse_unfit_parallelism(self, mixing: Mixing) -> None:
        dims, needs = self.parallel_dims, mixing.method.needs()
        name = type(mixing.method).__name__
        if dims.dp_replicate_enabled and not dims.fsdp_enabled:
            raise InputError(
                "data_parallel_replicate_degree: torchtitan's replicate averages a loss that is "
                "divided by all tokens already, and its gradients cannot be read before: set "
                "data_parallel_shard_degree instead (FSDP2)"
            )
        degrees = {"tensor": dims.tp, "context": dims.cp, "pipeline": dims.pp}
        wrong = [f"{kind}_parallel_degree={n}" for kind, n in degrees.items() if n > 1]
        if wrong and (needs.losses or needs.has_extra_passes()):
            raise InputError(
                f"{', '.join(wrong)}: processes share rows, or parts of the model, so that "
                f"{name} gets no losses and gradients of whole rows: set the degrees to 1 and "
                "data_parallel_shard_degree higher, or take a rule that measures nothing (mix, "
                "fixed, schedule, temperature, unimax)"
            )

    def _row_losses(self, model: nn.Module, batch: Rows) -> Tensor:
        """The loss of each row: a RowLosses."""
        inputs, labels, extra, masks = self.post_dataloading_process(*batch)
        with self.train_context(), self.maybe_enable_amp:
            return _row_losses_of_logits(model(inputs, **extra, **masks), labels)

    def _single_row_job_loss(self, model: nn.Module, row: Rows) -> Tensor:
        """The job's own loss of a single row, per token."""
        inputs, labels, extra, masks = self.post_dataloading_process(*row)
        with self.train_context(), self.maybe_enable_amp:
            loss: Tensor = self._own_loss(model(inputs, **extra, **masks), labels)
        return (loss / (labels != IGNORE_INDEX).sum()).reshape(1)

    def _unweighed_loss_recording_row_losses(self, pred: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            self.mixing.record(_row_losses_of_logits(pred, labels))
        result: Tensor = self._own_loss(pred, labels)
        return result

    def forward_backward_step(
        self, *, input_dict: dict[str, Tensor], labels: Tensor, global_valid_tokens: Tensor
    ) -> Tensor:
        """One micro-batch; the first's losses of rows are compared with the job's own."""
        if self._compares:
            self._compares = False
            batch, remedy = (input_dict, labels), "a loss function of cross-entropy"
            losses = (self._row_losses, self._single_row_job_loss)
            model_losses.refuse_differing_losses(
                self.model_parts[0], batch, *losses, "by torchtitan", remedy
            )
        if self._weighs:
            # The rows' weights add up to the mean already.
            global_valid_tokens = torch.ones((), device=labels.device)
        loss: Tensor = super().forward_backward_step(
            input_dict=input_dict, labels=labels, global_valid_tokens=global_valid_tokens
        )
        return loss

    def train_step(self, data_iterator: Iterator[Rows]) -> None:
        """One step, after which the method observes."""
        super().train_step(data_iterator)
        self.mixing.end_step()
        if self.metrics_processor.should_log(self.step):
            self.metrics_processor.logger.log(self.mixing.metrics(), self.step)
            shown = (f"{domain} {weight:.3f}" for domain, weight in self.mixing.weights.items())
            logger.info("mixing: %s", " ".join(shown))


def _row_losses_of_logits(pred: Tensor, labels: Tensor) -> Tensor:
    return losses_of_logits(pred, labels, shifted=False)
