"""Formats of text files: JSON lines (plain or compressed), Parquet, Arrow and plain text.

A reader takes a `SourceFile`: a file and what is to be told of it.
"""

import codecs
import contextlib
import gzip
import io
import json
import re
import shlex
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.data import cutting
from pipeline.data.file_settings import Utf8Policy
from pipeline.data.source_interface import Document
from pipeline.runtime import file_kinds

_CHUNK = 2**20
_ROWS = 64
"""Records of Parquet that are held at once."""
_WIDE = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
"""Byte order marks; that of UTF-16 begins one of UTF-32."""
_ARROW_FILE = b"ARROW1"
"""What a file of Arrow begins with, and a stream does not."""
_LISTED = 20
"""Names of columns that a message lists at most."""
_REMEDIES = {
    "too much memory": "its window is long, unpack it: `zstd -dc --long=31 < {path} > NEW`",
    "Dictionary mismatch": "unpack it with its dictionary: `zstd -dc -D DICTIONARY < {path} > NEW`",
    "Not a gzipped file": "where bytes that mean nothing follow the gzip stream, "
    "`gzip -dc < {path} > NEW` leaves them out; else fetch it anew",
    "Permission denied": "give this user the right to read it",
    "cast from": "name another `field`",
    "Truncated": "it is cut off: fetch or make it anew",
    "end-of-stream": "it is cut off: fetch or make it anew",
}
"""What to do, by a part of what a library says."""


@dataclass(frozen=True)
class SourceFile:
    """One file on its way to documents."""

    name: str
    """The file's name, which begins the ids of documents without one."""
    place: str
    """Where it lies, for messages."""
    field: str
    """Column of the text; `content.text` is the `text` within each `content`."""
    invalid_utf8: Utf8Policy
    """What to do with text that is not UTF-8: see `LocalSettings`."""
    path: Path
    """The file on this disk."""
    skipped: Counter[str]
    """Documents left out, by reason."""
    cut: str = "file"
    """How a text file is cut into documents: see `pipeline.data.cutting.cut_documents`."""

    @contextlib.contextmanager
    def explain_read_errors(self) -> Iterator[None]:
        """Tells what goes wrong in the block with the file's name.

        Raises:
            InputError: the file cannot be read as what it is.
        """
        try:
            yield
        except (OSError, pa.ArrowException, EOFError, zlib.error, UnicodeDecodeError) as error:
            errors.refuse_shortage(error)
            told = (how for part, how in _REMEDIES.items() if part in str(error))
            remedy = next(told, "fetch or make it anew, or name it in `exclude`")
            remedy = remedy.format(path=shlex.quote(str(self.path)))
            raise InputError(f"{self.place} cannot be read: {error}: {remedy}") from error

    def line_too_long_error(self, number: int | None) -> InputError:
        """What to tell of a document, or of a line, that is too long."""
        where = self.place if number is None else f"{self.place}:{number}"
        return InputError(
            f"{where} is longer than {cutting.LIMIT:,} characters, the limit of a document: write "
            "`documents: 2000 characters` for text files, cut other files, or leave it out"
        )

    def record_documents(self, record_id: object, value: object, place: str) -> Iterator[Document]:
        """The document of a value, or none when it is null, blank or to be dropped.

        Args:
            record_id: The record's own id, a text or a whole number; anything else is none.
            value: The text.
            place: File and line, for messages and as the id of a document without one.
        """
        if value is None:
            self.skipped["null"] += 1
            return
        if not isinstance(value, str):
            inner = _join_column_names(value, f"{self.field}.") if isinstance(value, dict) else ""
            remedy = f": name what lies in it: {inner}" if inner else ""
            raise InputError(f"{place}: {self.field!r} is {value!r:.80}, not a text{remedy}")
        named = isinstance(record_id, str | int) and not isinstance(record_id, bool)
        kept = self._apply_utf8_policy(value, place)
        name = self._apply_utf8_policy(str(record_id) if named else place, f"{place}: the id")
        if kept is None or name is None:
            return
        if cutting.is_blank(kept):
            self.skipped["blank"] += 1
            return
        yield Document(name, kept)

    def _apply_utf8_policy(self, value: str, place: str) -> str | None:
        """A text that UTF-8 can hold; lone surrogates, escaped or in place of bytes, by policy."""
        try:
            value.encode()
            return value
        except UnicodeEncodeError as error:
            problem, mended = _replace_invalid(value, error)
        if self.invalid_utf8 == "error":
            raise InputError(
                f"{place}: {problem}: mend the file, or set invalid_utf8 to 'replace' or 'drop'"
            )
        self.skipped[f"invalid UTF-8, {self.invalid_utf8}"] += 1
        return mended if self.invalid_utf8 == "replace" else None


def _replace_invalid(text: str, problem: UnicodeError) -> tuple[UnicodeError, str]:
    """What is wrong with a text, and the text with U+FFFD in place of what is invalid."""
    with contextlib.suppress(UnicodeEncodeError):
        content = text.encode(errors="surrogateescape")
        try:
            content.decode()
        except UnicodeDecodeError as error:
            return error, content.decode(errors="replace")
    return problem, re.sub("[\ud800-\udfff]", "\ufffd", text)


