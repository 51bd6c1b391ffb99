"""Lightning's Trainer, one step at a time; it needs the extra `[bench]`."""

import logging
from collections.abc import Callable
from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from benchmarks.by_transformers import gpt2_model
from benchmarks.trainers import CLIP, DECAY, RATE, Endless, Loop, Size, Trainer
from pipeline.model.transformer import parameter_count


class _Module(lightning.LightningModule):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def training_step(self, batch: dict[str, Tensor], _: int) -> Tensor:
        return self.net(**batch).loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=RATE, weight_decay=DECAY)


class _Pauses(lightning.Callback):
    def __init__(self, pause: Callable[[], None]) -> None:
        self._pause = pause

    def on_train_batch_start(self, *_: Any) -> None:
        self._pause()


def gpt2(size: Size, tokens_BxL1: Tensor) -> Trainer:
    """GPT-2 of transformers in Lightning's Trainer, without logs and checkpoints."""
    net = gpt2_model(size).train()
    rows = DataLoader(Endless(tokens_BxL1[:, :-1]), batch_size=size.rows)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    def run(pause: Callable[[], None]) -> None:
        lightning.Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=1,
            gradient_clip_val=CLIP,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[_Pauses(pause)],
        ).fit(_Module(net), rows)

    return Trainer(Loop(run).step, parameter_count(net))
