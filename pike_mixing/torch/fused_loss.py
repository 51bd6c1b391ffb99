"""The chunked loss on a GPU: two passes over logits that stay in the precision of the products.

The first pass reads a chunk's logits and adds them up in float32; the second reads them once more
and writes their gradient in their place. Both are one compiled function. Products are added up in
float32 where they are made, so that a chunk costs no pass over the embedding's gradient.

Shapes: N tokens, n of a chunk, D model width, V vocabulary.
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
    rows: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The losses, and the gradients of their weighted sum by both factors of the logits.

    Args:
        hidden_NxD: The model's last hidden states.
        embedding_VxD: The embedding.
        target_N: Each next token.
        weight_N: Weight of each token's loss in the sum.
        dtype: What the products are computed in, and what logits are kept in.
        rows: Tokens n of a chunk.

    Returns:
        Losses in nats (N), gradients N x D and V x D; all in float32 at least.
    """
    exact = torch.promote_types(hidden_NxD.dtype, torch.float32)
    factor_VxD = embedding_VxD.to(dtype)
    of_hidden_NxD = torch.empty_like(hidden_NxD, dtype=exact)
    of_embedding_VxD = torch.empty_like(embedding_VxD, dtype=exact)
    nll_N = hidden_NxD.new_empty(len(target_N), dtype=exact)
    turn = compiled_turn()
    for begin in range(0, len(target_N), rows):
        piece = slice(begin, begin + rows)
        hidden_nxD = hidden_NxD[piece].to(dtype)
        logits_nxV = hidden_nxD @ factor_VxD.T
        nll_N[piece] = turn(logits_nxV, target_N[piece], weight_N[piece])
        add_product(of_hidden_NxD[piece], logits_nxV, factor_VxD, kept=False)
        add_product(of_embedding_VxD, logits_nxV.T, hidden_nxD, kept=begin > 0)
    return nll_N, of_hidden_NxD, of_embedding_VxD


def turn(logits_nxV: Tensor, target_n: Tensor, weight_n: Tensor) -> Tensor:
    """Puts the gradient of the weighted losses in the logits' place and returns the losses (n).

    Args:
        logits_nxV: The logits of a chunk.
        target_n: Each next token.
        weight_n: Weight of each loss.
    """
    exact_nxV = logits_nxV.to(weight_n.dtype)
    log_sum_n = exact_nxV.logsumexp(dim=1)
    nll_n = log_sum_n - exact_nxV.gather(1, target_n[:, None])[:, 0]
    # A comparison is part of the same pass, where a look-up would be one of its own.
    hit_nxV = target_n[:, None] == torch.arange(logits_nxV.shape[1], device=target_n.device)
    share_nxV = (exact_nxV - log_sum_n[:, None]).exp()
    logits_nxV.copy_(weight_n[:, None] * (share_nxV - hit_nxV.to(share_nxV.dtype)))
    return nll_n


@functools.cache
def compiled_turn() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """`turn` as one compiled function for chunks of any number of tokens."""
    return torch.compile(turn, dynamic=True, fullgraph=True)


def add_product(sum_mxn: Tensor, a: Tensor, b: Tensor, *, kept: bool) -> None:
    """Adds A B to a sum in the sum's own precision.

    Args:
        sum_mxn: The sum, float32 at least.
        a: A, m x k.
        b: B, k x n, of A's precision.
        kept: Whether what is there counts; else A B takes its place.
    """
    beta = 1 if kept else 0
    if a.dtype == sum_mxn.dtype:
        torch.addmm(sum_mxn, a, b, beta=beta, out=sum_mxn)
    elif sum_mxn.is_cpu:
        # Only GPUs have products whose results are more precise than their factors.
        torch.addmm(sum_mxn, a.to(sum_mxn.dtype), b.to(sum_mxn.dtype), beta=beta, out=sum_mxn)
    else:
        torch.addmm(sum_mxn, a, b, beta=beta, out_dtype=sum_mxn.dtype, out=sum_mxn)
