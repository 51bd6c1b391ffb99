"""The loss as a GPU makes it: its numbers, and the bytes that it moves, on a CPU."""

import pytest
import torch
import torch.nn.functional as F

from pike_mixing.torch import chunked_loss


def problem(N, D, V):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(N, D, generator=generator)
    embedding = torch.randn(V, D, generator=generator) / D**0.5
    return hidden, embedding, torch.randint(V, (N,), generator=generator), torch.ones(N) / N


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("rows", [20, 33, 96])
def test_losses_and_gradients_are_those_of_plain_logits(monkeypatch, dtype, error, rows):
    monkeypatch.setattr(
        chunked_loss,
        "compiled_losses_while_writing_gradient",
        lambda: chunked_loss.losses_while_writing_gradient,
    )
    hidden, embedding, target, weight = problem(96, 16, 50)
    ours = chunked_loss.fused_losses_and_gradients(hidden, embedding, target, weight, dtype, rows)
    hidden.requires_grad_(), embedding.requires_grad_()
    nll = F.cross_entropy(hidden @ embedding.T, target, reduction="none")
    (nll * weight).sum().backward()
    for mine, theirs in zip(ours, (nll.detach(), hidden.grad, embedding.grad), strict=True):
        assert mine.dtype == torch.float32
        assert (mine - theirs).norm() <= error * theirs.norm()
