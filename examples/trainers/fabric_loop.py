"""Scale-free PiKE in a loop with Fabric, as litgpt has one.

    python examples/trainers/fabric_loop.py

The model is a tiny GPT-2 without a download; the domains are made up (`made_up.py`).
"""

import torch
from lightning.fabric import Fabric
from made_up import domains, tiny_model

from pike_mixing import ScaleFreePiKE
from pike_mixing.torch import MixedDataset, Mixing, causal_losses


def main() -> None:
    """Trains and prints the weights."""
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    model = tiny_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, optimizer = fabric.setup(model, optimizer)
    dataset = MixedDataset(
        domains(), batch_rows=8 * fabric.world_size, micro_batch_rows=4, steps=60
    )
    mixing = Mixing(ScaleFreePiKE(every=5), dataset, model, causal_losses)
    for batch in mixing.data_loader():
        with fabric.no_backward_sync(model, enabled=not mixing.is_next_micro_batch_last):
            fabric.backward(mixing.loss(model, batch))
        if mixing.is_step_complete:
            optimizer.step()
            optimizer.zero_grad()
            mixing.end_step()
    print(*(f"{domain} {weight:.3f}" for domain, weight in mixing.weights.items()))


if __name__ == "__main__":
    main()
