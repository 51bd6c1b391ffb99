"""Log-likelihoods of continuations, for requests of any lengths.

Shapes: B requests of a batch, L tokens of the longest less one, D model width, N scored tokens.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.evaluation.uncertainty import Floats
from pipeline.model import Transformer

LOGITS_AT_ONCE = 2**24
"""Logits are made for so many (token, piece) pairs at a time: 64 MiB in float32."""

Request = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""A prefix of at least one token and the continuation that is scored behind it."""


def log_likelihoods(
    model: Transformer, requests: Sequence[Request], *, batch_tokens: int, device: torch.device
) -> Floats:
    """Nats of log p(continuation | prefix) of each request.

    Requests are batched by length under a budget of tokens and padded on the right, which a
    causal model does not see: values do not depend on what else is in the batch, except for the
    last bits of float32. Logits are computed for scored positions only.
    """
    values = np.empty(len(requests))
    with torch.inference_mode():
        for batch in _batches([len(p) + len(c) - 1 for p, c in requests], batch_tokens):
            values[batch] = _scored(model, [requests[i] for i in batch], device)
    return values


def _batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices of requests, longest first, so many that padded they keep within the budget."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _scored(model: Transformer, requests: Sequence[Request], device: torch.device) -> Floats:
    width = max(len(prefix) + len(continuation) for prefix, continuation in requests)
    tokens_BxL1 = np.zeros((len(requests), width), np.int64)
    scored_BxL1 = np.zeros((len(requests), width), bool)
    for row, (prefix, continuation) in enumerate(requests):
        stop = len(prefix) + len(continuation)
        tokens_BxL1[row, : len(prefix)] = prefix
        tokens_BxL1[row, len(prefix) : stop] = continuation
        scored_BxL1[row, len(prefix) : stop] = True
    tokens = torch.from_numpy(tokens_BxL1).to(device)
    scored_BxL = torch.from_numpy(scored_BxL1[:, 1:]).to(device)
    hidden_NxD = model.hidden(tokens[:, :-1])[scored_BxL]
    nll_N = _losses(model, hidden_NxD, tokens[:, 1:][scored_BxL]).cpu().numpy()
    row_N = np.nonzero(scored_BxL1)[0]
    sum_B = np.bincount(row_N, nll_N.astype(np.float64), minlength=len(requests))
    return -sum_B.astype(np.float64)


def _losses(model: Transformer, hidden_NxD: Tensor, target_N: Tensor) -> Tensor:
    weight_VxD = model.embedding.weight
    rows = max(1, LOGITS_AT_ONCE // weight_VxD.shape[0])
    parts = zip(hidden_NxD.split(rows), target_N.split(rows), strict=True)
    return torch.cat(
        [F.cross_entropy((h @ weight_VxD.T).float(), t, reduction="none") for h, t in parts]
    )
