"""Small corpora of hand-written tokens, and models of known behaviour."""

import hand_corpora
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pipeline.data.shards import Corpus

EOS = 1


@pytest.fixture(scope="session")
def tokenizer(tokenizers):
    return tokenizers["unigram, with line breaks"]


def split_of(documents, sizes=None):
    """The tokens of a split and its list of documents."""
    tokens, listed = [], []
    for number, document in enumerate(documents):
        tokens += [*document, EOS]
        size = sizes[number] if sizes else len(document)
        listed.append((len(document) + 1, size, int(hand_corpora.name_of(document), 16)))
    return tokens, listed


@pytest.fixture
def packed(tmp_path):
    """Writes a corpus of token lists: `packed(validation=[[5, 6], ...])` -> that and training text.

    Its search split is empty.

    A document's text has one byte a token unless `sizes` says otherwise.
    """

    def write(validation, train=((2, 3) * 8,), *, vocabulary=64, sizes=None, shard_tokens=1000):
        folder = tmp_path / f"corpus{len(list(tmp_path.iterdir()))}"
        splits = {"train": split_of(train), "validation": split_of(validation, sizes)}
        sizes = {"vocabulary": vocabulary, "eos": EOS, "shard_tokens": shard_tokens}
        hand_corpora.write(folder, {**splits, "search": split_of(())}, **sizes)
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
    B x L x V. The output layer is the identity.
    """

    takes_layouts = True

    def __init__(self, vocabulary, logits):
        super().__init__()
        self.vocabulary, self.logits = vocabulary, logits
        self.precision = torch.float32
        self.output_weight = nn.Parameter(torch.eye(vocabulary), requires_grad=False)
        self.device = torch.device("cpu")

    def hidden_states(self, tokens_BxL, sight=None):
        token_BxLxV = text_BxSxV = self.one_hot(tokens_BxL)
        if sight is None:
            return self.logits(token_BxLxV, token_BxLxV.cummax(dim=1).values)
        if sight.shared is not None:
            before_BxPxV = sight.shared.expand(len(tokens_BxL), -1, -1)
            text_BxSxV = torch.cat([before_BxPxV, token_BxLxV], dim=1)
        seen_BxLxV = (sight.seen_BxLxS.to(text_BxSxV) @ text_BxSxV).clamp(max=1)
        return self.logits(token_BxLxV, seen_BxLxV)

    def prefix_keys_values(self, tokens_P):
        return self.one_hot(tokens_P[None])

    def one_hot(self, tokens):
        return F.one_hot(tokens, self.vocabulary).to(self.output_weight.dtype)


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
