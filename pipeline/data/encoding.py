"""A batch of documents to tokens: what a worker of the packing does.

Legend of shapes: N documents of a batch, T tokens of all of them.
"""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.data import documents as store
from pipeline.data.filters import holds_item
from pipeline.data.packing_settings import Hygiene, normalise_text
from pipeline.data.shards import token_dtype
from pipeline.data.tokenizer import Tokenizer

UNTOUCHED = Hygiene()
BLANK = "\N{LOWER ONE EIGHTH BLOCK}".encode()
"""What stands for a blank in pieces of SentencePiece."""


class DocumentBatch(NamedTuple):
    """A row group of a file of documents, which is encoded at once."""

    path: Path
    group: int


class Encoded(NamedTuple):
    """A batch's documents, in their order."""

    tokens_T: npt.NDArray[Any]
    """Ids with an end behind each document, in the corpus's dtype."""
    tokens_N: npt.NDArray[np.int64]
    """Tokens of each document, its end included."""
    bytes_N: npt.NDArray[np.int64]
    characters_N: npt.NDArray[np.int64]
    hash_N: npt.NDArray[np.uint64]
    """First 8 bytes of each text's SHA-256."""
    blanks: int
    """How often U+2581 stands in them, which SentencePiece reads as a blank."""
    read_bytes: int
    """UTF-8 bytes that were read, those of documents left out included."""
    skipped: Counter[str]
    """Documents left out, by reason."""


def batches(listed: list[Path]) -> list[DocumentBatch]:
    """All batches of files of documents, in order.

    Raises:
        InputError: a file that is not readable as Parquet.
    """
    result = []
    for path in listed:
        with store.open_documents(path) as file:
            result += [DocumentBatch(path, group) for group in range(file.num_row_groups)]
    return result


def encode(batch: DocumentBatch, encoder: Tokenizer, hygiene: Hygiene = UNTOUCHED) -> Encoded:
    """Encodes the documents of a batch, each whole.

    Args:
        batch: The row group.
        encoder: The corpus's tokenizer.
        hygiene: What is left out or changed first.

    Raises:
        InputError: a file that is not readable as Parquet.
    """
    with store.open_documents(batch.path) as file:
        table = file.read_row_group(batch.group, columns=["text"], use_threads=False)
    # As bytes: neither SentencePiece nor SHA-256 wants Python's texts.
    column = table.column("text").combine_chunks()
    contents: list[bytes] = pc.cast(column, pa.binary()).to_pylist()
    read, skipped = sum(map(len, contents)), Counter[str]()
    if hygiene != UNTOUCHED:
        cleaned = (_clean(content, hygiene, skipped) for content in contents)
        contents = [content for content in cleaned if content is not None]
    pieces = encoder.encode(contents)
    end = np.array([encoder.eos], np.int32)
    stream = np.concatenate([part for ids in pieces for part in (ids, end)] or [end[:0]])
    hashes = b"".join(hashlib.sha256(content).digest()[:8] for content in contents)
    return Encoded(
        stream.astype(token_dtype(encoder.vocabulary)),
        np.array([len(ids) + 1 for ids in pieces], np.int64),
        np.array([len(content) for content in contents], np.int64),
        np.array([len(content.decode()) for content in contents], np.int64),
        np.frombuffer(hashes, ">u8").astype(np.uint64),
        sum(content.count(BLANK) for content in contents),
        read,
        skipped,
    )


def _clean(content: bytes, chosen: Hygiene, skipped: Counter[str]) -> bytes | None:
    """The text as it is to be encoded; None when it is to be left out."""
    text = normalise_text(content.decode(), chosen.normalisation)
    if len(text.strip()) < max(chosen.min_characters, 1):
        skipped["short"] += 1
        return None
    if chosen.decontaminate is not None and holds_item(text, chosen.decontaminate):
        skipped["contaminated"] += 1
        return None
    return text.encode()
