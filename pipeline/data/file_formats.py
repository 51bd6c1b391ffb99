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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.data import document_cutting
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
    """How a text, a file's or a record's, is cut into documents: see
    `pipeline.data.document_cutting.cut_documents`."""

    @contextlib.contextmanager
    def explain_read_errors(self) -> Iterator[None]:
        """Raises an InputError with the file's name and a remedy for what goes wrong inside."""
        try:
            yield
        except (OSError, pa.ArrowException, EOFError, zlib.error, UnicodeDecodeError) as error:
            errors.refuse_process_resource_shortage(error)
            told = (how for part, how in _REMEDIES.items() if part in str(error))
            remedy = next(told, "fetch or make it anew, or name it in `exclude`")
            remedy = remedy.format(path=shlex.quote(str(self.path)))
            raise InputError(f"{self.place} cannot be read: {error}: {remedy}") from error

    def cut_record(self, record_id: object, value: object, place: str) -> Iterator[Document]:
        """The document of a record, or several, numbered, that its text is cut into."""
        whole = self.whole_document(record_id, value, place)
        if whole is None:
            return
        if self.cut == "file":
            yield whole
            return
        stream = io.StringIO(whole.text, newline="")
        for number, text in document_cutting.cut_documents(stream, self.cut, place):
            document = self.whole_document(f"{whole.id}:{number}", text, place)
            if document is not None:
                yield document

    def whole_document(self, record_id: object, value: object, place: str) -> Document | None:
        """The document of a value, uncut; None when it is null, blank or to be dropped.

        `place` is the file and line, for messages and as the id of a document whose record has no
        text or whole number as its id.
        """
        if value is None:
            self.skipped["null"] += 1
            return None
        if not isinstance(value, str):
            inner = _join_column_names(value, f"{self.field}.") if isinstance(value, dict) else ""
            remedy = f": name what lies in it: {inner}" if inner else ""
            raise InputError(f"{place}: {self.field!r} is {value!r:.80}, not a text{remedy}")
        named = isinstance(record_id, str | int) and not isinstance(record_id, bool)
        kept = self._apply_utf8_policy(value, place)
        name = self._apply_utf8_policy(str(record_id) if named else place, f"{place}: the id")
        if kept is None or name is None:
            return None
        if document_cutting.is_blank(kept):
            self.skipped["blank"] += 1
            return None
        return Document(name, kept)

    def _apply_utf8_policy(self, text: str, place: str) -> str | None:
        """A text that UTF-8 can hold; lone surrogates, escaped or in place of bytes, by policy."""
        try:
            text.encode()
            return text
        except UnicodeEncodeError as error:
            problem: UnicodeError = error
            mended = re.sub("[\ud800-\udfff]", "\ufffd", text)
        with contextlib.suppress(UnicodeEncodeError):
            content = text.encode(errors="surrogateescape")
            try:
                content.decode()
            except UnicodeDecodeError as error:
                problem, mended = error, content.decode(errors="replace")
        if self.invalid_utf8 == "error":
            raise InputError(
                f"{place}: {problem}: mend the file, or set invalid_utf8 to 'replace' or 'drop'"
            )
        self.skipped[f"invalid UTF-8, {self.invalid_utf8}"] += 1
        return mended if self.invalid_utf8 == "replace" else None


def _read_text_file(source_file: SourceFile) -> Iterator[Document]:
    with _open_text(source_file, newline="") as stream:
        for number, text in document_cutting.cut_documents(
            stream, source_file.cut, source_file.place
        ):
            if number is None and not text:
                return
            place = source_file.name if number is None else f"{source_file.name}:{number}"
            document = source_file.whole_document(place, text, place)
            if document is not None:
                yield document


def _read_json_lines(source_file: SourceFile) -> Iterator[Document]:
    with _open_text(source_file, newline="\n") as stream:
        for number, text in document_cutting.read_numbered_lines(stream, source_file.place):
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
            yield from source_file.cut_record(record.get("id"), value, place)


