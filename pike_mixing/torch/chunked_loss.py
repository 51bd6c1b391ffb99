"""Cross-entropy over a large vocabulary, without the logits of all tokens at once.

Logits are made for some tokens at a time, in float32. For training, their place takes their own
gradient at once: with the weight v_n of each token's loss known beforehand,

    d / d logits_n  sum_n v_n l_n = v_n (softmax(logits_n) - onehot(target_n)),

so that the backward pass has nothing left to do but to hand over what the forward pass made: three
products with the embedding as ever, and no logits kept between them.

A GPU makes two passes over logits in the precision of the products. The first reads a chunk's
logits and computes their log-sum-exp in float32; the second reads them once more and overwrites
them with their gradient. Both are one compiled function. The matrix products accumulate directly
into the float32 gradient of the embedding, so that no chunk needs a pass over it.

On a CPU the logits of the first D tokens need no memory of their own: they lie where the gradient
of the embedding is to be, and block after block of it takes their place. torch gives float32
products to MKL, which computes with AVX2 on processors that are not Intel's. oneDNN is part of
torch, too, and uses AVX-512 wherever it is: 2.0 to 2.6 times as fast on AMD's Zen 5, as fast on
Zen 4, in the same precision. In any other case the products are torch's own.

XLA gets the tokens as B rows of L, and the logits of some columns at a time: rows, which its chips
share, are never cut, and the embedding's gradient is added up over the chips once.

Shapes: N tokens, n tokens of a chunk, D model width, V vocabulary; B rows, L tokens of a row, l of
them, c chips.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PARTS = 16
"""Chunks of a large batch, at most: a sixteenth of the logits is there at a time."""
LEAST_TOKENS, LEAST_LOGITS = 256, 2**20
"""Smaller chunks are slower, on a CPU too. A chunk has both of them if the batch has."""
MOST_LEAST_LOGITS = 22 * 10**6
"""Beyond, chunks have fewer tokens: 88 MB."""
CACHED_LOGITS = 2**17
"""Logits that stay in a CPU core's cache while they are turned into their gradient: 512 KiB."""
BLOCK_NUMBERS = 2**20
"""Of the embedding's gradient, made at a time; of logits that lie where it is to be: 4 MiB."""


