"""Settings of a tokenizer: given, from the Hub, or trained."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pike_mixing.limits import Limits, PositiveInt, ShareBelowOne
from pipeline.data.packing_settings import Normalisation
from pipeline.settings import Commit, HubId, Sha256

SPECIAL_PIECES = 3
"""pad = 0, eos = 1, unk = 2, as in T5; there is no bos."""
MOST_PIECES = 2**31 - 1
"""SentencePiece counts them in 32 bits."""


@dataclass(frozen=True)
class File:
    """A model that somebody else trained, such as T5's `spiece.model` or a `tokenizer.json`."""

    path: str
    """The model file, relative to the working directory."""
    sha256: Sha256 | None = None
    """Its SHA-256, compared when given."""
    end: str | None = None
    """The piece that ends a document, `eos_token` of the tokenizer_config.json beside a
    `tokenizer.json`, which needs it; a SentencePiece model has its own."""
    kind: Literal["file"] = "file"


@dataclass(frozen=True)
class Hub:
    """A model that somebody else trained, on the Hugging Face Hub."""

    repository: HubId
    """Id on the Hub, such as "google/mt5-base"."""
    revision: Commit
    """Commit, 40 hex digits."""
    sha256: Sha256
    """SHA-256 of the file."""
    file: str = "spiece.model"
    """The model file in the repository."""
    end: str | None = None
    """The piece that ends a document, which a `tokenizer.json` needs."""
    kind: Literal["hub"] = "hub"


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """A model trained on the sources' training documents."""

    model: Literal["unigram", "bpe", "char"]
    """SentencePiece's algorithm; char gives exactly one token a character."""
    vocabulary: Annotated[int, Limits(at_least=SPECIAL_PIECES + 1, at_most=MOST_PIECES)]
    """Pieces asked for, the three special ones included; small texts may give fewer."""
    characters: PositiveInt
    """Training text taken from each source at most."""
    newlines: bool = False
    """Whether texts are kept as they are, a line break being a piece of its own; otherwise (unigram
    and bpe) runs of white space become one space and Unicode is normalised, as T5 does it."""
    kind: Literal["train"] = "train"


@dataclass(frozen=True, kw_only=True)
class Train(TrainOptions):
    """The same, as the stage is given it."""

    validation_share: ShareBelowOne
    """The packing's share of validation documents, which are left out of the training text."""
    normalisation: Normalisation = None
    """That of `packing.hygiene`: documents are told by the hash of what is packed."""
