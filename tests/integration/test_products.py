"""Products in float32: their values, their gradients, and what computes them."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from pike_mixing.torch import chunked_loss

sizes = st.integers(0, 70)


class Called(TorchDispatchMode):
    """Names of the operations that make products, and their factors."""

    def __init__(self):
        super().__init__()
        self.names, self.factors = set(), []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        if name.startswith(("mkldnn.", "aten.mm", "aten.addmm", "aten.linear", "aten.matmul")):
            self.names.add(name)
            self.factors += args[:2]
        return function(*args, **(kwargs or {}))


def drawn(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).to(dtype).requires_grad_()


def apart(found, wanted):
    """The distance of both, in the length of what is wanted; 0 for what has no numbers."""
    assert found.shape == wanted.shape
    length = float(wanted.detach().norm())
    return float((found - wanted).detach().norm()) / length if length else 0.0


@given(sizes, sizes, sizes)
def test_products_and_their_gradients_are_those_of_float64(M, K, N):
    # No sum of theirs cancels out.
    a, b = (drawn(*shape).detach().abs().requires_grad_() for shape in ((M, K), (N, K)))
    exact = [t.detach().double().requires_grad_() for t in (a, b)]
    slope = torch.arange(M * N).view(M, N) / 100
    chunked_loss.product_of_rows(a, b).backward(slope)
    (exact[0] @ exact[1].T).backward(slope.double())
    found = chunked_loss.product_of_rows(a, b), a.grad, b.grad
    wanted = exact[0] @ exact[1].T, exact[0].grad, exact[1].grad
    assert all(apart(one, other) < 1e-6 for one, other in zip(found, wanted, strict=True))
    of_columns = chunked_loss.product_of_columns(a.detach(), slope.view(M, N))
    assert apart(of_columns, exact[0].detach().T @ slope.double()) < 1e-6


@pytest.mark.parametrize("K", [64, 1024, 20_000])
def test_sums_are_float32_however_long(K):
    """Factors rounded to bfloat16 would be 2e-3 apart, to TF32 2e-4."""
    a, b = drawn(48, K).detach(), drawn(32, K).detach()
    assert apart(chunked_loss.product_of_rows(a, b), a.double() @ b.double().T) < 1e-6


def test_rows_of_any_dimensions_and_strides_are_multiplied():
    a, b = drawn(3, 5, 16), drawn(7, 16)
    assert apart(chunked_loss.product_of_rows(a, b), F.linear(a, b)) < 1e-6
    every_other, same = a.detach()[:, ::2, ::2], a.detach()[0, :1].expand(4, 16)
    assert (
        apart(chunked_loss.product_of_rows(every_other, b[:, :8]), every_other @ b[:, :8].T) < 1e-6
    )
    assert apart(chunked_loss.product_of_rows(same, b), same @ b.T) < 1e-6
    chunked_loss.product_of_rows(a, b).sum().backward()
    assert apart(b.grad, a.detach().sum(dim=(0, 1)).expand(7, 16)) < 1e-6
    (of_row,) = torch.autograd.grad(chunked_loss.product_of_rows(a[0, 0], b).sum(), a)
    assert apart(of_row[0, 0], b.sum(dim=0)) < 1e-6


def test_a_gradient_is_differentiated_like_that_of_torch():
    a, b = drawn(3, 16), drawn(7, 16)

    def penalty(product):
        (of_a,) = torch.autograd.grad(product(a, b).sum(), a, create_graph=True)
        return torch.autograd.grad(of_a.norm(), b)[0]

    assert apart(penalty(chunked_loss.product_of_rows), penalty(F.linear)) < 1e-6


@pytest.mark.parametrize("why", ["float64", "bfloat16", "autocast", "meta"])
def test_other_numbers_and_devices_have_the_products_of_torch(why):
    dtype = {"float64": torch.float64, "bfloat16": torch.bfloat16}.get(why, torch.float32)
    a, b = (drawn(*shape, dtype=dtype).detach() for shape in ((6, 8), (4, 8)))
    if why == "meta":
        a, b = a.to("meta"), b.to("meta")
    with torch.autocast("cpu", torch.bfloat16, enabled=why == "autocast"), Called() as called:
        made = chunked_loss.product_of_rows(a, b)
    assert made.dtype == (torch.bfloat16 if why == "autocast" else dtype)
    assert called.names
    assert not any(name.startswith("mkldnn.") for name in called.names)