class _TextWithoutByteOrderMarks(io.TextIOWrapper):
    """Text without the byte order marks that begin its lines.

    A file that was joined of others has the mark of each.
    """

    _begins_line = True

    def read(self, size: int | None = -1, /) -> str:
        wanted = -1 if size is None else size
        result = self._strip_byte_order_marks(super().read(wanted))
        while len(result) < wanted and (more := super().read(wanted - len(result))):
            result += self._strip_byte_order_marks(more)
        return result

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        # Of a line that is a mark alone nothing is left: it ends the file.
        return self._strip_byte_order_marks(super().readline(size))

    def _strip_byte_order_marks(self, text: str) -> str:
        if "\ufeff" in text:
            text = text.lstrip("\ufeff") if self._begins_line else text
            text = re.sub("([\r\n])\ufeff+", r"\1", text)
        if text:
            self._begins_line = text[-1] in "\r\n"
        return text


@contextlib.contextmanager
def _open_text(source_file: SourceFile, newline: str) -> Iterator[TextIO]:
    """The file's text, unpacked, without byte order marks.

    Bytes that are not UTF-8 are lone surrogates in it.
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
        yield _TextWithoutByteOrderMarks(stream, "utf-8", "surrogateescape", newline)


def _open_decompressed(source_file: SourceFile) -> Any:
    """The bytes of a file, or of the one that it packs, as a context."""
    end = PurePosixPath(suffix_with_compression(source_file.name)).suffix
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
        # Names that the file does not have are left out.
        batches = file.iter_batches(batch_size=_ROWS, columns=[*{source_file.field, "id"}])
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
    """The names that lead to the text's column."""
    result = _field_path(source_file.field, _nested_columns(schema), source_file.place)
    if twice := {result[0], "id"} & {n for n in schema.names if schema.names.count(n) > 1}:
        raise InputError(f"{source_file.place} has several columns {twice}: rename all but one")
    return result


def _nested_columns(fields: Iterable[pa.Field]) -> dict[str, Any]:
    """Names of columns, and below each those of a struct's fields."""
    return {
        f.name: _nested_columns(f.type) if pa.types.is_struct(f.type) else f.type for f in fields
    }


def _documents_of_batches(
    source_file: SourceFile, text_path: tuple[str, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[Document]:
    number = 0
    for batch in batches:
        column = batch.column(text_path[0])
        for part in text_path[1:]:
            column = pc.struct_field(column, part)
        has_ids = "id" in batch.schema.names and text_path != ("id",)
        ids = batch.column("id").to_pylist() if has_ids else [None] * len(batch)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        # From bytes: pyarrow does not check that texts are UTF-8.
        contents = pc.cast(column, pa.large_binary()).to_pylist()
        for content, identity in zip(contents, ids, strict=True):
            number += 1
            place = f"{source_file.name}:{number}"
            text = None if content is None else content.decode(errors="surrogateescape")
            if text is not None and len(text) > document_cutting.LIMIT:
                raise document_cutting.too_long_error(f"{source_file.place}:{number}")
            yield from source_file.cut_record(identity, text, place)


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


def suffix_with_compression(file_name: str) -> str:
    """The format's suffix: `.jsonl.gz` of `en.2024.JSONL.gz`."""
    path = PurePosixPath(file_name.lower())
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
"""Suffixes of files that are one text each."""


def refuse_files_of_unknown_format(
    file_names: Sequence[str], place: str, remedy: str | None = None
) -> None:
    """Stops at files whose suffix is none of `FORMATS`."""
    unknown = [name for name in file_names if suffix_with_compression(name) not in FORMATS]
    if unknown:
        first = ", ".join(unknown[:3]) + (", ..." if len(unknown) > 3 else "")
        raise InputError(
            f"{place}: {first}: formats are told by suffix: {', '.join(FORMATS)}: "
            f"{remedy or file_kinds.remedy_for_suffix_or_default(unknown[0])}"
        )


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
            file_kinds.refuse_content_unlike_suffix(source_file.path, source_file.place)
    for document in FORMATS[suffix_with_compression(source_file.name)](source_file) if size else ():
        given = True
        yield document
    if not given and source_file.skipped.total() == before:
        source_file.skipped["empty file"] += 1
