"""A mixing method in a `Trainer` of transformers, or in any class made from it.

    trainer = Trainer(model, args, data_collator=collate)
    attach(trainer, PiKE(zeta1=0.05, zeta2=0.005, every=100), {"en": english, "de": german})
    trainer.train()

The Trainer reads its batches from the domains when it needs them: new weights act at once, or,
with `dataloader_num_workers`, as many steps later as the workers draw ahead. A training goes on
with `trainer.train(resume_from_checkpoint=...)`: the state lies in `trainer_state.json`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState

from pike_mixing.errors import InputError
from pike_mixing.interface import Method
from pike_mixing.torch import MixedDataset, Mixing
from pike_mixing.torch.losses import IGNORED, of_logits
from pike_mixing.torch.rows import Rows

OutputLosses = Callable[[Any, Tensor], Tensor]
"""The loss of each of B rows, of the model's outputs and the labels."""


def attach(
    trainer: Trainer,
    method: Method,
    datasets: Mapping[str, Any],
    *,
    row_losses: OutputLosses | None = None,
    **options: Any,
) -> Mixing:
    """Lets a method choose what a Trainer reads; before `trainer.train()`.

    A batch has per_device_train_batch_size x gradient_accumulation_steps x processes rows. A method
    that weighs losses, or combines gradients, replaces the Trainer's loss; one that only wants to
    know the losses leaves it as it is.

    Args:
        trainer: With `max_steps` set: domains are read again and again.
        method: A rule with settings.
        datasets: By domain; their rows are what `data_collator` takes.
        row_losses: The loss of each row; next tokens of `outputs["logits"]` when absent.
        options: Further arguments of `Mixing`: statistics_micro_batch, rounding, facts.

    Returns:
        The mixing, whose `weights` and `metrics()` may be looked at.

    Raises:
        InputError: the Trainer's arguments do not fit.
    """
    _refuse_unfit(trainer)
    args = trainer.args
    dataset = MixedDataset(
        datasets,
        args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size,
        seed=args.seed if args.data_seed is None else args.data_seed,
        micro_batch=args.per_device_train_batch_size,
        steps=args.max_steps,
    )
    losses = row_losses or (lambda outputs, labels: of_logits(outputs["logits"], labels))

    def loss_fn(model: nn.Module, batch: Rows) -> Tensor:
        inputs = {name: part for name, part in batch.items() if name != "labels"}
        return losses(model(**inputs), batch["labels"])

    workers = args.dataloader_num_workers
    factor = args.dataloader_prefetch_factor or 2
    mixing = Mixing(
        method,
        dataset,
        loss_fn=loss_fn,
        collate_fn=trainer.data_collator,
        latency=math.ceil(workers * factor / args.gradient_accumulation_steps),
        **options,
    )
    loader = mixing.data_loader(
        num_workers=workers,
        prefetch_factor=args.dataloader_prefetch_factor,
        pin_memory=args.dataloader_pin_memory and args.device.type != "cpu",
    )
    trainer.get_train_dataloader = lambda: loader
    # The loader itself begins where the checkpoint ended.
    args.ignore_data_skip = True
    # The Trainer makes a callback anew when it restores it: its class knows the mixing.
    kind = type(MixingCallback.__name__, (MixingCallback,), {"mixing": mixing, "trainer": trainer})
    trainer.add_callback(kind())
    # First in the row, so that all who report get the weights too.
    callbacks = trainer.callback_handler.callbacks
    callbacks.insert(0, callbacks.pop())
    needs = method.needs()
    if needs.gramian or needs.weighs_losses:
        trainer.compute_loss_func = _loss_function(trainer, mixing, losses)
    elif needs.losses or needs.losses_after:
        trainer.model.register_forward_hook(_recorder(mixing, losses), with_kwargs=True)
    return mixing


def _refuse_unfit(trainer: Trainer) -> None:
    args = trainer.args
    if args.max_steps <= 0:
        raise InputError("max_steps: set it: a mixture of domains has no last row")
    if args.auto_find_batch_size:
        raise InputError(
            "auto_find_batch_size: the rows of a step would change under the method: set "
            "per_device_train_batch_size"
        )
    if args.n_gpu > 1:
        raise InputError(
            "one process drives several GPUs (DataParallel): start one for each with torchrun"
        )
    if any(isinstance(c, MixingCallback) for c in trainer.callback_handler.callbacks):
        raise InputError("attach: the Trainer has a method already: make a new one for another")


def _loss_function(trainer: Trainer, mixing: Mixing, losses: OutputLosses) -> Callable[..., Tensor]:
    """The Trainer's `compute_loss_func`: the sum of the domains' mean losses by their factors."""

    def loss(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        if labels is None:
            raise InputError("the batches have no `labels`: let data_collator make them")
        loss_B = losses(outputs, labels)
        if not trainer.model.training:
            tokens_B = (labels[:, 1:] != IGNORED).sum(dim=1).to(loss_B)
            return (loss_B * tokens_B).sum() / tokens_B.sum()
        found = mixing.weigh(loss_B)
        # The Trainer multiplies by the processes where it counts tokens over all of them.
        averages = trainer.args.average_tokens_across_devices and num_items_in_batch is not None
        return found / trainer.args.world_size if averages else found

    return loss


def _recorder(mixing: Mixing, losses: OutputLosses) -> Callable[..., None]:
    """A forward hook that notes the losses of the training's rows; the loss stays the Trainer's."""

    def record(model: nn.Module, args: Any, kwargs: dict[str, Any], outputs: Any) -> None:
        # A pass that measures gives no labels; without any, `end_step` misses the losses.
        labels = kwargs.get("labels")
        if model.training and torch.is_grad_enabled() and labels is not None:
            with torch.no_grad():
                mixing.record(losses(outputs, labels))

    return record


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
            InputError: the checkpoint was made without this callback.
        """
        # With its DistributedDataParallel, which must not reduce what is measured.
        self.mixing.model = self.trainer.model_wrapped
        if state.global_step == self.mixing.step:
            return
        saved = state.stateful_callbacks.get("MixingCallback", {})
        saved = saved.get("attributes", {}).get("saved")
        if saved is None or saved["step"] != state.global_step:
            raise InputError(
                f"resume_from_checkpoint: the Trainer goes on at step {state.global_step}, but the "
                "checkpoint holds no state of the mixing of that step: attach the method before "
                "the first step of a training, and to a new Trainer for each"
            )
        self.mixing.load_state_dict(saved)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The method observes the step."""
        self.mixing.end_step()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Adds weights, counts, losses and statistics to what the Trainer logs of the training."""
        if logs is not None and "loss" in logs:
            logs |= self.mixing.metrics()
            state.log_history[-1] |= self.mixing.metrics()
