"""The user's own files: text, JSON lines (plain or compressed) and Parquet."""

import contextlib
import glob
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline import files
from pipeline.data.documents import Document
from pipeline.errors import InputError

_BOM = b"\xef\xbb\xbf"
_CHUNK = 2**20


@dataclass(frozen=True)
class Local:
    """Documents in files: a document is a .txt file, a line of JSON, or a Parquet record."""

    files: tuple[str, ...]
    """Patterns of paths, relative to the working directory (`**` crosses folders); the files are
    read in the order of their names. Formats: .txt, .jsonl, .jsonl.gz, .jsonl.zst, .parquet."""
    field: str = "text"
    """Name of the JSON field or Parquet column that holds the text."""
    licence: str = "unknown"
    """Licence of the documents, for the record."""
    invalid_utf8: Literal["error", "replace", "drop"] = "error"
    """What to do with a text that is not valid UTF-8 (a lone surrogate in JSON counts as that):
    stop, put U+FFFD in place of what is invalid, or leave the document out and count it."""
    bytes: int | None = None
    """Stop at the document that reaches so many UTF-8 bytes; absent: read all."""

    def problems(self) -> list[str]:
        """Settings that read nothing."""
        return [] if self.files else ["files: name at least one pattern"]

    @property
    def entropy_nats_per_character(self) -> None:
        """Unknown."""

    def read(self, skipped: Counter[str]) -> Iterator[Document]:
        """All documents in the order of the files' names.

        Raises:
            InputError: a file that cannot be read as what its suffix says; its name and, where
                there is one, the line are in the message.
        """
        for path, name in self.paths():
            if not path.stat().st_size:
                raise InputError(f"{path} is empty: remove it or leave it out of `files`")
            reader = FORMATS[_suffix(path)]
            yield from reader(_Reading(self, path, name, skipped))

    def facts(self, documents_sha256: str) -> dict[str, Any]:
        """The revision, which is the identity of all files, and the files."""
        listed = [
            {"file": name, "bytes": path.stat().st_size, "sha256": files.sha256(path)}
            for path, name in self.paths()
        ]
        return {"revision": f"sha256 {files.digest(listed)}", "source_files": listed}

    def paths(self) -> list[tuple[Path, str]]:
        """Each file with its name relative to the innermost folder that holds them all.

        Raises:
            InputError: a pattern without a file, or a file of an unknown format.
        """
        found: set[str] = set()
        for pattern in self.files:
            # Path.glob refuses absolute patterns.
            matches = glob.glob(pattern, recursive=True)  # noqa: PTH207
            here = [match for match in matches if Path(match).is_file()]
            if not here:
                raise InputError(f"files: no file matches {pattern!r} from {Path.cwd()}")
            found.update(here)
        unknown = [name for name in sorted(found) if _suffix(Path(name)) not in FORMATS]
        if unknown:
            raise InputError(
                f"files: {', '.join(unknown)}: formats are told by suffix: {', '.join(FORMATS)}"
            )
        common = os.path.commonpath([Path(name).absolute().parent for name in found])
        return [
            (Path(name), Path(os.path.relpath(name, common)).as_posix()) for name in sorted(found)
        ]


@dataclass(frozen=True)
class _Reading:
    """One file on its way to documents."""

    source: Local
    path: Path
    name: str
    skipped: Counter[str]

    def decoded(self, content: bytes, place: str) -> str | None:
        """Text of UTF-8 bytes; None when the document is to be dropped."""
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            return self._by_policy(content.decode(errors="replace"), f"{place}: {error}")

    def documents(self, identity: object, value: object, place: str) -> Iterator[Document]:
        """The document of a value, or none when it is null, blank or to be dropped."""
        if value is None:
            self.skipped["null"] += 1
            return
        if not isinstance(value, str):
            raise InputError(f"{place}: {self.source.field!r} is {value!r:.80}, not a text")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            # A lone surrogate, which JSON can write as \ud800 and UTF-8 cannot.
            mended = value.encode(errors="surrogatepass").decode(errors="replace")
            kept = self._by_policy(mended, f"{place}: {error}")
            if kept is None:
                return
            value = kept
        if not value.strip():
            self.skipped["blank"] += 1
            return
        named = isinstance(identity, str | int) and not isinstance(identity, bool)
        yield Document(str(identity) if named else place, value)

    def _by_policy(self, mended: str, problem: str) -> str | None:
        if self.source.invalid_utf8 == "error":
            raise InputError(
                f"{problem}: mend the file, or set invalid_utf8 to 'replace' or 'drop'"
            )
        self.skipped[f"invalid UTF-8, {self.source.invalid_utf8}"] += 1
        return mended if self.source.invalid_utf8 == "replace" else None