def _read_text_file(source_file: SourceFile) -> Iterator[Document]:
    with _open_text(source_file, newline="") as stream:
        for number, text in cutting.cut_documents(
            stream, source_file.cut, source_file.line_too_long_error
        ):
            if number is None and not text:
                return
            place = source_file.name if number is None else f"{source_file.name}:{number}"
            yield from source_file.record_documents(place, text, place)


def _read_json_lines(source_file: SourceFile) -> Iterator[Document]:
    with _open_text(source_file, newline="\n") as stream:
        for number, text in cutting.read_numbered_lines(stream, source_file.line_too_long_error):
            place = f"{source_file.name}:{number}"
            if not text.strip():
                source_file.skipped["blank"] += 1
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise InputError(
                    f"{place}: malformed JSON ({error}): give each line one whole object"
                ) from None
            if not isinstance(record, dict):
                raise InputError(
                    f"{place} holds {text.strip()!r:.40}, no object: give each object a line, as "
                    f"`jq -c '.[]' {source_file.place}` does with those of a list"
                )
            value: Any = record
            for part in _field_path(source_file.field, record, place):
                value = None if value is None else value[part]
            yield from source_file.record_documents(record.get("id"), value, place)


class _StreamWithoutMarks(io.RawIOBase):
    """Bytes of UTF-8 without the byte order marks that begin their lines.

    A file that was joined of others has the mark of each.
    """

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        # As if a line had ended before the first byte.
        self._begun, self._waiting, self._ready = False, b"\n", b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            read = self._stream.read1(_CHUNK)
            found = self._waiting + read
            if codecs.BOM_UTF8 in found:
                found = re.sub(rb"([\r\n])(?:\xef\xbb\xbf)+", rb"\1", found)
            # A mark may go on in what is read next.
            open_end = re.search(rb"[\r\n](?:\xef\xbb?)?\Z", found) if read else None
            end = open_end.start() if open_end else len(found)
            self._ready, self._waiting = found[:end], found[end:]
            if self._ready and not self._begun:
                self._begun, self._ready = True, self._ready[1:]
            if not read and not self._ready:
                return 0
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size


@contextlib.contextmanager
def _open_text(source_file: SourceFile, newline: str) -> Iterator[TextIO]:
    """The file's text, unpacked, without byte order marks.

    Bytes that are not UTF-8 are lone surrogates in it.

    Raises:
        InputError: UTF-16, UTF-32 or no text, or a compressed stream that is truncated or damaged.
    """
    with source_file.explain_read_errors(), _open_decompressed(source_file) as raw:
        stream = io.BufferedReader(raw, _CHUNK)
        head = stream.peek(file_kinds.HEAD)[: file_kinds.HEAD]
        for name, marks in _WIDE.items():
            if head.startswith(marks):
                how = f"iconv -f {name} -t UTF-8"
                raise InputError(f"{source_file.place} is {name}: convert it ({how})")
        if not isinstance(raw, io.FileIO):
            file_kinds.refuse_wrong_first_bytes(
                head, source_file.path, source_file.place, is_packed=True
            )
        if b"\0" in head[:16]:
            raise InputError(
                f"{source_file.place} is no UTF-8 text, with NUL among its first bytes: convert "
                "UTF-16 (iconv -f UTF-16LE -t UTF-8), or name the file by its format's suffix"
            )
        plain = io.BufferedReader(_StreamWithoutMarks(stream), _CHUNK)
        yield io.TextIOWrapper(plain, "utf-8", "surrogateescape", newline)


def _open_decompressed(source_file: SourceFile) -> Any:
    """The bytes of a file, or of the one that it packs, as a context."""
    end = PurePosixPath(format_suffix(source_file.name)).suffix
    if end == ".gz":
        # It reads streams behind each other, and the zeros that tapes leave between and after them.
        return gzip.GzipFile(source_file.path)
    if end == ".zst":
        # `zstandard` and `fsspec` end in silence where a stream is truncated.
        return pa.input_stream(str(source_file.path), compression="zstd")
    return io.FileIO(source_file.path)


def _read_parquet(source_file: SourceFile) -> Iterator[Document]:
    with source_file.explain_read_errors(), pq.ParquetFile(source_file.path) as file:
        path = _text_column_path(source_file, file.schema_arrow)
        wanted = [source_file.field, *_id_columns(path, file.schema_arrow)]
        batches = file.iter_batches(batch_size=_ROWS, columns=wanted)
        yield from _documents_of_batches(source_file, path, batches)


