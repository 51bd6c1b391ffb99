"""Formats of text files: JSON lines (plain or compressed), Parquet, Arrow and plain text.

A reader takes a `Reading`: a file and what is to be told of it.
"""

import codecs
import contextlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline.data import cutting
from pipeline.data.file_settings import Utf8Policy
from pipeline.data.source_interface import Document

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


@dataclass(frozen=True)
class Reading:
    """One file on its way to documents."""

    name: str
    """The file's name, which begins the ids of documents without one."""
    place: str
    """Where it lies, for messages."""
    field: str
    """Column of the text."""
    invalid_utf8: Utf8Policy
    """What to do with text that is not UTF-8: see `LocalSettings`."""
    path: Path
    """The file on this disk."""
    skipped: Counter[str]
    """Documents left out, by reason."""
    cut: str = "file"
    """How a text file is cut into documents: see `pipeline.data.cutting.cut`."""

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Tells what goes wrong in the block with the file's name.

        Raises:
            InputError: the file cannot be read as what it is.
        """
        try:
            yield
        except (OSError, pa.ArrowException, EOFError, UnicodeDecodeError) as error:
            raise InputError(
                f"{self.place} cannot be read: {error}: fetch or make it anew, name another "
                "`field`, or leave it out"
            ) from error

    def too_long(self, number: int | None) -> InputError:
        """What to tell of a document, or of a line, that is too long."""
        where = self.place if number is None else f"{self.place}:{number}"
        return InputError(
            f"{where} is longer than {cutting.LIMIT:,} characters, the limit of a document: write "
            "`documents: 2000 characters` for text files, cut other files, or leave it out"
        )

    def documents(self, identity: object, value: object, place: str) -> Iterator[Document]:
        """The document of a value, or none when it is null, blank or to be dropped.

        Args:
            identity: The record's own id, a text or a whole number; anything else is none.
            value: The text.
            place: File and line, for messages and as the id of a document without one.
        """
        if value is None:
            self.skipped["null"] += 1
            return
        if not isinstance(value, str):
            raise InputError(f"{place}: {self.field!r} is {value!r:.80}, not a text")
        named = isinstance(identity, str | int) and not isinstance(identity, bool)
        kept = self._encodable(value, place)
        name = self._encodable(str(identity) if named else place, f"{place}: the id")
        if kept is None or name is None:
            return
        if not kept.strip():
            self.skipped["blank"] += 1
            return
        yield Document(name, kept)

    def _encodable(self, value: str, place: str) -> str | None:
        """A text that UTF-8 can hold; lone surrogates, escaped or in place of bytes, by policy."""
        try:
            value.encode()
            return value
        except UnicodeEncodeError as error:
            problem, mended = _mended(value, error)
        if self.invalid_utf8 == "error":
            raise InputError(
                f"{place}: {problem}: mend the file, or set invalid_utf8 to 'replace' or 'drop'"
            )
        self.skipped[f"invalid UTF-8, {self.invalid_utf8}"] += 1
        return mended if self.invalid_utf8 == "replace" else None


def _mended(value: str, problem: UnicodeError) -> tuple[UnicodeError, str]:
    """What is wrong with a text, and the text with U+FFFD in place of what is invalid."""
    with contextlib.suppress(UnicodeEncodeError):
        content = value.encode(errors="surrogateescape")
        try:
            content.decode()
        except UnicodeDecodeError as error:
            return error, content.decode(errors="replace")
    return problem, re.sub("[\ud800-\udfff]", "\ufffd", value)


def _text(reading: Reading) -> Iterator[Document]:
    with _opened(reading, newline="") as stream:
        for number, text in cutting.cut(stream, reading.cut, reading.too_long):
            place = reading.name if number is None else f"{reading.name}:{number}"
            yield from reading.documents(place, text, place)


def _json_lines(reading: Reading) -> Iterator[Document]:
    number = 0
    with _opened(reading, newline="\n") as stream:
        for number, text in cutting.lines(stream, reading.too_long):
            place = f"{reading.name}:{number}"
            if not text.strip():
                reading.skipped["blank"] += 1
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
                    f"`jq -c '.[]' {reading.place}` does with those of a list"
                )
            _refuse_missing(reading.field, record, place)
            yield from reading.documents(record.get("id"), record[reading.field], place)
    if not number:
        raise InputError(f"{reading.place} holds nothing: leave it out of `files`")


@contextlib.contextmanager
def _opened(reading: Reading, newline: str) -> Iterator[TextIO]:
    """The file's text, unpacked, without a byte order mark.

    Bytes that are not UTF-8 are lone surrogates in it.

    Raises:
        InputError: UTF-16, UTF-32 or no text, or a compressed stream that is truncated or damaged.
            Only pyarrow's streams notice it for zstd; `zstandard` and `fsspec` end in silence.
    """
    codec = {".gz": "gzip", ".zst": "zstd"}.get(PurePosixPath(reading.name).suffix)
    with reading.named(), pa.input_stream(str(reading.path), compression=codec) as raw:
        stream = io.BufferedReader(raw, _CHUNK)
        head = stream.peek(16)[:16]
        for name, marks in _WIDE.items():
            if head.startswith(marks):
                how = f"iconv -f {name} -t UTF-8"
                raise InputError(f"{reading.place} is {name}: convert it ({how})")
        if b"\0" in head:
            raise InputError(
                f"{reading.place} is no UTF-8 text, with NUL among its first bytes: convert UTF-16 "
                "(iconv -f UTF-16LE -t UTF-8), or name the file by its format's suffix"
            )
        yield io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline)


def _parquet(reading: Reading) -> Iterator[Document]:
    with reading.named(), pq.ParquetFile(reading.path) as file:
        wanted = _columns(reading, file.schema_arrow.names)
        batches = file.iter_batches(batch_size=_ROWS, columns=wanted)
        yield from _records(reading, wanted, batches)


def _arrow(reading: Reading) -> Iterator[Document]:
    """A stream, as `datasets` writes it, or a file (Feather)."""
    with reading.named(), pa.memory_map(str(reading.path)) as mapped:
        whole = mapped.read(len(_ARROW_FILE)) == _ARROW_FILE
        mapped.seek(0)
        with (pa.ipc.open_file if whole else pa.ipc.open_stream)(mapped) as table:
            wanted = _columns(reading, table.schema.names)
            batches = map(table.get_batch, range(table.num_record_batches)) if whole else table
            yield from _records(reading, wanted, batches)


def _columns(reading: Reading, names: list[str]) -> list[str]:
    """The text's column, and `id` where there is one."""
    _refuse_missing(reading.field, names, reading.place)
    if twice := {reading.field, "id"} & {name for name in names if names.count(name) > 1}:
        raise InputError(f"{reading.place} has several columns {twice}: rename all but one")
    return [reading.field, *({"id"} & {*names} - {reading.field})]


