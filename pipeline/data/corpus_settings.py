"""Settings of tokenizers and of packing, and which documents are held out: a function of the text.

Of those held out most are the validation split, which results are measured on. The others are the
search split: grids and finders choose by its losses, so that no result is over documents by which
a setting or a mixture was chosen.
"""

import hashlib
import unicodedata
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pike_mixing.setting_limits import Limits, NonNegativeInt, PositiveInt, Share, ShareBelowOne
from pipeline.settings import Commit, HubId, Sha256

Normalisation = Literal["NFC", "NFKC"] | None
"""Of Unicode, for a text before it is hashed and written; None leaves it as it is."""
SEARCH_SHARE = 0.1
"""Share of the held-out documents that are the search split."""
ENOUGH_DOCUMENTS = 200
"""Fewer documents for validation are told: errors are over documents."""


def normalise_text(text: str, form: Normalisation) -> str:
    """The text as it is hashed and written."""
    return text if form is None else unicodedata.normalize(form, text)


def text_hash(text: str) -> int:
    """First 8 bytes of the text's SHA-256 as a big-endian number."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def is_held_out_from_training(hash_value: Any, held_out_share: float) -> Any:
    """Whether the document of this hash is among the share that is not trained on.

    Of an array of hashes, uint64 [N], bool [N]: dividing by a power of two rounds both alike.
    """
    return hash_value / 2.0**64 < held_out_share


def is_search_among_held_out(hash_value: Any, held_out_share: float) -> Any:
    """Whether a document of this hash (or uint64 [N]) is of the search split: some of the held-out.

    `held_out_share` is that of the held-out documents; 1 where the source says which they are.
    """
    return is_held_out_from_training(hash_value, held_out_share * SEARCH_SHARE)


@dataclass(frozen=True)
class Decontamination:
    """Evaluation items whose text no training document may hold."""

    files: Annotated[tuple[str, ...], Limits(filled=True)]
    """Paths or patterns of .jsonl, .jsonl.gz and .parquet files with an item in each record, or
    .txt files with an item on each line. Every text of an item is looked for by itself."""
    ngram: PositiveInt = 13
    """Words in a row, letter case and punctuation aside, that a document may not share with an
    item (13 in arXiv 2005.14165, appendix C). Shorter texts are not looked for."""


@dataclass(frozen=True)
class Hygiene:
    """What happens to documents before they are written, in this order; nothing by default."""

    normalisation: Normalisation = None
    """Unicode normalisation of the text; absent: the text as it is."""
    min_characters: NonNegativeInt = 0
    """Documents of fewer characters, blanks at both ends aside, are left out."""
    decontaminate: Decontamination | None = None
    """Evaluation items; documents that hold one are left out, of all splits."""
    drop_duplicates: bool = False
    """Whether of documents with the same text only the first is kept; where the source has
    validation text of its own, that of the validation text."""


@dataclass(frozen=True)
class Packing:
    """How documents become a corpus."""

    validation_share: Annotated[float, Limits(above=0, below=1)]
    """Share of documents that are held out, chosen by the hash of their text; of a source with
    validation documents of its own these are, and no others. A tenth of them are for grids and
    finders (the search split), the others are the validation split."""
    shard_tokens: PositiveInt = 2**26
    """Tokens in a shard file."""
    tokens: PositiveInt | None = None
    """Stop the training split at the document that reaches so many tokens; absent: take all."""
    hygiene: Hygiene = field(default_factory=Hygiene)
    """What is left out or changed before documents are encoded."""
    unknown_share_limit: Share = 0.05
    """Share of unknown tokens above which the tokenizer is taken not to fit the text."""


SPECIAL_PIECES = 3
"""pad = 0, eos = 1, unk = 2, as in T5; there is no bos."""
MOST_PIECES = 2**31 - 1
"""SentencePiece counts them in 32 bits."""


@dataclass(frozen=True)
class GivenTokenizer:
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
class HubTokenizer:
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
class TokenizerTrainingOptions:
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
class TokenizerTraining(TokenizerTrainingOptions):
    """The same, as the stage is given it."""

    validation_share: ShareBelowOne
    """The packing's share of validation documents, which are left out of the training text."""
    normalisation: Normalisation = None
    """That of `packing.hygiene`: documents are told by the hash of what is packed."""
