"""Settings of packing: what becomes of documents, and of how many."""

from dataclasses import dataclass, field
from typing import Annotated

from pike_mixing.limits import Limits, NonNegativeInt, PositiveInt, Share
from pipeline.data.splits import Normalisation


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
