"""Documents to token shards: whole documents, an end-of-sentence token after each, no padding.

Legend of shapes: V pieces of the vocabulary.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline import disk, files, settings
from pipeline.data import documents as store
from pipeline.data.sealing import FORMAT, SPLITS, data_fingerprint, documents_file
from pipeline.data.shards import DOCUMENT, ShardWriter, token_dtype
from pipeline.data.splits import is_validation, text_hash
from pipeline.data.tokenizer import Tokenizer
from pipeline.errors import InputError
from pipeline.progress import Progress

BATCH_BYTES = 4 * 2**20
"""UTF-8 bytes of text that are encoded at once."""
LEAST_TOKENS = 16
"""A split of fewer tokens is a mistake."""


@dataclass(frozen=True)
class Packing:
    """How documents become a corpus."""

    validation_share: float
    """Share of documents kept for validation, chosen by the hash of their text."""
    shard_tokens: int = 2**26
    """Tokens in a shard file."""
    tokens: int | None = None
    """Stop the training split at the document that reaches so many tokens; absent: take all."""
    unknown_share_limit: float = 0.05
    """Share of unknown tokens above which the tokenizer is taken not to fit the text."""

    def problems(self) -> list[str]:
        """Values that make no corpus."""
        found = []
        if not 0 < self.validation_share < 1:
            found.append("validation_share: must lie between 0 and 1, both excluded")
        if self.shard_tokens < 1:
            found.append("shard_tokens: must be at least 1")
        if self.tokens is not None and self.tokens < 1:
            found.append("tokens: must be at least 1")
        if not 0 <= self.unknown_share_limit <= 1:
            found.append("unknown_share_limit: must lie in [0, 1]")
        return found


class _Encoded(NamedTuple):
    """A document on its way into a split."""

    text: str
    hash: int
    tokens: npt.NDArray[np.int32]


@dataclass
class _Split:
    """One split while it is written."""

    writer: ShardWriter
    counts_V: npt.NDArray[np.int64]
    characters: int = 0
    records: list[npt.NDArray[Any]] = field(default_factory=list)
    """Documents, structured as `DOCUMENT`, batch by batch."""

    def add(self, documents: list[_Encoded]) -> None:
        """Writes documents behind those already there."""
        if documents:
            stream = np.concatenate([document.tokens for document in documents])
            self.writer.append(stream)
            self.counts_V += np.bincount(stream, minlength=len(self.counts_V))
            self.characters += sum(len(document.text) for document in documents)
            rows = [(len(d.tokens), len(d.text.encode()), d.hash) for d in documents]
            self.records.append(np.array(rows, DOCUMENT))

    def documents(self) -> npt.NDArray[Any]:
        """All documents, structured as `DOCUMENT`."""
        return np.concatenate([np.empty(0, DOCUMENT), *self.records])

    def facts(self, unknown: int) -> dict[str, Any]:
        """The split's part of the manifest."""
        documents = self.documents()
        return {
            "tokens": self.writer.tokens,
            "documents": len(documents),
            "bytes": int(documents["bytes"].sum(dtype=np.int64)),
            "characters": self.characters,
            "unknown_tokens": int(self.counts_V[unknown]),
            "shards": self.writer.close(),
        }


def pack(settings_file: Path, documents: Path, tokenizer: Path, out: Path) -> None:
    """Encodes a source's documents into the corpus `out`.

    Args:
        settings_file: JSON of the fields of `Packing`.
        documents: Folder that `download` wrote; its name is the source's and the domain's.
        tokenizer: The `.model` file.
        out: Folder to be made.

    Raises:
        InputError: wrong settings, too little text, a tokenizer that does not know the text, or a
            full disk.
    """
    values = files.read_json(settings_file)
    chosen = settings.parse(Packing, values, "packing")
    source = store.manifest(documents)
    encoder = Tokenizer(tokenizer)
    with disk.named(out), files.appearing(out) as partial:
        partial.mkdir()
        with Progress(f"pack {documents.name}", total=source["documents"], unit="doc") as progress:
            splits = _write(chosen, documents, encoder, partial, progress)
        facts = {name: split.facts(encoder.unknown) for name, split in splits.items()}
        _refuse(chosen, documents.name, facts)
        for name, split in splits.items():
            with (partial / documents_file(name)).open("wb") as file:
                np.save(file, split.documents(), allow_pickle=False)
        files.write_manifest(
            partial / files.MANIFEST,
            stage="pack",
            settings=values,
            inputs=[documents / files.MANIFEST, tokenizer],
            files=[f for f in sorted(partial.iterdir()) if f.suffix in (".bin", ".npy")],
            modules=[__name__],
            facts=_facts(documents.name, source, encoder, splits, facts),
        )


