"""Scale-free PiKE in the Trainer of Lightning.

    python examples/trainers/lightning_trainer.py

The model is a tiny GPT-2 without a download; the domains are made up (`made_up.py`).
"""

import torch
from lightning.pytorch import LightningModule, Trainer
from made_up import domains, tiny_model

from pike_mixing import ScaleFreePiKE
from pike_mixing.lightning import MixingCallback, MixingDataModule, mixing_loss
from pike_mixing.torch import MixedDataset, Mixing, causal_losses


class LanguageModel(LightningModule):
    """The model and its loss."""

    def __init__(self, mixing: Mixing) -> None:
        super().__init__()
        self.model, self.mixing = tiny_model(), mixing

    def forward(self, **batch):
        """The model's own."""
        return self.model(**batch)

    def training_step(self, batch, index):
        """The loss of each row, which the mixing adds up."""
        return mixing_loss(self, self.mixing, causal_losses(self, batch))

    def configure_optimizers(self):
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main() -> None:
    """Trains and prints the weights."""
    dataset = MixedDataset(domains(), batch_rows=8, micro_batch_rows=4, steps=60)
    mixing = Mixing(ScaleFreePiKE(every=5), dataset, loss_fn=causal_losses)
    trainer = Trainer(
        max_steps=60,
        accumulate_grad_batches=2,
        callbacks=[MixingCallback(mixing)],
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(LanguageModel(mixing), datamodule=MixingDataModule(mixing))
    print(*(f"{domain} {weight:.3f}" for domain, weight in mixing.weights.items()))


if __name__ == "__main__":
    main()
