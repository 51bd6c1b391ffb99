"""The chunked loss and its products, against plain logits, cross-entropy and float64."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pike_mixing.torch import chunked_loss
from pike_mixing.torch.losses import losses_of_logits


def drawn(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def problem(N, D, V, dtype=torch.float64, seed=0):
    """Hidden states, an embedding, targets, and a weight for each token."""
    target = torch.randint(V, (N,), generator=torch.Generator().manual_seed(seed))
    factors = (drawn(rows, D, dtype=dtype, seed=seed) for rows in (N, V))
    return *factors, target, drawn(N, dtype=dtype, seed=seed).detach()


def plain(hidden, embedding, target, weight):
    nll = F.cross_entropy(hidden @ embedding.T, target, reduction="none")
    return (nll * weight).sum(), nll


def small_chunks(monkeypatch, rows):
    monkeypatch.setattr(chunked_loss, "tokens_per_chunk", lambda N, V: rows)


def test_a_batch_without_rows_has_a_gradient_without_rows():
    logits = torch.zeros(0, 3, 5, requires_grad=True)
    losses_of_logits(logits, torch.zeros(0, 3, dtype=torch.int64)).sum().backward()
    assert logits.grad.shape == (0, 3, 5)


@pytest.mark.parametrize(
    ("N", "rows", "block"),
    # Of 8 tokens in threes and a width of 5, the logits of five lie where the gradient is to be.
    [(7, 1, 999), (7, 7, 999), (7, 20, 999), (5, 2, 1), (5, 2, 999), (8, 3, 20)],
)
def test_loss_and_gradients_are_those_of_plain_logits(monkeypatch, N, rows, block):
    small_chunks(monkeypatch, rows)
    monkeypatch.setattr(chunked_loss, "BLOCK_NUMBERS", block)
    hidden, embedding, target, weight = problem(N, 5, 11)
    # Two tokens with one target, and the first and the last of the vocabulary.
    target[:4] = torch.tensor([3, 3, 0, 10])
    given = (hidden, embedding, target, weight, torch.float64)
    total, nll = chunked_loss.weighted_sum_and_losses(*given)
    expected, expected_nll = plain(hidden, embedding, target, weight)
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(nll, expected_nll.detach(), rtol=1e-12, atol=1e-12)
    alone = chunked_loss.token_cross_entropies(hidden, embedding, target, torch.float64)
    torch.testing.assert_close(alone.double(), nll, rtol=1e-6, atol=1e-6)
    # What comes behind the loss reaches both gradients.
    ours = torch.autograd.grad(3 * total, (hidden, embedding))
    theirs = torch.autograd.grad(3 * expected, (hidden, embedding))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@settings(max_examples=60)
@given(
    st.integers(1, 9),
    st.integers(2, 40),
    st.integers(0, 99),
    st.floats(-80, 80),
    st.sampled_from([1, 9]),
)
def test_large_logits_neither_overflow_nor_lose_the_loss(N, V, seed, shift, rows):
    hidden, embedding, target, weight = problem(N, 3, V, torch.float32, seed)
    with torch.no_grad():
        hidden *= shift
    with pytest.MonkeyPatch.context() as patch:
        # Chunks of one token leave the first three to the gradient's place.
        small_chunks(patch, rows)
        patch.setattr(chunked_loss, "BLOCK_NUMBERS", 20)
        total, nll = chunked_loss.weighted_sum_and_losses(
            hidden, embedding, target, weight, torch.float32
        )
    expected = plain(hidden.double(), embedding.double(), target, weight.double())[1]
    torch.testing.assert_close(nll.double(), expected.detach(), rtol=1e-4, atol=1e-4)
    total.backward()
    assert embedding.grad.isfinite().all()


def test_products_in_bfloat16_are_added_up_in_float32(monkeypatch):
    small_chunks(monkeypatch, 4)
    hidden, embedding, target, _ = problem(64, 16, 40, torch.float32)
    weight = torch.full((64,), 1 / 64)
    total, nll = chunked_loss.weighted_sum_and_losses(
        hidden, embedding, target, weight, torch.bfloat16
    )
    assert (total.dtype, nll.dtype) == (torch.float32, torch.float32)
    expected, _ = plain(hidden, embedding, target, weight)
    assert total.item() == pytest.approx(expected.item(), rel=5e-3)
    ours = torch.autograd.grad(total, (hidden, embedding))
    theirs = torch.autograd.grad(expected, (hidden, embedding))
    assert {gradient.dtype for gradient in ours} == {torch.float32}
    assert all(apart(*pair) < 0.01 for pair in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("threads", [1, 2])
def test_pieces_that_stay_in_a_cache_do_not_change_a_bit(monkeypatch, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    hidden, embedding, target, weight = problem(9, 8, 5000, torch.float32)

    def made(cached):
        monkeypatch.setattr(chunked_loss, "CACHED_LOGITS", cached)
        total, nll = chunked_loss.weighted_sum_and_losses(
            hidden, embedding, target, weight, torch.float32
        )
        return nll, *torch.autograd.grad(total, (hidden, embedding))

    try:
        pairs = zip(made(2**30), made(1), strict=True)
        assert all(torch.equal(*pair) for pair in pairs)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("chips", [1, 2])
@pytest.mark.parametrize("tokens", [4, 12, 99])
def test_rows_on_chips_have_the_losses_and_gradients_of_their_tokens(monkeypatch, chips, tokens):
    """Four rows of five tokens: pieces of one column, of three and two, and of all."""
    small_chunks(monkeypatch, tokens)
    flat, embedding, target, weight = problem(20, 3, 11)
    rows, targets = flat.detach().view(4, 5, 3).requires_grad_(), target.view(4, 5)
    total, nats = chunked_loss.weighted_sum_and_losses(
        rows, embedding, targets, weight.view(4, 5), torch.float64, chips
    )
    alone = chunked_loss.token_cross_entropies(rows, embedding, targets, torch.float64, chips)
    expected, expected_nats = plain(flat, embedding, target, weight)
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(nats.flatten(), expected_nats.detach())
    torch.testing.assert_close(alone.double(), nats, rtol=1e-6, atol=1e-6)
    of_rows, of_embedding = torch.autograd.grad(total, (rows, embedding))
    theirs = torch.autograd.grad(expected, (flat, embedding))
    torch.testing.assert_close((of_rows.view(20, 3), of_embedding), theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_that_are_there_keep_their_losses_and_gradients(monkeypatch, dtype):
    """Seven tokens in pieces of three, one of which is no target."""
    small_chunks(monkeypatch, 3)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 11, generator=generator).to(dtype).requires_grad_()
    target = torch.tensor([0, 10, 3, -100, 5, 5, 1])
    weight = torch.rand(7, generator=generator)
    found = losses_of_logits(logits[:, None], target[:, None], shifted=False)
    expected = F.cross_entropy(logits.float(), target, reduction="none")
    torch.testing.assert_close(found, expected)
    totals = found @ weight, expected @ weight
    ours, theirs = (torch.autograd.grad(t, logits, retain_graph=True)[0] for t in totals)
    assert ours.dtype == dtype
    torch.testing.assert_close(ours, theirs)
    slopes = (torch.autograd.grad(t, logits, create_graph=True)[0] for t in totals)
    ours, theirs = (torch.autograd.grad(slope.norm(), logits)[0] for slope in slopes)
    torch.testing.assert_close(ours, theirs)


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that is made."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        made = [leaf.nbytes for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.bytes = max(self.bytes, *made, 0)
        return out


def test_a_causal_loss_makes_no_float32_copy_of_the_logits():
    ids = torch.randint(512, (16, 512), generator=torch.Generator().manual_seed(0))
    logits = torch.zeros(16, 512, 512, dtype=torch.bfloat16, requires_grad=True)
    with Largest() as largest:
        losses_of_logits(logits, ids).mean().backward()
    assert largest.bytes == logits.nbytes


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-6), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("rows", [20, 33, 96])
def test_the_loss_of_a_gpu_is_that_of_plain_logits(monkeypatch, dtype, error, rows):
    monkeypatch.setattr(
        chunked_loss,
        "compiled_losses_while_writing_gradient",
        lambda: chunked_loss.losses_while_writing_gradient,
    )
    hidden, embedding, target, weight = problem(96, 16, 50, torch.float32)
    with torch.no_grad():
        ours = chunked_loss.fused_losses_and_gradients(
            hidden, embedding, target, weight, dtype, rows
        )
    total, nll = plain(hidden, embedding, target, weight)
    theirs = nll, *torch.autograd.grad(total, (hidden, embedding))
    for mine, their in zip(ours, theirs, strict=True):
        assert mine.dtype == torch.float32
        assert apart(mine, their) <= error


sizes = st.integers(0, 70)


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
    chunked_loss.a_times_b_transposed(a, b).backward(slope)
    (exact[0] @ exact[1].T).backward(slope.double())
    found = chunked_loss.a_times_b_transposed(a, b), a.grad, b.grad
    wanted = exact[0] @ exact[1].T, exact[0].grad, exact[1].grad
    assert all(apart(one, other) < 1e-6 for one, other in zip(found, wanted, strict=True))
    of_columns = chunked_loss.a_transposed_times_b(a.detach(), slope.view(M, N))
    assert apart(of_columns, exact[0].detach().T @ slope.double()) < 1e-6


def test_long_sums_are_float32():
    """Factors rounded to bfloat16 would be 2e-3 apart, to TF32 2e-4."""
    a, b = drawn(48, 20_000).detach(), drawn(32, 20_000).detach()
    assert apart(chunked_loss.a_times_b_transposed(a, b), a.double() @ b.double().T) < 1e-6


@pytest.mark.parametrize(
    "rows_of",
    [
        lambda a: a,
        lambda a: a[0, 0],
        # Every other number, and rows that lie in one place.
        lambda a: a.repeat_interleave(2, dim=-1)[:, ::2, ::2],
        lambda a: a[0, :1].expand(4, 16),
    ],
)
def test_rows_of_any_dimensions_and_strides_are_multiplied(rows_of):
    a, b = drawn(3, 5, 16), drawn(7, 16)
    found, wanted = chunked_loss.a_times_b_transposed(rows_of(a), b), F.linear(rows_of(a), b)
    assert apart(found, wanted) < 1e-6
    ours, theirs = (torch.autograd.grad(product.sum(), (a, b)) for product in (found, wanted))
    assert all(apart(*pair) < 1e-6 for pair in zip(ours, theirs, strict=True))


def test_a_gradient_is_differentiated_like_that_of_torch():
    a, b = drawn(3, 16), drawn(7, 16)

    def penalty(product):
        (of_a,) = torch.autograd.grad(product(a, b).sum(), a, create_graph=True)
        return torch.autograd.grad(of_a.norm(), b)[0]

    assert apart(penalty(chunked_loss.a_times_b_transposed), penalty(F.linear)) < 1e-6


@pytest.mark.parametrize("why", ["float64", "bfloat16", "autocast", "meta"])
def test_other_numbers_and_devices_have_the_products_of_torch(why):
    dtype = {"float64": torch.float64, "bfloat16": torch.bfloat16}.get(why, torch.float32)
    a, b = (drawn(*shape, dtype=dtype).detach() for shape in ((6, 8), (4, 8)))
    if why == "meta":
        a, b = a.to("meta"), b.to("meta")
    with torch.autocast("cpu", torch.bfloat16, enabled=why == "autocast"):
        found, wanted = chunked_loss.a_times_b_transposed(a, b), F.linear(a, b)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert why == "meta" or torch.equal(found, wanted)