def _records(
    reading: Reading, wanted: list[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[Document]:
    number = 0
    for batch in batches:
        texts = _texts(batch.column(reading.field))
        ids = batch.column("id").to_pylist() if "id" in wanted[1:] else [None] * len(batch)
        for value, identity in zip(texts, ids, strict=True):
            number += 1
            if value is not None and len(value) > cutting.LIMIT:
                raise reading.too_long(number)
            yield from reading.documents(identity, value, f"{reading.name}:{number}")


def _texts(column: pa.Array) -> Iterator[str | None]:
    """A text column's texts, from bytes: pyarrow does not check that they are UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    for content in pc.cast(column, pa.large_binary()).to_pylist():
        yield None if content is None else content.decode(errors="surrogateescape")


def _refuse_missing(field: str, columns: Collection[str], place: str) -> None:
    if field not in columns:
        listed = ", ".join(map(repr, columns)) or "none"
        raise InputError(f"{place}: no column {field!r}; columns: {listed}: name one in `field`")


def suffix(name: str) -> str:
    """The format's suffix: `.jsonl.gz` of `en.2024.jsonl.gz`."""
    path = PurePosixPath(name)
    last = path.suffix
    return path.with_suffix("").suffix + last if last in (".gz", ".zst") else last


Reader = Callable[[Reading], Iterator[Document]]
_PACKED: dict[str, Reader] = {".json": _json_lines, ".jsonl": _json_lines, ".txt": _text}
FORMATS: dict[str, Reader] = {
    **{f"{name}{end}": _PACKED[name] for name in _PACKED for end in ("", ".gz", ".zst")},
    ".arrow": _arrow,
    ".parquet": _parquet,
}
"""Suffix: reader."""

TEXT = tuple(name for name, reader in FORMATS.items() if reader is _text)
"""Suffixes of text that can be cut into documents."""


def documents(reading: Reading) -> Iterator[Document]:
    """The documents of a file of a known format, in its order.

    Raises:
        InputError: it cannot be read as what its suffix says.
    """
    return FORMATS[suffix(reading.name)](reading)
