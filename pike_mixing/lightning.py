"""A mixing method in a `Trainer` of Lightning.

    mixing = Mixing(method, dataset, loss_fn=row_losses)
    trainer = Trainer(max_steps=1000, callbacks=[MixingCallback(mixing)])
    trainer.fit(module, datamodule=MixingDataModule(mixing))

The module's `training_step` returns `mixing_loss(self, mixing, losses)`, given a loss of each row.
"""

import math
from typing import Any

from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from torch import Tensor

from pike_mixing.errors import InputError
from pike_mixing.torch import MixedDataset, Mixing
from pike_mixing.torch.mixed_loader import MixedLoader


class MixingDataModule(LightningDataModule):  # type: ignore[misc]
    """The training batches of a mixing."""

    def __init__(self, mixing: Mixing, **options: Any) -> None:
        """Takes the options of `Mixing.data_loader`: num_workers, pin_memory, ...."""
        super().__init__()
        self._mixing, self._options = mixing, options

    def train_dataloader(self) -> MixedLoader:
        """Micro-batches, drawn when they are needed.

        Raises:
            InputError: the steps of the data set are not limited.
        """
        if self._mixing.dataset.steps is None:
            raise InputError(
                "steps: give MixedDataset the steps of the training: Lightning draws ahead from a "
                "loader without length"
            )
        return self._mixing.data_loader(**self._options)


class MixingCallback(Callback):  # type: ignore[misc]
    """Tells the method of the Trainer's steps, and keeps its state in the Trainer's checkpoints."""

    def __init__(self, mixing: Mixing) -> None:
        """The mixing may have no model yet: it measures the module."""
        self.mixing = mixing

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Takes the module as the model that is measured.

        Raises:
            InputError: the Trainer's steps are not those of the data set, or of the checkpoint.
        """
        # With its DistributedDataParallel, which must not reduce what is measured.
        self.mixing.model = trainer.strategy.model
        given, wanted = trainer.accumulate_grad_batches, self.mixing.dataset.micro_batches
        # A module that steps its optimizers itself accumulates itself, too.
        if given != wanted and pl_module.automatic_optimization:
            raise InputError(
                f"accumulate_grad_batches: {given}, but a step has {wanted} micro-batches of "
                f"{self.mixing.dataset.micro_batch_rows} rows: set it to {wanted}"
            )
        if bool(trainer.global_step) != bool(self.mixing.step):
            raise InputError(
                f"the Trainer begins at step {trainer.global_step}, the mixing at "
                f"{self.mixing.step}: give MixingCallback to the training that writes the "
                "checkpoint, and a new Mixing to each training"
            )
        if self.mixing.dataset.steps is not None:
            _refuse_unservable_steps(trainer, self.mixing.dataset)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """After the last micro-batch of a step, the method observes it."""
        if (batch_idx + 1) % self.mixing.dataset.micro_batches == 0:
            self.mixing.end_step()
            pl_module.log_dict(self.mixing.metrics())

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Warns of domains that get worse, where the module logs `val_loss/<domain>`."""
        if trainer.sanity_checking:
            return
        names = {f"val_loss/{domain}": domain for domain in self.mixing.dataset.domains}
        metrics = trainer.callback_metrics
        self.mixing.check_validation_losses(
            {names[n]: float(metrics[n]) for n in names if n in metrics}
        )

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of the mixing."""
        return self.mixing.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a checkpoint."""
        self.mixing.load_state_dict(state_dict)


def _refuse_unservable_steps(trainer: Trainer, dataset: MixedDataset) -> None:
    batches, in_step, steps = trainer.num_training_batches, dataset.micro_batches, dataset.steps
    if batches % in_step:
        raise InputError(
            f"limit_train_batches: an epoch of {batches} batches ends within a step of {in_step}: "
            "make it a multiple"
        )
    name, wanted = "max_steps", trainer.max_steps
    if wanted == -1:
        epochs = math.inf if trainer.max_epochs == -1 else trainer.max_epochs
        name, wanted = "max_epochs", epochs * (batches // in_step)
    # Without automatic optimization, steps of several optimizers count each.
    if wanted > steps and trainer.lightning_module.automatic_optimization:
        raise InputError(
            f"{name}: the Trainer wants {wanted} steps, but MixedDataset ends after {steps}, those "
            f"of all epochs together: set max_steps={steps}, or give it more steps"
        )


def mixing_loss(module: LightningModule, mixing: Mixing, loss_B: Tensor) -> Tensor:
    """What `training_step` returns of the losses of the batch's rows.

    Lightning divides by `accumulate_grad_batches`; the parts of the micro-batches add up already.

    Args:
        module: The LightningModule in training.
        mixing: Its mixing.
        loss_B: Loss of each row of the batch, nats.
    """
    return mixing.weigh(loss_B) * module.trainer.accumulate_grad_batches
