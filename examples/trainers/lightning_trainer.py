"""Scale-free PiKE in the Trainer of Lightning.

    python examples/trainers/lightning_trainer.py

The model is a tiny GPT-2 without a download; the domains are made up.
"""

import torch
from lightning.pytorch import LightningModule, Trainer
from transformers import GPT2Config, GPT2LMHeadModel

from pike_mixing import ScaleFreePiKE
from pike_mixing.lightning import MixingCallback, MixingDataModule, mixing_loss
from pike_mixing.torch import MixedDataset, Mixing, causal_losses


def domains():
    """Rows of two domains: numbers that count up, and one number alone."""
    draw = torch.Generator().manual_seed(0)
    counting = (torch.randint(8, (96, 1), generator=draw) + torch.arange(16)) % 8
    alone = torch.full((64, 16), 8)
    texts = {"counting": counting, "alone": alone}
    return {n: [{"input_ids": t, "labels": t} for t in rows] for n, rows in texts.items()}


def tiny_model():
    """A GPT-2 of two layers."""
    torch.manual_seed(0)
    shape = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16}
    return GPT2LMHeadModel(GPT2Config(vocab_size=16, bos_token_id=0, eos_token_id=0, **shape))


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
    dataset = MixedDataset(domains(), batch_rows=8, micro_batch=4, steps=60)
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
