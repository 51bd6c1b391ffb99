"""Perplexity of a domain on packed validation windows, kept by document.

Windows are rows as in training: L inputs, L targets, not overlapping, whatever documents they
cross. The first tokens of a window have little context, so a sliding window would give values 2
to 3 % lower: the two must not be compared.

Shapes: R windows, L tokens each, G documents with scored tokens, N = R * L of them.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from pike_mixing.arrays import Array, Floats, Ints
from pike_mixing.comparison.multiple_choice import clustered_mean
from pipeline.data.shards import Corpus
from pipeline.model.transformer import Transformer, token_losses
from pipeline.runtime import devices, xla_chips


@dataclass(frozen=True)
class Windows:
    """What is scored of one domain: the same for every model of one tokenizer and length."""

    tokens_RxL1: Ints
    documents: list[str]
    """Hash of each document, 16 hex digits; documents of equal text count as one."""
    place_N: Ints
    """Index into `documents` of each scored token's document, windows in order."""
    tokens_G: Ints
    """Scored tokens of each document, its EOS included."""
    bytes_G: Ints
    """UTF-8 bytes of each document's text times the share of its tokens that is scored, rounded."""

    def manifest_facts(self) -> dict[str, int]:
        return {"rows": len(self.tokens_RxL1), "documents": len(self.documents)}


@dataclass(frozen=True)
class Perplexity:
    """Loss of one model on one domain."""

    nll: float
    """Mean nats per token."""
    stderr: float | None
    """Standard error of `nll`, clustered by document; None when one document is all there is."""
    perplexity: float
    bits_per_byte: float | None
    """None when the scored documents hold no bytes."""
    tokens: int
    nll_G: Floats
    """Nats summed over each document's scored tokens."""
    nll_N: Array
    """Nats of each scored token."""


def evenly_spread_windows(corpus: Corpus, length: int, at_most: int) -> Windows:
    """Chooses at most `at_most` windows of `length` tokens, spread evenly over the split.

    The first token of the stream is never a target, and what is left behind the last whole
    window is not scored.
    """
    row_R = corpus.evenly_spread_row_numbers(length, at_most)
    target_N = (row_R[:, None] * length + 1 + np.arange(length)).ravel()
    documents = corpus.document_records()
    end_D = np.cumsum(documents["tokens"], dtype=np.int64)
    covered_D, at_N = np.unique(np.searchsorted(end_D, target_N, side="right"), return_inverse=True)
    covered = documents[covered_D]
    share_D = np.bincount(at_N) / covered["tokens"]
    hash_G, place_D = np.unique(covered["hash"], return_inverse=True)
    return Windows(
        tokens_RxL1=corpus.read_rows(row_R, length),
        documents=[f"{text:016x}" for text in hash_G],
        place_N=place_D[at_N],
        tokens_G=np.bincount(place_D[at_N]),
        bytes_G=np.rint(np.bincount(place_D, covered["bytes"] * share_D)).astype(np.int64),
    )


def measure_perplexity(model: Transformer, held_out: Windows, *, batch_tokens: int) -> Perplexity:
    """Scores the windows and sums by document; see `summarise_token_losses` for the definitions."""
    device = model.device
    rows = xla_chips.round_up_rows(
        max(1, batch_tokens // (held_out.tokens_RxL1.shape[1] - 1)), device
    )
    parts = []
    with devices.without_gradients(device):
        for batch in torch.from_numpy(held_out.tokens_RxL1).split(rows):
            R = len(batch)
            if devices.is_xla(device):
                # A batch of another shape would be another program.
                batch = torch.cat([batch, batch[:1].expand(rows - R, -1)])
            nll_BxL = token_losses(model, xla_chips.shard_tensor(batch.to(device)))
            parts.append(devices.fetch_to_host(nll_BxL)[:R].flatten().numpy())
    return summarise_token_losses(np.concatenate(parts), held_out)


def summarise_token_losses(nll_N: Array, held_out: Windows) -> Perplexity:
    """Means and errors from the nats of every scored token; sums are in float64.

    Bits per byte are all nats / ln 2 / bytes. The nats of a document's EOS count, as in training;
    bytes of a document that is scored in part count in proportion to its scored tokens.
    """
    nll_G = np.bincount(held_out.place_N, nll_N.astype(np.float64)).astype(np.float64)
    nll, stderr = clustered_mean(nll_G, held_out.tokens_G)
    size = int(held_out.bytes_G.sum())
    return Perplexity(
        nll=nll,
        stderr=stderr,
        # Past 700 nats float64 has no perplexity; such a model has diverged.
        perplexity=math.exp(nll) if nll < 700 else math.inf,
        bits_per_byte=float(nll_G.sum()) / math.log(2) / size if size else None,
        tokens=len(nll_N),
        nll_G=nll_G,
        nll_N=nll_N,
    )
