"""Which Trainers of transformers, and of TRL, a mixing method fits."""

from collections.abc import Mapping
from typing import Any

from pike_mixing.errors import InputError

OF_OTHER_LOSSES = (
    *("DPOTrainer", "KTOTrainer", "RewardTrainer", "GRPOTrainer", "RLOOTrainer"),
    "DistillationTrainer",
)
"""Trainers of TRL whose loss is none of a row's labels."""


def refuse_unfit(trainer: Any, datasets: Mapping[str, Any]) -> None:
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
