"""A mixing method in a `Trainer` of transformers, or in any class made from it.

    trainer = Trainer(model, args, data_collator=collate)
    attach(trainer, PiKE(zeta1=0.05, zeta2=0.005, every=100), {"en": english, "de": german})
    trainer.train()

The Trainer reads its batches from the domains when it needs them: new weights act at once, or,
with `dataloader_num_workers`, as many steps later as the workers draw ahead. A training goes on
with `trainer.train(resume_from_checkpoint=...)`: the state lies in `trainer_state.json`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState

from pike_mixing.errors import InputError
from pike_mixing.interface import Method
from pike_mixing.torch import MixedDataset, Mixing, model_losses, rows
from pike_mixing.torch.losses import logits_of, losses_of_outputs
from pike_mixing.torch.mixed_loader import micro_batches_ahead
from pike_mixing.torch.pass_interface import current_mode_losses_without_trace
from pike_mixing.torch.row_checks import Columns
from pike_mixing.torch.rows import Rows

OF_OTHER_LOSSES = (
    *("DPOTrainer", "KTOTrainer", "RewardTrainer", "GRPOTrainer", "RLOOTrainer"),
    "DistillationTrainer",
)
"""Trainers of TRL whose loss is none of a row's labels."""


def refuse_unfit_trainer(trainer: Any, datasets: Mapping[str, Any]) -> None:
    """Refuses a Trainer of transformers that would read other rows, or another number of them.

    Args:
        trainer: The Trainer.
        datasets: The domains that it is to read.

    Raises:
        InputError: what does not fit, and what to do.
    """
    args, kinds = trainer.args, [kind.__name__ for kind in type(trainer).__mro__]
    if wrong := [name for name in kinds if name in OF_OTHER_LOSSES]:
        raise InputError(
            f"{wrong[0]} has a loss of other things than the labels of rows, which a method "
            "counts: give it a data set with fixed weights (datasets.interleave_datasets), or "
            "train with SFTTrainer"
        )
    if args.max_steps <= 0:
        raise InputError(
            "max_steps: set it, in the place of num_train_epochs: a mixture has no last row"
        )
    if getattr(args, "train_sampling_strategy", "random") != "random" or getattr(
        args, "group_by_length", False
    ):
        raise InputError("the method chooses the rows: leave group_by_length and samplers away")
    if args.auto_find_batch_size:
        raise InputError(
            "auto_find_batch_size: the rows of a step would change under the method: set "
            "per_device_train_batch_size"
        )
    if args.n_gpu > 1:
        raise InputError(
            "one process drives several GPUs (DataParallel): start one for each with torchrun"
        )
    given = trainer.train_dataset
    if given is not None and not any(given is one for one in (datasets, *datasets.values())):
        raise InputError(
            "train_dataset: the Trainer has one, which nobody would read: attach reads `datasets` "
            "in its place. Leave it away, or make it a domain; where the Trainer wants one (TRL's "
            "SFTTrainer), write before attach: trainer.train_dataset = None"
        )
    parallel = getattr(trainer.accelerator, "parallelism_config", None)
    sizes = {"tensor": "tp_size", "context": "cp_size", "sequence": "sp_size"}
    for kind, size in sizes.items():
        if getattr(parallel, size, 1) > 1:
            raise InputError(
                f"parallelism_config.{size}={getattr(parallel, size)}: processes of {kind} "
                "parallelism see the same rows, but the method would deal each its own: set it to "
                "1, and train with data parallelism (DistributedDataParallel, FSDP2)"
            )


OutputLosses = Callable[[Any, Tensor], Tensor]
"""The loss of each of B rows, of the model's outputs and the labels."""

