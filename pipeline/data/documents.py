"""Documents between stages: Parquet files with an id and a text in each record."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
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
    """One file of a source, on this machine."""

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
    """A source of many files far away."""

    def parts(self, workers: int) -> Iterator[SourceFile]:
        """The files in their order, while so many are fetched at once."""


def limited(documents: Iterable[Document], limit: int | None) -> Iterator[Document]:
    """The documents up to and with the one that reaches `limit` UTF-8 bytes."""
    total = 0
    for document in documents:
        yield document
        total += len(document.text.encode())
        if limit is not None and total >= limit:
            return


class Writer:
    """Writes `documents-00000.parquet`, ... in bounded memory and sums up what was written."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._digest = folder, hashlib.sha256()
        self.files: list[Path] = []
        self.documents = self.characters = self.bytes = 0

    @property
    def sha256(self) -> str:
        """Identity of all ids and texts in their order."""
        return self._digest.hexdigest()

    def add(self, documents: Iterable[Document]) -> None:
        """Writes documents, from a new file on.

        Raises:
            InputError: the disk is full or not writable.
        """
        groups = self._groups(documents)
        for first in groups:
            self.files.append(self._folder / f"documents-{len(self.files):05d}.parquet")
            room = FILE_BYTES
            with (
                errors.explain_disk_errors(self._folder),
                pq.ParquetWriter(self.files[-1], SCHEMA, compression="zstd") as writer,
            ):
                for size, group in itertools.chain([first], groups):
                    writer.write_table(pa.table(group, schema=SCHEMA))
                    room -= size
                    if room <= 0:
                        break

    def _groups(self, documents: Iterable[Document]) -> Iterator[tuple[int, dict[str, list[str]]]]:
        """Row groups of about `GROUP_BYTES`, with their UTF-8 bytes of text."""
        group: dict[str, list[str]] = {"id": [], "text": []}
        size = 0
        for name, text in documents:
            content = text.encode()
            self._digest.update(f"{name}\n{len(content)}\n".encode() + content)
            self.documents += 1
            self.characters += len(text)
            self.bytes += len(content)
            size += len(content)
            group["id"].append(name)
            group["text"].append(text)
            if size >= GROUP_BYTES:
                yield size, group
                group, size = {"id": [], "text": []}, 0
        if group["id"]:
            yield size, group


def write(documents: Iterable[Document], folder: Path) -> Writer:
    """Writes documents as one series of files.

    Raises:
        InputError: the disk is full or not writable.
    """
    writer = Writer(folder)
    writer.add(documents)
    return writer


def manifest(folder: Path, *, verify: bool = False) -> dict[str, Any]:
    """The manifest of a folder of documents, after its files have been compared with it.

    Args:
        folder: The documents.
        verify: Whether the files' SHA-256 is compared, not their size alone.

    Raises:
        InputError: no finished documents, or missing, truncated or changed files, which are named.
    """
    path = folder / atomic_files.MANIFEST
    if not path.exists():
        raise InputError(
            f"{folder} holds no finished documents (no {atomic_files.MANIFEST}): download first"
        )
    remedy = "download it anew"
    facts = manifests.read(path, STAGE, remedy)
    sealed = checksums.sealed(folder, facts, remedy)
    check = checksums.altered if verify else checksums.resized
    found = [problem for _, problem in checksums.problems(check, sealed) if problem]
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


def read(folder: Path) -> Iterator[Document]:
    """The documents of a folder in their order, in bounded memory.

    Raises:
        InputError: as `manifest`, or a file that is not readable as Parquet.
    """
    for path in [folder / name for name in sorted(manifest(folder)["files"])]:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=1024):
                    yield from map(Document, *(column.to_pylist() for column in batch.columns))
        except (pa.ArrowInvalid, OSError) as error:
            raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> InputError:
    """What to tell of a file that is not readable as Parquet."""
    return InputError(f"{path} cannot be read ({error}): download it anew")
