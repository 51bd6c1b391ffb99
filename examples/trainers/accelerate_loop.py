"""Scale-free PiKE in a loop with Accelerate.

    accelerate launch examples/trainers/accelerate_loop.py

The model is a tiny GPT-2 without a download; the domains are made up (`made_up.py`).
"""

import torch
from accelerate import Accelerator
from made_up import domains, tiny_model

from pike_mixing import ScaleFreePiKE
from pike_mixing.torch import MixedDataset, Mixing, causal_losses


def main() -> None:
    """Trains and prints the weights."""
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = tiny_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    rows = 4 * accelerator.gradient_accumulation_steps * accelerator.num_processes
    dataset = MixedDataset(domains(), batch_rows=rows, micro_batch_rows=4, steps=60)
    mixing = Mixing(ScaleFreePiKE(every=5), dataset, model, causal_losses)
    accelerator.register_for_checkpointing(mixing)
    for batch in mixing.data_loader():
        with accelerator.accumulate(model):
            loss = mixing.loss(model, batch)
            # Accelerate divides by this number; our losses are parts of a sum already.
            accelerator.backward(loss * accelerator.gradient_accumulation_steps)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            mixing.end_step()
    accelerator.print(*(f"{domain} {weight:.3f}" for domain, weight in mixing.weights.items()))


if __name__ == "__main__":
    main()