# Of joined rows, made from position_ids: the model makes them again.
PLACES = {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"}


def attach(
    trainer: Trainer,
    method: Method | str,
    datasets: Mapping[str, Any],
    *,
    row_losses: OutputLosses | None = None,
    columns: Columns = "same",
    **options: Any,
) -> Mixing:
    """Lets a method choose what a Trainer reads; before `trainer.train()`.

    A batch has per_device_train_batch_size x gradient_accumulation_steps x processes rows. A method
    that weighs losses, or combines gradients, replaces the Trainer's loss in training; one that
    only wants to know the losses leaves it as it is. In the first step, the losses of rows are
    compared with the Trainer's own.

    Args:
        trainer: With `max_steps` set: domains are read again and again.
        method: A rule with settings, or the name of one without.
        datasets: By domain; their rows are what `data_collator` takes.
        row_losses: The loss of each row, which is not compared; when absent, `losses_of_outputs`.
        columns: Whether the domains' rows are compared, see `MixedDataset`.
        options: Further arguments of `Mixing`: statistics_micro_batch_rows, excess_fn, ...

    Returns:
        The mixing, whose `weights` and `metrics()` may be looked at.

    Raises:
        InputError: the Trainer's arguments do not fit.
    """
    refuse_unfit_trainer(trainer, datasets)
    if any(isinstance(c, MixingCallback) for c in trainer.callback_handler.callbacks):
        raise InputError("attach: the Trainer has a method already: make a new one for another")
    args = trainer.args
    dataset = MixedDataset(
        datasets,
        args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size,
        seed=args.seed if args.data_seed is None else args.data_seed,
        micro_batch_rows=args.per_device_train_batch_size,
        steps=args.max_steps,
        columns=columns,
    )
    loss_fn = _TrainerRowLosses(trainer, row_losses or losses_of_outputs)
    loading = {
        "num_workers": args.dataloader_num_workers,
        "prefetch_factor": args.dataloader_prefetch_factor,
        "pin_memory": args.dataloader_pin_memory and args.device.type != "cpu",
    }
    mixing = Mixing(
        method,
        dataset,
        loss_fn=loss_fn,
        collate_fn=functools.partial(
            _collate_or_refuse, trainer._get_collator_with_removed_columns(trainer.data_collator)
        ),
        latency=math.ceil(micro_batches_ahead(loading) / args.gradient_accumulation_steps),
        **options,
    )
    loader = mixing.data_loader(**loading)
    trainer.get_train_dataloader = lambda: loader
    # The loader itself begins where the checkpoint ended.
    args.ignore_data_skip = True
    # The Trainer makes a callback anew when it restores it: its class knows the mixing.
    kind = type(MixingCallback.__name__, (MixingCallback,), {"mixing": mixing, "trainer": trainer})
    # First in the row, so that all who report get the weights too.
    trainer.callback_handler.callbacks.insert(0, kind())
    needs = mixing.method.needs()
    if needs.losses or needs.has_extra_passes():
        trainer.training_step = _weighing_or_recording_training_step(
            trainer, mixing, loss_fn, row_losses is None
        )
    return mixing


def _collate_or_refuse(collate: Callable[[list[Any]], Any], given: list[Any]) -> Any:
    """The batch of a Trainer's collator, which may not take the rows."""
    try:
        batch = collate(given)
        if not batch:
            raise ValueError("none is an argument of the model's forward")
    except (KeyError, TypeError, ValueError) as error:
        columns = ", ".join(given[0]) if isinstance(given[0], Mapping) else type(given[0])
        raise InputError(
            f"data_collator does not take rows of {columns}: {type(error).__name__}: {error}. "
            "Give attach rows that are ready for it: tokenized, and packed if you pack"
        ) from error
    return {name: part for name, part in batch.items() if name not in PLACES}


@dataclasses.dataclass(frozen=True)
class _TrainerRowLosses:
    """The losses of a batch's rows, in a pass of the model without labels: a RowLosses."""

    trainer: Trainer
    of_outputs: OutputLosses

    def batch_with_decoder_inputs(self, batch: Rows) -> Rows:
        """The batch with what a decoder reads where it gets no labels, and with the labels.

        Raises:
            InputError: it has no labels.
        """
        if batch.get("labels") is None:
            raise InputError("the batches have no `labels`: let data_collator make them")
        inputs = model_losses.inputs_without_labels(self.trainer.model, batch)
        return inputs | {"labels": batch["labels"]}

    def __call__(self, model: nn.Module, batch: Rows) -> Tensor:
        inputs = self.batch_with_decoder_inputs(batch)
        labels = inputs.pop("labels")
        return self.of_outputs(model(**inputs), labels)

    def refuse_other_losses(self, model: nn.Module, batch: Rows) -> None:
        """Refuses losses of rows that are not the Trainer's own."""
        trainer = self.trainer

        def trainer_loss(model: nn.Module, row: Rows) -> Tensor:
            return trainer.compute_loss(model, dict(row)).reshape(1)

        with trainer.compute_loss_context_manager(), trainer.accelerator.autocast():
            remedy = "attach(row_losses=...), a function of outputs and labels"
            model_losses.refuse_differing_losses(
                model, batch, self, trainer_loss, "by the Trainer", remedy
            )
        # SFTTrainer keeps numbers of every loss for its next evaluation.
        getattr(trainer, "_metrics", {}).get("eval", {}).clear()


def _weighed_loss_function(
    trainer: Trainer, mixing: Mixing, losses: OutputLosses
) -> Callable[..., Tensor]:
    """The Trainer's `compute_loss_func`: the sum of the domains' mean losses by their factors."""

    def weigh(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        result = mixing.weigh(losses(outputs, labels))
        # The Trainer multiplies by the processes where it counts tokens over all of them.
        averages = trainer.args.average_tokens_across_devices and num_items_in_batch is not None
        return result / trainer.args.world_size if averages else result

    return weigh


def _weighing_or_recording_training_step(
    trainer: Trainer, mixing: Mixing, losses: _TrainerRowLosses, compare_losses: bool
) -> Callable[..., Tensor]:
    """The Trainer's `training_step`: the mixing weighs its loss, or gets the losses of its rows."""
    plain, needs = trainer.training_step, mixing.method.needs()

    def weigh_or_record_step(model: nn.Module, inputs: Rows, *args: Any, **kwargs: Any) -> Tensor:
        nonlocal compare_losses
        batch = rows.to_device(inputs, trainer.args.device)
        result: list[Tensor] = []
        if compare_losses:
            losses.refuse_other_losses(model, batch)
            compare_losses = False
        if needs.has_domain_factors():
            # Evaluations keep the Trainer's own loss.
            own = trainer.compute_loss_func
            trainer.compute_loss_func = _weighed_loss_function(trainer, mixing, losses.of_outputs)
            try:
                return plain(model, losses.batch_with_decoder_inputs(batch), *args, **kwargs)
            finally:
                trainer.compute_loss_func = own

        def keep_training_row_losses(module: nn.Module, _: Any, outputs: Any) -> None:
            if module.training and torch.is_grad_enabled() and logits_of(outputs) is not None:
                with torch.no_grad():
                    labels = losses.batch_with_decoder_inputs(batch)["labels"]
                    result[:] = [losses.of_outputs(outputs, labels)]

        if not (needs.losses or needs.losses_after):
            return plain(model, inputs, *args, **kwargs)
        with trainer.model.register_forward_hook(keep_training_row_losses):
            loss = plain(model, inputs, *args, **kwargs)
        # Fused losses leave no logits.
        mixing.record(
            result[0] if result else current_mode_losses_without_trace(model, losses, batch)
        )
        return loss

    return weigh_or_record_step


class MixingCallback(TrainerCallback, ExportableState):  # type: ignore[misc]
    """Tells the method of the Trainer's steps, and keeps its state in the Trainer's checkpoints."""

    mixing: Mixing
    trainer: Trainer

    def state(self) -> dict[str, Any]:
        """What the Trainer writes to `trainer_state.json`."""
        return {"args": {}, "attributes": {"saved": self.mixing.state_dict()}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Goes on from the checkpoint's state.

        Raises:
            InputError: the checkpoint was made without this callback, or `max_steps` changed.
        """
        if state.max_steps != self.mixing.dataset.steps:
            raise InputError(
                f"max_steps: {state.max_steps}, but attach found {self.mixing.dataset.steps}: set "
                "it before"
            )
        # With its DistributedDataParallel, which must not reduce what is measured.
        self.mixing.model = self.trainer.model_wrapped
        if state.global_step == self.mixing.step:
            return
        if not state.global_step:
            raise InputError(
                f"train: the Trainer begins at step 0, but the mixing stands at step "
                f"{self.mixing.step}, where a training before it ended: make a new Trainer for "
                "each training, with the same model if it is to go on, and attach the method to it"
            )
        saved = state.stateful_callbacks.get("MixingCallback", {})
        saved = saved.get("attributes", {}).get("saved")
        if not isinstance(saved, Mapping) or saved.get("step") != state.global_step:
            raise InputError(
                f"resume_from_checkpoint: the Trainer goes on at step {state.global_step}, but the "
                "checkpoint holds no state of the mixing of that step: attach the method before "
                "the first step of a training, and to a new Trainer for each"
            )
        self.mixing.load_state_dict(saved)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The method observes the step."""
        self.mixing.end_step()

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, float], **_: Any
    ) -> None:
        """Warns of domains that get worse, with `eval_dataset` a dictionary by domain."""
        names = {f"eval_{domain}_loss": domain for domain in self.mixing.dataset.domains}
        self.mixing.check_validation_losses(
            {names[n]: loss for n, loss in metrics.items() if n in names}
        )

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Adds weights, counts, losses and statistics to what the Trainer logs of the training."""
        if logs is not None and "loss" in logs:
            logs |= self.mixing.metrics()
            state.log_history[-1] |= self.mixing.metrics()
