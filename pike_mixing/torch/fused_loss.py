"""The chunked loss on a GPU: two passes over logits in the precision of the matrix products.

The first pass reads a chunk's logits and computes their log-sum-exp in float32; the second reads
them once more and overwrites them with their gradient. Both are one compiled function. The matrix
products accumulate directly into the float32 gradient of the embedding, so that no chunk needs a
pass over it.

Shapes: N tokens, n tokens of a chunk, D model width, V vocabulary.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor


def losses_and_gradients(
    hidden_NxD: Tensor,
    embedding_VxD: Tensor,
    target_N: Tensor,
    weight_N: Tensor,
    dtype: torch.dtype,
    chunk_tokens: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The losses, and the gradients of their weighted sum with respect to both arguments.

    Args:
        hidden_NxD: The model's last hidden states.
        embedding_VxD: The embedding.
        target_N: Each next token.
        weight_N: Weight of each token's loss in the sum.
        dtype: What the products are computed in, and what logits are kept in.
        chunk_tokens: Tokens n of a chunk.

    Returns:
        Losses in nats (N), gradients N x D and V x D; all in float32 at least.
    """
    accumulation = torch.promote_types(hidden_NxD.dtype, torch.float32)
    factor_VxD = embedding_VxD.to(dtype)
    gradient_NxD = torch.empty_like(hidden_NxD, dtype=accumulation)
    gradient_VxD = torch.empty_like(embedding_VxD, dtype=accumulation)
    nll_N = hidden_NxD.new_empty(len(target_N), dtype=accumulation)
    losses_of = compiled_losses_to_gradient()
    for begin in range(0, len(target_N), chunk_tokens):
        chunk = slice(begin, begin + chunk_tokens)
        hidden_nxD = hidden_NxD[chunk].to(dtype)
        logits_nxV = hidden_nxD @ factor_VxD.T
        nll_N[chunk] = losses_of(logits_nxV, target_N[chunk], weight_N[chunk])
        add_product(gradient_NxD[chunk], logits_nxV, factor_VxD, accumulate=False)
        add_product(gradient_VxD, logits_nxV.T, hidden_nxD, accumulate=begin > 0)
    return nll_N, gradient_NxD, gradient_VxD


def losses_to_gradient(logits_nxV: Tensor, target_n: Tensor, weight_n: Tensor) -> Tensor:
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
def compiled_losses_to_gradient() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """`losses_to_gradient` as one compiled function for chunks of any number of tokens."""
    return torch.compile(losses_to_gradient, dynamic=True, fullgraph=True)


def add_product(sum_IxJ: Tensor, a: Tensor, b: Tensor, *, accumulate: bool) -> None:
    """Adds A B (I x K, K x J) to what is there, or overwrites it, in the sum's own precision."""
    beta = int(accumulate)
    if a.dtype == sum_IxJ.dtype or sum_IxJ.is_cpu:
        # CUDA alone has matrix products whose results are more precise than their factors.
        torch.addmm(sum_IxJ, a.to(sum_IxJ.dtype), b.to(sum_IxJ.dtype), beta=beta, out=sum_IxJ)
    else:
        torch.addmm(sum_IxJ, a, b, beta=beta, out_dtype=sum_IxJ.dtype, out=sum_IxJ)
