"""Documents between stages: Parquet files with an id and a text in each record."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.runtime import atomic_files, checksums, manifests

STAGE = "download"
SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string())])
GROUP_BYTES = 4 * 2**20
"""UTF-8 bytes of text in a row group: what a reader or a writer holds at once."""
FILE_BYTES = 256 * 2**20
"""UTF-8 bytes of text in a file."""
CUT = "write `documents: paragraphs` (or lines, or 2000 characters) beside its `files`"
"""What to do where a text file of the user's own is one document and should be several."""


class Document(NamedTuple):
    """One text; the id names its place in the source."""

    id: str
    text: str


class Source(Protocol):
    """Settings of a kind of source, which know how to read it."""

    @property
    def bytes(self) -> int | None:
        """Reading stops at the document that reaches so many UTF-8 bytes; None: at the end."""

    @property
    def licence(self) -> str:
        """Licence of the documents, for the record."""

    @property
    def entropy_nats_per_character(self) -> float | None:
        """Exact entropy rate where it is known: no model's loss can lie below it."""

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """All documents, always in the same order; counts those left out by reason."""

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """What the manifest says of the source; `revision` at least."""


class SourceFile(Protocol):
    """One file of a source."""

    @property
    def name(self) -> str:
        """What tells it from others, and from itself in another revision."""

    @property
    def stored_bytes(self) -> int:
        """Its size as it is stored, which is seldom more than that of its text."""

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """Its documents in their order; counts those left out by reason."""

    def facts(self) -> dict[str, Any]:
        """What the manifest says of it."""


@runtime_checkable
class OfFiles(Source, Protocol):
    """A source of the user's own files."""

    def paths(self) -> list[tuple[Path, str]]:
        """Each file with its name."""


@runtime_checkable
class Partitioned(Source, Protocol):
    """A source of many files far away, each of which can be read by itself."""

    def parts(self) -> Sequence[SourceFile]:
        """The files, in their order."""


def limited(documents: Iterable[Document], limit: int | None) -> Iterator[Document]:
    """The documents up to and with the one that reaches `limit` UTF-8 bytes."""
    total = 0
    for document in documents:
        yield document
        total += len(document.text.encode())
        if limit is not None and total >= limit:
            return


class Totals(NamedTuple):
    """What was written."""

    files: list[Path]
    documents: int
    characters: int
    bytes: int
    sha256: str


def write(documents: Iterable[Document], folder: Path) -> Totals:
    """Writes `documents-00000.parquet`, ... in bounded memory and sums up what was written.

    Raises:
        InputError: the disk is full or not writable.
    """
    written: list[Path] = []
    digest = hashlib.sha256()
    counts = Counter[str]()
    writer: pq.ParquetWriter | None = None
    room = 0
    try:
        for group in _groups(documents, digest):
            size = sum(len(text.encode()) for text in group["text"])
            with errors.explain_disk_errors(folder):
                if writer is None or room <= 0:
                    if writer is not None:
                        writer.close()
                    written.append(folder / f"documents-{len(written):05d}.parquet")
                    writer = pq.ParquetWriter(written[-1], SCHEMA, compression="zstd")
                    room = FILE_BYTES
                writer.write_table(pa.table(group, schema=SCHEMA))
            room -= size
            counts["documents"] += len(group["text"])
            counts["characters"] += sum(map(len, group["text"]))
            counts["bytes"] += size
    finally:
        if writer is not None:
            with errors.explain_disk_errors(folder):
                writer.close()
    return Totals(
        written,
        counts["documents"],
        counts["characters"],
        counts["bytes"],
        digest.hexdigest(),
    )


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder of documents, after its files' sizes have been compared with it.

    Raises:
        InputError: no finished documents, or missing or truncated files, which are named.
    """
    path = folder / atomic_files.MANIFEST
    if not path.exists():
        raise InputError(
            f"{folder} holds no finished documents (no {atomic_files.MANIFEST}): download first"
        )
    remedy = "download it anew"
    facts = manifests.read(path, STAGE, remedy)
    sealed = checksums.sealed(folder, facts, remedy)
    found = [problem for file in sealed if (problem := checksums.resized(file))]
    if found:
        raise InputError("\n".join(found))
    return facts


def more(folder: Path) -> str:
    """What gives a source more documents."""
    facts = manifest(folder)
    whole = facts["settings"].get("documents", "file") == "file"
    if whole and any(".txt" in read["file"] for read in facts.get("source_files", [])):
        return f"each text file is one document: {CUT} (sources.{folder.name})"
    return "give the source more documents"


def refuse_damaged(folder: Path) -> None:
    """Compares the SHA-256 of a folder's files with the manifest, side by side.

    Raises:
        InputError: as `manifest`, or files that were changed.
    """
    remedy = "download it anew"
    sealed = checksums.sealed(folder, manifest(folder), remedy)
    found = [text for _, text in checksums.problems(checksums.altered, sealed) if text]
    if found:
        raise InputError("\n".join(found))


def read(folder: Path) -> Iterator[Document]:
    """The documents of a folder in their order, in bounded memory.

    Raises:
        InputError: as `manifest`, or a file that is not readable as Parquet.
    """
    yield from of_files([folder / name for name in sorted(manifest(folder)["files"])])


def of_files(listed: Iterable[Path]) -> Iterator[Document]:
    """The documents of files in their order, in bounded memory.

    Raises:
        InputError: a file that is not readable as Parquet.
    """
    for path in listed:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=1024):
                    yield from map(Document, *(column.to_pylist() for column in batch.columns))
        except (pa.ArrowInvalid, OSError) as error:
            raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> InputError:
    """What to tell of a file that is not readable as Parquet."""
    return InputError(f"{path} cannot be read ({error}): download it anew")


def totals(listed: Sequence[Path]) -> Totals:
    """What `write` would have said of files that it has written.

    Raises:
        InputError: a file that is not readable as Parquet.
    """
    digest, counts = hashlib.sha256(), Counter[str]()
    for document in of_files(listed):
        size = _hashed(document, digest)
        counts.update(documents=1, characters=len(document.text), bytes=size)
    return Totals(
        list(listed),
        counts["documents"],
        counts["characters"],
        counts["bytes"],
        digest.hexdigest(),
    )


def _hashed(document: Document, digest: "hashlib._Hash") -> int:
    """Adds a document to the identity of all; returns the UTF-8 bytes of its text."""
    content = document.text.encode()
    digest.update(f"{document.id}\n{len(content)}\n".encode() + content)
    return len(content)


def _groups(
    documents: Iterable[Document], digest: "hashlib._Hash"
) -> Iterator[dict[str, list[str]]]:
    """Row groups of about `GROUP_BYTES`; the digest runs over ids and texts."""
    group: dict[str, list[str]] = {"id": [], "text": []}
    size = 0
    for document in documents:
        size += _hashed(document, digest)
        group["id"].append(document.id)
        group["text"].append(document.text)
        if size >= GROUP_BYTES:
            yield group
            group, size = {"id": [], "text": []}, 0
    if group["id"]:
        yield group