def tokens_per_chunk(N: int, V: int) -> int:
    """Tokens whose logits are made at a time: 512 for V = 2048, 256 for 32,000, 87 for 250,112.

    A sixteenth of the batch where that is more.
    """
    least = max(LEAST_LOGITS // V, min(LEAST_TOKENS, MOST_LEAST_LOGITS // V))
    return max(1, least, -(-N // PARTS))


def token_cross_entropies(
    hidden_NxD: Tensor,
    embedding_VxD: Tensor,
    target_N: Tensor,
    dtype: torch.dtype,
    xla_chips: int = 1,
) -> Tensor:
    """Loss of each token (N), nats in float32; of B x L x D hidden states on XLA, B x L losses."""
    if hidden_NxD.ndim == 3:
        # Nobody reads the gradients, so that XLA does not make them.
        no_weight = torch.zeros_like(target_N, dtype=torch.float32)
        return _losses_and_gradients_on_xla_chips(
            hidden_NxD, embedding_VxD, target_N, no_weight, dtype, xla_chips
        )[0]
    rows, factor_VxD = tokens_per_chunk(len(target_N), len(embedding_VxD)), embedding_VxD.to(dtype)
    pieces = zip(hidden_NxD.to(dtype).split(rows), target_N.split(rows), strict=True)
    result = [
        F.cross_entropy(a_times_b_transposed(hidden, factor_VxD).float(), target, reduction="none")
        for hidden, target in pieces
    ]
    return torch.cat(result)


def weighted_sum_and_losses(
    hidden_NxD: Tensor,
    embedding_VxD: Tensor,
    target_N: Tensor,
    weight_N: Tensor,
    dtype: torch.dtype,
    xla_chips: int = 1,
) -> tuple[Tensor, Tensor]:
    """The weighted sum of the tokens' losses, to be differentiated once, and the losses (N), nats.

    Products are computed in `dtype`, sums in float32 at least. `xla_chips` share B rows: XLA's
    hidden states are B x L x D, its losses B x L.
    """
    result: tuple[Tensor, Tensor] = _WeightedLoss.apply(  # type: ignore[no-untyped-call]
        hidden_NxD, embedding_VxD, target_N, weight_N, dtype, xla_chips
    )
    return result


class _WeightedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_NxD: Tensor,
        embedding_VxD: Tensor,
        target_N: Tensor,
        weight_N: Tensor,
        dtype: torch.dtype,
        xla_chips: int,
    ) -> tuple[Tensor, Tensor]:
        given = (hidden_NxD, embedding_VxD, target_N, weight_N, dtype)
        nll_N, *made = (
            _losses_and_gradients_on_xla_chips(*given, xla_chips)
            if hidden_NxD.ndim == 3
            else _losses_and_gradients(*given)
        )
        # Not among the saved tensors: the backward pass gives them away.
        ctx.made = made[0].to(hidden_NxD.dtype), made[1].to(embedding_VxD.dtype)
        ctx.mark_non_differentiable(nll_N)
        return (nll_N * weight_N).sum(), nll_N

    @staticmethod
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        assert ctx.made is not None, "the loss was differentiated before"
        assert not torch.is_grad_enabled(), "this gradient cannot be differentiated"
        of_hidden_NxD, of_embedding_VxD = ctx.made
        ctx.made = None
        # Where the sum is what is differentiated, as ever, a CPU need not pass over both for it.
        if not (slope.is_cpu and slope == 1):
            of_hidden_NxD.mul_(slope)
            of_embedding_VxD.mul_(slope)
        return of_hidden_NxD, of_embedding_VxD, None, None, None, None


def _losses_and_gradients(
    hidden_NxD: Tensor,
    embedding_VxD: Tensor,
    target_N: Tensor,
    weight_N: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """The losses, and the gradients of their weighted sum by both factors of the logits."""
    exact = torch.promote_types(hidden_NxD.dtype, torch.float32)
    rows = tokens_per_chunk(len(target_N), len(embedding_VxD))
    if not hidden_NxD.is_cpu:
        return fused_losses_and_gradients(
            hidden_NxD, embedding_VxD, target_N, weight_N.to(exact), dtype, rows
        )
    factor_VxD = embedding_VxD.to(dtype)
    of_hidden_NxD = torch.empty_like(hidden_NxD, dtype=exact)
    of_embedding_VxD = torch.empty_like(embedding_VxD, dtype=exact)
    nll_N = hidden_NxD.new_empty(len(target_N), dtype=exact)
    first = min(hidden_NxD.shape) if dtype == exact else 0
    # Smaller than a chunk it would be slower than one.
    first = first if first > rows else 0
    if first:
        nll_N[:first] = _overwrite_gradients_and_return_losses(
            hidden_NxD[:first].to(dtype),
            factor_VxD,
            target_N[:first],
            weight_N[:first],
            of_hidden_NxD[:first],
            of_embedding_VxD,
        )
    else:
        of_embedding_VxD.zero_()
    height = max(1, BLOCK_NUMBERS // embedding_VxD.shape[1])
    for begin in range(first, len(target_N), rows):
        piece = slice(begin, begin + rows)
        hidden_nxD = hidden_NxD[piece].to(dtype)
        logits_nxV = a_times_b_transposed(hidden_nxD, factor_VxD).to(exact)
        nll_N[piece] = _losses_while_writing_gradient(
            logits_nxV, target_N[piece, None], weight_N[piece, None]
        )
        slope_nxV = logits_nxV.to(dtype)
        of_hidden_NxD[piece] = a_times_b_transposed(slope_nxV, factor_VxD.T)
        for low in range(0, len(factor_VxD), height):
            block = slice(low, low + height)
            of_embedding_VxD[block] += a_transposed_times_b(slope_nxV[:, block], hidden_nxD)
        # Before the next chunk has its own.
        del logits_nxV, slope_nxV
    return nll_N, of_hidden_NxD, of_embedding_VxD


def _losses_and_gradients_on_xla_chips(
    hidden_BxLxD: Tensor,
    embedding_VxD: Tensor,
    target_BxL: Tensor,
    weight_BxL: Tensor,
    dtype: torch.dtype,
    xla_chips: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of whole rows on chips that share them; each keeps its own sum to the end."""
    (B, L, _), V, c = hidden_BxLxD.shape, len(embedding_VxD), xla_chips
    factor_VxD, every_V = embedding_VxD.to(dtype), torch.arange(V, device=embedding_VxD.device)
    of_embedding_cxVxD = embedding_VxD.new_zeros(c, *embedding_VxD.shape)
    nll, of_hidden = [], []
    columns = max(1, tokens_per_chunk(B * L, V) // B)
    pieces = zip(
        *(t.split(columns, dim=1) for t in (hidden_BxLxD.to(dtype), target_BxL, weight_BxL)),
        strict=True,
    )
    for hidden_BxlxD, target_Bxl, weight_Bxl in pieces:
        logits_BxlxV = (hidden_BxlxD @ factor_VxD.T).to(weight_BxL.dtype)
        log_p_BxlxV = logits_BxlxV - logits_BxlxV.logsumexp(dim=-1, keepdim=True)
        # A comparison stays with its row, where a look-up would gather the rows of all chips.
        hit_BxlxV = (target_Bxl[..., None] == every_V).to(weight_BxL.dtype)
        nll.append(-(log_p_BxlxV * hit_BxlxV).sum(dim=-1))
        slope_BxlxV = (weight_Bxl[..., None] * (log_p_BxlxV.exp() - hit_BxlxV)).to(dtype)
        of_hidden.append(slope_BxlxV @ factor_VxD)
        by_chip = (t.reshape(c, -1, t.shape[-1]) for t in (slope_BxlxV, hidden_BxlxD))
        of_embedding_cxVxD += torch.einsum("cnv,cnd->cvd", *by_chip)
    return torch.cat(nll, dim=1), torch.cat(of_hidden, dim=1), of_embedding_cxVxD.sum(dim=0)


def _overwrite_gradients_and_return_losses(
    hidden_nxD: Tensor,
    embedding_VxD: Tensor,
    target_n: Tensor,
    weight_n: Tensor,
    hidden_gradient_out_nxD: Tensor,
    embedding_gradient_out_VxD: Tensor,
) -> Tensor:
    """Writes the gradients of the weighted losses and returns the losses; n is at most D.

    The first pass over blocks of the vocabulary leaves exp(logits - h), h the highest logit of the
    token so far, in the first n of the D numbers that the gradient of a piece's embedding is to
    have; the second makes that gradient of them.
    """
    n, V = len(target_n), len(embedding_VxD)
    height = min(V, max(1, BLOCK_NUMBERS // n))
    blocks = _vocabulary_blocks(target_n, V, height)
    highest_n = embedding_VxD.new_full((n,), -torch.inf)
    sum_n, of_target_n = torch.zeros_like(highest_n), torch.empty_like(highest_n)
    shifts = []
    for block in blocks:
        kept_vxn = embedding_gradient_out_VxD[block.rows, :n]
        logits_vxn = a_times_b_transposed(embedding_VxD[block.rows], hidden_nxD)
        of_target_n[block.tokens] = logits_vxn[block.target_rows, block.tokens]
        before_n, highest_n = highest_n, highest_n.maximum(logits_vxn.amax(dim=0))
        torch.exp(logits_vxn.sub_(highest_n), out=kept_vxn)
        sum_n.mul_((before_n - highest_n).exp_()).add_(kept_vxn.sum(dim=0))
        shifts.append(highest_n)
    log_sum_n = highest_n + sum_n.log()
    hidden_gradient_out_nxD.zero_()
    for (rows, tokens, target_rows), shift_n in zip(blocks, shifts, strict=True):
        kept_vxn, factor_vxD = embedding_gradient_out_VxD[rows, :n], embedding_VxD[rows]
        scale_n = (shift_n - log_sum_n).exp_().mul_(weight_n)
        slope_vxn = kept_vxn * scale_n
        slope_vxn[target_rows, tokens] -= weight_n[tokens]
        hidden_gradient_out_nxD += a_transposed_times_b(slope_vxn, factor_vxD)
        embedding_gradient_out_VxD[rows] = a_times_b_transposed(slope_vxn, hidden_nxD.T)
    return log_sum_n - of_target_n


class _VocabularyBlock(NamedTuple):
    """Some rows of the embedding, and the tokens whose target is one of them."""

    rows: slice
    tokens: Tensor
    """Places of these tokens among the n."""
    target_rows: Tensor
    """Of each of these tokens, the place of its target within the rows."""


def _vocabulary_blocks(target_n: Tensor, V: int, height: int) -> list[_VocabularyBlock]:
    """The vocabulary by `height`."""
    order_n = target_n.argsort()
    begins = range(0, V, height)
    edges = torch.tensor([*begins, V])
    bounds = itertools.pairwise(torch.searchsorted(target_n[order_n], edges).tolist())
    tokens = [order_n[low:high] for low, high in bounds]
    return [
        _VocabularyBlock(slice(begin, begin + height), those, target_n[those] - begin)
        for begin, those in zip(begins, tokens, strict=True)
    ]


def _losses_while_writing_gradient(
    logits_nxV: Tensor, target_nx1: Tensor, weight_nx1: Tensor
) -> Tensor:
    """Puts the gradient of the weighted losses in the logits' place and returns the losses."""
    # Two at least: threads would share a single row, and its sum have another order.
    rows = max(2, torch.get_num_threads() * CACHED_LOGITS // logits_nxV.shape[1])
    pieces = zip(*(t.split(rows) for t in (logits_nxV, target_nx1, weight_nx1)), strict=True)
    return torch.cat([_losses_while_writing_chunk_gradient(*piece) for piece in pieces])


def _losses_while_writing_chunk_gradient(
    logits_nxV: Tensor, target_nx1: Tensor, weight_nx1: Tensor
) -> Tensor:
    highest_nx1 = logits_nxV.amax(dim=1, keepdim=True)
    of_target_nx1 = logits_nxV.gather(1, target_nx1) - highest_nx1
    logits_nxV.sub_(highest_nx1).exp_()
    sum_nx1 = logits_nxV.sum(dim=1, keepdim=True)
    logits_nxV.mul_(weight_nx1 / sum_nx1).scatter_add_(1, target_nx1, -weight_nx1)
    return (sum_nx1.log() - of_target_nx1)[:, 0]


def fused_losses_and_gradients(
    hidden_NxD: Tensor,
    embedding_VxD: Tensor,
    target_N: Tensor,
    weight_N: Tensor,
    dtype: torch.dtype,
    chunk_tokens: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses (N), and gradients N x D and V x D of their weighted sum, all in float32 at least."""
    accumulation = torch.promote_types(hidden_NxD.dtype, torch.float32)
    factor_VxD = embedding_VxD.to(dtype)
    gradient_NxD = torch.empty_like(hidden_NxD, dtype=accumulation)
    gradient_VxD = torch.empty_like(embedding_VxD, dtype=accumulation)
    nll_N = hidden_NxD.new_empty(len(target_N), dtype=accumulation)
    losses_of = compiled_losses_while_writing_gradient()
    for begin in range(0, len(target_N), chunk_tokens):
        chunk = slice(begin, begin + chunk_tokens)
        hidden_nxD = hidden_NxD[chunk].to(dtype)
        logits_nxV = hidden_nxD @ factor_VxD.T
        nll_N[chunk] = losses_of(logits_nxV, target_N[chunk], weight_N[chunk])
        write_product(gradient_NxD[chunk], logits_nxV, factor_VxD, accumulate=False)
        write_product(gradient_VxD, logits_nxV.T, hidden_nxD, accumulate=begin > 0)
    return nll_N, gradient_NxD, gradient_VxD


def losses_while_writing_gradient(logits_nxV: Tensor, target_n: Tensor, weight_n: Tensor) -> Tensor:
    """Puts the gradient of the weighted losses in the logits' place and returns the losses (n)."""
    wide_nxV = logits_nxV.to(weight_n.dtype)
    log_sum_n = wide_nxV.logsumexp(dim=1)
    nll_n = log_sum_n - wide_nxV.gather(1, target_n[:, None])[:, 0]
    # A comparison is fused into the same kernel; a scatter would need a pass of its own.
    is_target_nxV = target_n[:, None] == torch.arange(logits_nxV.shape[1], device=target_n.device)
    probability_nxV = (wide_nxV - log_sum_n[:, None]).exp()
    logits_nxV.copy_(
        weight_n[:, None] * (probability_nxV - is_target_nxV.to(probability_nxV.dtype))
    )
    return nll_n


@functools.cache
def compiled_losses_while_writing_gradient() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """`losses_while_writing_gradient`, compiled once for chunks of any number of tokens."""
    return torch.compile(losses_while_writing_gradient, dynamic=True, fullgraph=True)


def write_product(sum_IxJ: Tensor, a: Tensor, b: Tensor, *, accumulate: bool) -> None:
    """Adds A B (I x K, K x J) to what is there, or overwrites it, in the sum's own precision."""
    beta = int(accumulate)
    if a.dtype == sum_IxJ.dtype or sum_IxJ.is_cpu:
        # CUDA alone has matrix products whose results are more precise than their factors.
        torch.addmm(sum_IxJ, a.to(sum_IxJ.dtype), b.to(sum_IxJ.dtype), beta=beta, out=sum_IxJ)
    else:
        torch.addmm(sum_IxJ, a, b, beta=beta, out_dtype=sum_IxJ.dtype, out=sum_IxJ)


ONEDNN = torch.backends.mkldnn.is_available() and (
    torch.backends.cpu.get_cpu_capability() == "AVX512"
)
"""Whether oneDNN is there and may have instructions that MKL does not use."""


class Linear(nn.Linear):
    """A linear map without bias, y = x W^T."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__(inner, outer, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The map's value; x has any number of dimensions before the last."""
        return a_times_b_transposed(x, self.weight)


def a_times_b_transposed(a_MxK: Tensor, b_NxK: Tensor) -> Tensor:
    """A B^T (M x N); M stands for any number of dimensions, or none."""
    if ONEDNN and _is_float32_matrix_for_onednn(a_MxK) and _is_float32_matrix_for_onednn(b_NxK):
        result: Tensor = _ATimesBTransposed.apply(a_MxK, b_NxK)  # type: ignore[no-untyped-call]
        return result
    return F.linear(a_MxK, b_NxK)


def a_transposed_times_b(a_MxI: Tensor, b_MxJ: Tensor) -> Tensor:
    """A^T B (I x J)."""
    # oneDNN copies its first factor if its rows are no rows of memory: it gets the smaller one.
    if a_MxI.shape[1] <= b_MxJ.shape[1]:
        return a_times_b_transposed(a_MxI.T, b_MxJ.T)
    return a_times_b_transposed(b_MxJ.T, a_MxI.T).T


def _is_float32_matrix_for_onednn(factor: Tensor) -> bool:
    """Whether oneDNN takes it, in float32: it has numbers, on a CPU, and none is to be cast."""
    exact = factor.is_cpu and factor.dtype == torch.float32 and factor.numel() > 0
    return exact and factor.ndim > 1 and not torch.is_autocast_enabled("cpu")


def _a_times_b_transposed_by_onednn(a_MxK: Tensor, b_NxK: Tensor) -> Tensor:
    factors = _contiguous_up_to_transpose(a_MxK), _contiguous_up_to_transpose(b_NxK)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(*factors, None, "none", [], "")
    return result


def _contiguous_up_to_transpose(factor: Tensor) -> Tensor:
    """The factor in one piece of memory; oneDNN takes a hundred times as long for one with gaps."""
    whole = factor.is_contiguous() or factor.mT.is_contiguous()
    return factor if whole else factor.contiguous()


# torch.compile would look into oneDNN's product, and fails where the weights change.
_opaque = torch.library.custom_op(
    "pike_mixing::a_times_b_transposed", _a_times_b_transposed_by_onednn, mutates_args=()
)


@_opaque.register_fake
def _(a_MxK: Tensor, b_NxK: Tensor) -> Tensor:
    return a_MxK.new_empty(*a_MxK.shape[:-1], len(b_NxK))


class _ATimesBTransposed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a_MxK: Tensor, b_NxK: Tensor) -> Tensor:
        ctx.save_for_backward(a_MxK, b_NxK)
        return (
            _opaque(a_MxK, b_NxK)
            if torch.compiler.is_compiling()
            else _a_times_b_transposed_by_onednn(a_MxK, b_NxK)
        )

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a_MxK, b_NxK = ctx.saved_tensors
        of_a = a_times_b_transposed(slope, b_NxK.T) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_a, None
        return of_a, a_transposed_times_b(slope.flatten(0, -2), a_MxK.flatten(0, -2))
