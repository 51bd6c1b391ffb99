"""Scale-free PiKE in a loop with Fabric, as litgpt has one.

    python examples/trainers/fabric_loop.py

The model is a tiny GPT-2 without a download; the domains are made up.
"""

import torch
from lightning.fabric import Fabric
from transformers import GPT2Config, GPT2LMHeadModel

from pike_mixing import ScaleFreePiKE
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


def main() -> None:
    """Trains and prints the weights."""
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    model = tiny_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, optimizer = fabric.setup(model, optimizer)
    dataset = MixedDataset(domains(), batch_rows=8 * fabric.world_size, micro_batch=4, steps=60)
    mixing = Mixing(ScaleFreePiKE(every=5), dataset, model, causal_losses)
    for batch in mixing.data_loader():
        with fabric.no_backward_sync(model, enabled=not mixing.last):
            fabric.backward(mixing.loss(model, batch))
        if mixing.complete:
            optimizer.step()
            optimizer.zero_grad()
            mixing.end_step()
    print(*(f"{domain} {weight:.3f}" for domain, weight in mixing.weights.items()))


if __name__ == "__main__":
    main()
