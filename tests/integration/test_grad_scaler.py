"""Losses scaled for float16: what a rule measures is not scaled."""

import pytest
import torch
from torch import nn

from pike_mixing import PiKE
from pike_mixing.torch import MixedDataset, Mixing

SCALE = 2.0**12


def losses(model, rows):
    return model(rows).square().mean(dim=1)


def trained(batch, scaler):
    """Weights after each step, and the model, of a training with or without a scaled loss."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    rows = {name: list(torch.randn(16, 4) + shift) for name, shift in {"a": 0.0, "b": 1.0}.items()}
    method = PiKE(zeta1=0.5, zeta2=0.01, every=2, rows=4, batch=batch)
    mixing = Mixing(method, MixedDataset(rows, 8, steps=6), model, losses)
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.1), []
    for rows_B in mixing.data_loader():
        scaler.scale(mixing.loss(model, rows_B)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        mixing.end_step()
        seen.append(mixing.metrics())
    return seen, model.weight.detach()


@pytest.mark.parametrize("batch", ["fresh", "training"])
def test_statistics_and_weights_are_those_without_a_scaler(batch):
    scaled = trained(batch, torch.amp.GradScaler("cpu", init_scale=SCALE))
    plain = trained(batch, torch.amp.GradScaler("cpu", enabled=False))
    # A power of two changes no digit.
    assert scaled[0] == plain[0]
    assert torch.equal(scaled[1], plain[1])
    assert scaled[0][-1]["mixing/variance/b"] > 0
    assert len({step["mixing/weight/b"] for step in scaled[0]}) > 1