def _read_arrow(source_file: SourceFile) -> Iterator[Document]:
    """A stream, as `datasets` writes it, or a file (Feather)."""
    with source_file.explain_read_errors(), pa.memory_map(str(source_file.path)) as mapped:
        whole = mapped.read(len(_ARROW_FILE)) == _ARROW_FILE
        mapped.seek(0)
        with (pa.ipc.open_file if whole else pa.ipc.open_stream)(mapped) as table:
            path = _text_column_path(source_file, table.schema)
            batches = map(table.get_batch, range(table.num_record_batches)) if whole else table
            yield from _documents_of_batches(source_file, path, batches)


def _text_column_path(source_file: SourceFile, schema: pa.Schema) -> tuple[str, ...]:
    """The path of the text's column."""
    result = _field_path(source_file.field, _nested_column_names(schema), source_file.place)
    if twice := {result[0], "id"} & {n for n in schema.names if schema.names.count(n) > 1}:
        raise InputError(f"{source_file.place} has several columns {twice}: rename all but one")
    return result


def _id_columns(text_path: tuple[str, ...], schema: pa.Schema) -> list[str]:
    return ["id"] if "id" in schema.names and text_path != ("id",) else []


def _nested_column_names(fields: Iterable[pa.Field]) -> dict[str, Any]:
    """Names of columns, and below each those of a struct's fields."""
    return {
        f.name: _nested_column_names(f.type) if pa.types.is_struct(f.type) else f.type
        for f in fields
    }


def _documents_of_batches(
    source_file: SourceFile, text_path: tuple[str, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[Document]:
    number = 0
    for batch in batches:
        column = batch.column(text_path[0])
        for part in text_path[1:]:
            column = pc.struct_field(column, part)
        named = _id_columns(text_path, batch.schema)
        ids = batch.column("id").to_pylist() if named else [None] * len(batch)
        for value, identity in zip(_column_texts(column), ids, strict=True):
            number += 1
            if value is not None and len(value) > cutting.LIMIT:
                raise source_file.line_too_long_error(number)
            yield from source_file.record_documents(identity, value, f"{source_file.name}:{number}")


def _column_texts(column: pa.Array) -> Iterator[str | None]:
    """A text column's texts, from bytes: pyarrow does not check that they are UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    for content in pc.cast(column, pa.large_binary()).to_pylist():
        yield None if content is None else content.decode(errors="surrogateescape")


def _field_path(field: str, columns: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """The names that lead to a field: of `content.text`, a column of that name or two steps."""
    if (result := _find_field_path(field, columns)) is None:
        listed = _join_column_names(columns) or "none"
        raise InputError(f"{place}: no column {field!r}; columns: {listed}: name one in `field`")
    return result


def _find_field_path(field: str, columns: Mapping[str, Any]) -> tuple[str, ...] | None:
    if field in columns:
        return (field,)
    for dot in (match.start() for match in re.finditer(r"\.", field)):
        inner = columns.get(field[:dot], ())
        if inner is None:
            # No record at all: its text is missing, too.
            return (field[:dot], field[dot + 1 :])
        below = _find_field_path(field[dot + 1 :], inner) if isinstance(inner, Mapping) else None
        if below:
            return (field[:dot], *below)
    return None


def _join_column_names(columns: Mapping[str, Any], prefix: str = "") -> str:
    """Names of columns for a message, those within others with both names."""
    names = [
        repr(f"{prefix}{name}{'.' + part if part else ''}")
        for name, inner in columns.items()
        for part in (inner if isinstance(inner, Mapping) and inner else ("",))
    ]
    return ", ".join(names[:_LISTED]) + (f", ... ({len(names):,})" if names[_LISTED:] else "")


def format_suffix(name: str) -> str:
    """The format's suffix: `.jsonl.gz` of `en.2024.JSONL.gz`."""
    path = PurePosixPath(name.lower())
    last = path.suffix
    return path.with_suffix("").suffix + last if last in (".gz", ".zst") else last


Reader = Callable[[SourceFile], Iterator[Document]]
_PACKED: dict[str, Reader] = {
    ".json": _read_json_lines,
    ".jsonl": _read_json_lines,
    ".txt": _read_text_file,
}
FORMATS: dict[str, Reader] = {
    **{f"{name}{end}": _PACKED[name] for name in _PACKED for end in ("", ".gz", ".zst")},
    ".arrow": _read_arrow,
    ".parquet": _read_parquet,
}
"""Suffix: reader."""

TEXT = tuple(name for name, reader in FORMATS.items() if reader is _read_text_file)
"""Suffixes of text that can be cut into documents."""


def read_source_file(source_file: SourceFile) -> Iterator[Document]:
    """The documents of a file of a known format, in its order.

    A file of no bytes, or of no lines or records, gives none and is counted.

    Raises:
        InputError: it cannot be read as what its suffix says.
    """
    before, given = source_file.skipped.total(), False
    with source_file.explain_read_errors():
        size = source_file.path.stat().st_size
        if size:
            file_kinds.refuse_wrong_file_kind(source_file.path, source_file.place)
    for document in FORMATS[format_suffix(source_file.name)](source_file) if size else ():
        given = True
        yield document
    if not given and source_file.skipped.total() == before:
        source_file.skipped["empty file"] += 1
