"""Scale-free PiKE in a loop of one's own, on one process or several.

    torchrun --nproc-per-node 2 examples/trainers/ddp_loop.py

The model is a tiny GPT-2 without a download; the domains are made up (`made_up.py`).
"""

import os

import torch
import torch.distributed as dist
from made_up import domains, tiny_model
from torch.nn.parallel import DistributedDataParallel

from pike_mixing import ScaleFreePiKE
from pike_mixing.torch import MixedDataset, Mixing, causal_losses


def main() -> None:
    """Trains and prints the weights."""
    model = tiny_model()
    if "LOCAL_RANK" in os.environ:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    dataset = MixedDataset(domains(), batch_rows=8, micro_batch_rows=2, steps=60)
    mixing = Mixing(ScaleFreePiKE(every=5), dataset, model, causal_losses)
    for batch in mixing.data_loader():
        mixing.loss(model, batch).backward()
        if mixing.is_step_complete:
            optimizer.step()
            optimizer.zero_grad()
            mixing.end_step()
    print(*(f"{domain} {weight:.3f}" for domain, weight in mixing.weights.items()))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
