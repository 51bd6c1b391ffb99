"""Documents between stages: Parquet files with an id and a text in each record."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.data.source_interface import CUT, CUT_LONG, Document
from pipeline.runtime import atomic_files, checksums, manifests

STAGE = "download"
SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string())])
GROUP_BYTES = 4 * 2**20
"""UTF-8 bytes of text in a row group: what a reader or a writer holds at once."""
TRAINING, VALIDATION = "documents", "validation"
"""Stems of the files: of documents, and of those that the source itself keeps for validation."""


def write_documents_and_return_facts(documents: Iterable[Document], file: Path) -> dict[str, Any]:
    """Writes documents to one Parquet file in their order, in bounded memory.

    Returns:
        Numbers of documents, characters and UTF-8 bytes of text, and `documents_sha256`, the
        identity of all ids and texts in their order.
    """
    total = {"documents": 0, "characters": 0, "bytes": 0}
    digest = hashlib.sha256()
    group: dict[str, list[str]] = {"id": [], "text": []}
    size = 0
    with (
        errors.explain_disk_errors(file.parent),
        pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer,
    ):
        for name, text in documents:
            content = text.encode()
            digest.update(f"{name}\n{len(content)}\n".encode() + content)
            total["documents"] += 1
            total["characters"] += len(text)
            total["bytes"] += len(content)
            size += len(content)
            group["id"].append(name)
            group["text"].append(text)
            if size >= GROUP_BYTES:
                writer.write_table(pa.table(group, schema=SCHEMA))
                group, size = {"id": [], "text": []}, 0
        if group["id"]:
            writer.write_table(pa.table(group, schema=SCHEMA))
    return {**total, "documents_sha256": digest.hexdigest()}


def read_documents_manifest(folder: Path, *, verify: bool = False) -> dict[str, Any]:
    """The manifest of a folder of documents, after its files have been compared with it.

    Of the files the sizes are compared, and their SHA-256 when `verify`.

    Raises:
        InputError: no finished documents, or missing, truncated or changed files, which are named.
    """
    path = folder / atomic_files.MANIFEST
    if not path.exists():
        raise InputError(
            f"{folder} holds no finished documents (no {atomic_files.MANIFEST}): download first"
        )
    remedy = "download it anew"
    facts = manifests.read_manifest(path, STAGE, remedy)
    checksums.refuse_damaged(checksums.files_as_listed(folder, facts, remedy), content=verify)
    return facts


def is_validation_documents_file(name: str) -> bool:
    """Whether a file holds the validation documents of its source's own."""
    return Path(name).stem == VALIDATION


def remedy_for_few_documents(folder: Path) -> str:
    """What a user can do to get more documents of a source."""
    facts = read_documents_manifest(folder)
    settings = {"kind": None, "documents": "file"} | facts["settings"]
    is_text = any(".txt" in read["file"] for read in facts.get("source_files", []))
    if settings["kind"] == "local" and settings["documents"] == "file" and is_text:
        return f"each text file is one document: {CUT} (sources.{folder.name})"
    return "give the source more documents"


def remedy_for_unequal_documents(folder: Path) -> str:
    """What a user can do about documents of a source that are much longer than others."""
    is_local = read_documents_manifest(folder)["settings"].get("kind") == "local"
    remedy = CUT_LONG if is_local else "split long documents into several records"
    return f"{remedy} (sources.{folder.name})"


def read_training_documents(folder: Path) -> Iterator[Document]:
    """The documents of a folder in order, in bounded memory; none of its validation text's."""
    files = read_documents_manifest(folder)["files"]
    for name in sorted(name for name in files if not is_validation_documents_file(name)):
        with open_documents(folder / name) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from map(Document, *(column.to_pylist() for column in batch.columns))


@contextlib.contextmanager
def open_documents(path: Path) -> Iterator[pq.ParquetFile]:
    """A file of documents, or an InputError where it is not readable as Parquet, also later."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowInvalid, OSError) as error:
        errors.refuse_process_resource_shortage(error)
        raise InputError(f"{path} cannot be read ({error}): download it anew") from error
