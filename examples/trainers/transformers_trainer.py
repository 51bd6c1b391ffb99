"""Scale-free PiKE in the Trainer of transformers.

    python examples/trainers/transformers_trainer.py

The model is a tiny GPT-2 without a download; the domains are made up.
"""

import tempfile

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

from pike_mixing import ScaleFreePiKE
from pike_mixing.transformers import attach


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


def main() -> None:
    """Trains, and prints the weights that the Trainer logs."""
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            max_steps=60,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            learning_rate=3e-3,
            logging_steps=5,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(tiny_model(), args, data_collator=default_data_collator)
        mixing = attach(trainer, ScaleFreePiKE(every=5), domains())
        trainer.train()
    print(*(f"{domain} {weight:.3f}" for domain, weight in mixing.weights.items()))


if __name__ == "__main__":
    main()