def _text(reading: _Reading) -> Iterator[Document]:
    with _readable(reading.path):
        content = reading.path.read_bytes().removeprefix(_BOM)
    text = reading.decoded(content, reading.name)
    if text is not None:
        yield from reading.documents(reading.name, text, reading.name)


def _json_lines(reading: _Reading) -> Iterator[Document]:
    number = 0
    for number, line in enumerate(_lines(reading.path), start=1):
        place = f"{reading.name}:{number}"
        text = reading.decoded(line, place)
        if text is None:
            continue
        if not text.strip():
            reading.skipped["blank"] += 1
            continue
        try:
            record = json.loads(text)
        except ValueError as error:
            raise InputError(f"{place}: malformed JSON ({error}): mend the line") from None
        if not isinstance(record, dict):
            raise InputError(f"{place}: {text!r:.80} is not a JSON object")
        value = _column(record, reading.source.field, place)
        yield from reading.documents(record.get("id"), value, place)
    if not number:
        raise InputError(f"{reading.path} unpacks to nothing: remove it or leave it out of `files`")


def _lines(path: Path) -> Iterator[bytes]:
    """Lines of a file; the first one without a byte order mark.

    Raises:
        InputError: the compressed stream is truncated or damaged. Only pyarrow's streams notice
            it for zstd; `zstandard` and `fsspec` end in silence.
    """
    codec = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with _readable(path), pa.OSFile(str(path), "rb") as file:
        stream = pa.CompressedInputStream(file, codec) if codec else file
        rest, mark = b"", _BOM
        while chunk := stream.read(_CHUNK):
            *lines, rest = (rest + chunk).removeprefix(mark).split(b"\n")
            mark = b""
            yield from lines
        if rest:
            yield rest


def _parquet(reading: _Reading) -> Iterator[Document]:
    path, field = reading.path, reading.source.field
    with _readable(path), pq.ParquetFile(path) as file:
        columns = file.schema_arrow
        _column(dict.fromkeys(columns.names), field, str(path))
        asked = [field, "id"] if "id" in columns.names and field != "id" else [field]
        number = 0
        for batch in file.iter_batches(batch_size=1024, columns=asked):
            texts = _as_bytes(batch.column(field), f"{path}: column {field!r}")
            ids = batch.column("id").to_pylist() if "id" in asked else [None] * len(batch)
            for content, identity in zip(texts, ids, strict=True):
                number += 1
                place = f"{reading.name}:{number}"
                text = None if content is None else reading.decoded(content, place)
                if content is None or text is not None:
                    yield from reading.documents(identity, text, place)


def _as_bytes(column: pa.Array, place: str) -> list[bytes | None]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"{place} is of type {column.type}, not text: name another in `field`")
    # As bytes, since pyarrow does not check that a text column holds valid UTF-8.
    whole: list[bytes | None] = pc.cast(pc.cast(column, kind), pa.large_binary()).to_pylist()
    return whole


def _column(record: dict[str, object], field: str, place: str) -> object:
    if field not in record:
        found = ", ".join(map(repr, record)) or "none"
        raise InputError(f"{place}: no column {field!r}; columns: {found}: name one in `field`")
    return record[field]


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} cannot be read: {error}: fetch or make it anew") from error


def _suffix(path: Path) -> str:
    """The format's suffix: `.jsonl.gz` of `en.2024.jsonl.gz`."""
    last = path.suffix
    return path.with_suffix("").suffix + last if last in (".gz", ".zst") else last


FORMATS: dict[str, Callable[[_Reading], Iterator[Document]]] = {
    ".jsonl": _json_lines,
    ".jsonl.gz": _json_lines,
    ".jsonl.zst": _json_lines,
    ".parquet": _parquet,
    ".txt": _text,
}
"""Suffix: reader."""
