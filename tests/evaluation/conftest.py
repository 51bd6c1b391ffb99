"""Small corpora of hand-written tokens, and models of known behaviour."""

import hashlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pipeline.data.corpus_manifest import FORMAT, data_fingerprint, documents_file
from pipeline.data.shards import DOCUMENT, Corpus, ShardWriter
from pipeline.runtime import atomic_files, made_from

EOS = 1


@pytest.fixture
def packed(tmp_path):
    """Writes a corpus of token lists: `packed(validation=[[5, 6], ...])` -> that and training text.

    Its search split is empty.

    A document's text has one byte a token unless `sizes` says otherwise.
    """

    def write(validation, train=((2, 3) * 8,), *, vocabulary=64, sizes=None, shard_tokens=1000):
        folder = tmp_path / f"corpus{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        splits = {}
        for split, documents in (("train", train), ("validation", validation), ("search", ())):
            with ShardWriter(
                folder, split, dtype=np.dtype("<u2"), shard_tokens=shard_tokens
            ) as writer:
                for document in documents:
                    writer.append(np.array([*document, EOS]))
                shards = writer.close()
            table = np.zeros(len(documents), DOCUMENT)
            for row, document in enumerate(documents):
                size = sizes[row] if sizes and split == "validation" else len(document)
                text = hashlib.sha256(np.array(document, "<u2").tobytes()).digest()
                table[row] = (len(document) + 1, size, int.from_bytes(text[:8], "big"))
            np.save(folder / documents_file(split), table)
            splits[split] = {
                "tokens": writer.tokens,
                "documents": len(documents),
                "bytes": int(table["bytes"].sum()),
                "shards": shards,
            }
        made_from.write_manifest(
            folder / atomic_files.MANIFEST,
            stage="pack",
            settings={},
            inputs=[],
            files=sorted(folder.iterdir()),
            modules=[],
            facts={
                "format": FORMAT,
                "source": "by hand",
                "licence": "CC0-1.0",
                "tokenizer": {"sha256": "-", "vocabulary": vocabulary, "eos": EOS},
                "dtype": "uint16",
                "splits": splits,
                "fingerprint": data_fingerprint(
                    "uint16", {split: part["shards"] for split, part in splits.items()}
                ),
            },
        )
        return Corpus.open(folder, "validation"), Corpus.open(folder, "train")

    return write


@pytest.fixture
def finished(make_run, finish_untrained):
    """A run folder with checkpoints of untrained models at steps 0 and 3; `change` edits step 3."""

    def make(*, vocabulary=32, change=None, **changes):
        return finish_untrained(make_run(**changes), vocabulary, change=change)

    return make


class Known(nn.Module):
    """Logits that are a given function of each token, and of all that it sees, itself included.

    Tokens are written as one-hot vectors, what a token sees with a 1 for each symbol: both are
    B x L x V. The embedding is the identity.
    """

    def __init__(self, vocabulary, logits):
        super().__init__()
        self.vocabulary, self.logits = vocabulary, logits
        self.precision = torch.float32
        self.embedding = nn.Embedding.from_pretrained(torch.eye(vocabulary))
        self.device = torch.device("cpu")

    def hidden(self, tokens_BxL, sight=None):
        token_BxLxV = text_BxSxV = self.one_hot(tokens_BxL)
        if sight is None:
            return self.logits(token_BxLxV, token_BxLxV.cummax(dim=1).values)
        if sight.shared is not None:
            before_BxPxV = sight.shared.expand(len(tokens_BxL), -1, -1)
            text_BxSxV = torch.cat([before_BxPxV, token_BxLxV], dim=1)
        seen_BxLxV = (sight.seen_BxLxS.to(text_BxSxV) @ text_BxSxV).clamp(max=1)
        return self.logits(token_BxLxV, seen_BxLxV)

    def forward(self, tokens_BxL):
        return self.hidden(tokens_BxL)

    def prefill_cache(self, tokens_P):
        return self.one_hot(tokens_P[None])

    def one_hot(self, tokens):
        return F.one_hot(tokens, self.vocabulary).to(self.embedding.weight.dtype)


@pytest.fixture
def constant():
    """Gives every token the same logit."""
    return Known(64, lambda token_BxLxV, seen_BxLxV: 0 * token_BxLxV)


@pytest.fixture
def copier():
    """Expects the tokens that have occurred."""
    return Known(64, lambda token_BxLxV, seen_BxLxV: 5 * seen_BxLxV)


@pytest.fixture
def counter():
    """Expects n + 1 after n."""
    return Known(64, lambda token_BxLxV, seen_BxLxV: 5 * token_BxLxV.roll(1, dims=-1))