def _write(
    chosen: Packing, documents: Path, tokenizer: Tokenizer, out: Path, progress: Progress
) -> dict[str, _Split]:
    """Encodes all documents and appends each to its split, in the documents' order."""
    dtype, size = token_dtype(tokenizer.vocabulary), tokenizer.vocabulary
    train, validation = (
        _Split(
            ShardWriter(out, name, dtype=dtype, shard_tokens=chosen.shard_tokens),
            np.zeros(size, np.int64),
        )
        for name in SPLITS
    )
    end = np.int32(tokenizer.eos)
    limit = math.inf if chosen.tokens is None else chosen.tokens
    with train.writer, validation.writer:
        for texts in _batches(documents):
            parts: tuple[list[_Encoded], list[_Encoded]] = ([], [])
            written = train.writer.tokens
            for text, tokens in zip(texts, tokenizer.encode(texts), strict=True):
                document = _Encoded(text, text_hash(text), np.append(tokens, end))
                if is_validation(document.hash, chosen.validation_share):
                    parts[1].append(document)
                elif written < limit:
                    written += len(document.tokens)
                    parts[0].append(document)
            train.add(parts[0])
            validation.add(parts[1])
            progress.add(len(texts), tokens=f"{train.writer.tokens:,}")
    return {"train": train, "validation": validation}


def _batches(documents: Path) -> Iterator[list[str]]:
    texts: list[str] = []
    size = 0
    for _, text in store.read(documents):
        texts.append(text)
        size += len(text)
        if size >= BATCH_BYTES:
            yield texts
            texts, size = [], 0
    if texts:
        yield texts


def _refuse(chosen: Packing, domain: str, facts: dict[str, dict[str, Any]]) -> None:
    """Stops at a corpus that nobody can want."""
    documents = sum(split["documents"] for split in facts.values())
    tokens = sum(split["tokens"] for split in facts.values())
    for name, split in facts.items():
        if split["tokens"] < LEAST_TOKENS:
            raise InputError(
                f"domain {domain!r}: {split['documents']:,} of {documents:,} documents, "
                f"{split['tokens']:,} of {tokens:,} tokens are for {name}: give the source more "
                f"documents or change packing.validation_share ({chosen.validation_share})"
            )
    unknown = sum(split["unknown_tokens"] for split in facts.values())
    if unknown > chosen.unknown_share_limit * tokens:
        raise InputError(
            f"domain {domain!r}: {unknown / tokens:.1%} of {tokens:,} tokens are unknown to the "
            f"tokenizer, more than packing.unknown_share_limit ({chosen.unknown_share_limit:.1%}): "
            "take a tokenizer made for this text, or raise the limit"
        )


def _facts(
    domain: str,
    source: dict[str, Any],
    tokenizer: Tokenizer,
    splits: dict[str, _Split],
    facts: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """The corpus manifest beside what every manifest holds."""
    dtype = token_dtype(tokenizer.vocabulary).name
    return {
        "format": FORMAT,
        "source": domain,
        "tokenizer": tokenizer.facts(),
        "dtype": dtype,
        "splits": facts,
        "uniform_nats": math.log(tokenizer.vocabulary),
        "unigram_nats": unigram_nats(splits["train"].counts_V, splits["validation"].counts_V),
        "floor_nats": _floor(source["entropy_nats_per_character"], facts["validation"]),
        "skipped": source["skipped"],
        "revision": source["revision"],
        "licence": source["licence"],
        "fingerprint": data_fingerprint(dtype, {n: split["shards"] for n, split in facts.items()}),
    }


def unigram_nats(train_V: npt.NDArray[np.int64], validation_V: npt.NDArray[np.int64]) -> float:
    """Cross-entropy of the validation tokens under the training tokens' frequencies.

    One is added to every count, so that a token never seen in training costs ln(N + V) nats
    and not infinitely many.
    """
    frequency_V = (train_V + 1) / (train_V.sum() + len(train_V))
    return float(-(validation_V @ np.log(frequency_V)) / validation_V.sum())


def _floor(entropy: float | None, validation: dict[str, Any]) -> float | None:
    """Entropy of the validation text shared out over its tokens, in nats a token.

    It holds since tokens determine the text: nothing is lost or gained between the two. Where
    unknown tokens hide characters it does not, and there is no floor.
    """
    if entropy is None or validation["unknown_tokens"]:
        return None
    return float(entropy * validation["characters"] / validation["tokens"])
