"""Scale-free PiKE in the Trainer of torchtitan.

    torchrun --nproc-per-node 2 examples/trainers/torchtitan_train.py \
        --model.name tiny --model.flavor tiny \
        --training.steps 60 --training.seq_len 16 --training.local_batch_size 4

The model is a tiny Llama; the domains are made up.
"""

import dataclasses

import torch
from torchtitan.models.llama3 import TransformerModelArgs, get_train_spec
from torchtitan.protocols.train_spec import register_train_spec
from torchtitan.train import main

from pike_mixing import ScaleFreePiKE
from pike_mixing.torchtitan import mixing_trainer

TINY = TransformerModelArgs(dim=32, n_layers=2, n_heads=2, vocab_size=16)


def domains(tokenizer, job_config):
    """Rows of two domains: numbers that count up, and one number alone."""
    draw = torch.Generator().manual_seed(0)
    L = job_config.training.seq_len + 1
    counting = (torch.randint(8, (96, 1), generator=draw) + torch.arange(L)) % 8
    alone = torch.full((64, L), 8)
    texts = {"counting": counting, "alone": alone}
    return {n: [({"input": t[:-1]}, t[1:]) for t in rows] for n, rows in texts.items()}


def register_tiny() -> None:
    """A Llama of two layers, without a tokenizer."""
    spec = dataclasses.replace(
        get_train_spec(),
        model_args={"tiny": TINY},
        build_tokenizer_fn=None,
        state_dict_adapter=None,
    )
    register_train_spec("tiny", spec)


if __name__ == "__main__":
    register_tiny()
    main(mixing_trainer(ScaleFreePiKE(every=5), domains))
