"""Formats of text files: JSON lines (plain or compressed), Parquet and plain text.

A reader takes a `Reading`: a file and what is to be told of it.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pike_mixing.limits import Limits
from pipeline.data import cutting
from pipeline.data.documents import Document

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CHUNK = 2**20
_BATCH_BYTES = 2**29
"""Text of a batch of Parquet records at most, if its footer tells the truth."""
_LEAST_ROWS, _MOST_ROWS = 8, 1024
"""Records of a batch."""

Utf8Policy = Literal["error", "replace", "drop"]
Patterns = Annotated[
    tuple[Annotated[str, Limits(filled=True)], ...], Limits(filled=True, or_one=True)
]
"""Paths or patterns of files; one may stand alone."""


@dataclass(frozen=True)
class Reading:
    """One file on its way to documents."""

    name: str
    """The file's name, which begins the ids of documents without one."""
    place: str
    """Where it lies, for messages."""
    remedy: str
    """What to do when it cannot be read."""
    field: str
    """Column of the text."""
    invalid_utf8: Utf8Policy
    """What to do with text that is not UTF-8: see `pipeline.data.local.Local`."""
    path: Path
    """The file on this disk."""
    skipped: Counter[str]
    """Documents left out, by reason."""
    shorter: str
    """What to do with a document that is too long."""
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
        except pa.ArrowMemoryError as error:
            raise InputError(
                f"{self.place} does not fit into memory ({error}): write it anew with shorter "
                "texts in smaller pages"
            ) from error
        except (OSError, pa.ArrowException, EOFError) as error:
            raise InputError(f"{self.place} cannot be read: {error}: {self.remedy}") from error

    def decoded(self, content: bytes, place: str) -> str | None:
        """Text of UTF-8 bytes; None when the document is to be dropped."""
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            return self._by_policy(content.decode(errors="replace"), f"{place}: {error}")

    def too_long(self, number: int | None) -> InputError:
        """What to tell of a document, or of a line, that is too long."""
        where = self.place if number is None else f"{self.place}:{number}"
        return InputError(
            f"{where} is longer than {cutting.LIMIT:,} bytes, the limit of a document: "
            f"{self.shorter}"
        )

    def documents(self, identity: object, value: object, place: str) -> Iterator[Document]:
        """The document of a value, or none when it is null, blank or to be dropped."""
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
        """A text without lone surrogates, which JSON can escape and UTF-8 cannot hold."""
        try:
            value.encode()
        except UnicodeEncodeError as error:
            mended = value.encode(errors="surrogatepass").decode(errors="replace")
            return self._by_policy(mended, f"{place}: {error}")
        return value

    def _by_policy(self, mended: str, problem: str) -> str | None:
        if self.invalid_utf8 == "error":
            raise InputError(
                f"{problem}: mend the file, or set invalid_utf8 to 'replace' or 'drop'"
            )
        self.skipped[f"invalid UTF-8, {self.invalid_utf8}"] += 1
        return mended if self.invalid_utf8 == "replace" else None


def _text(reading: Reading) -> Iterator[Document]:
    for number, content in cutting.cut(_chunks(reading), reading.cut, reading.too_long):
        place = reading.name if number is None else f"{reading.name}:{number}"
        text = reading.decoded(content, place)
        if text is not None:
            yield from reading.documents(place, text, place)


def _json_lines(reading: Reading) -> Iterator[Document]:
    number = 0
    lines = cutting.joined(_chunks(reading), lambda chunk: chunk.split(b"\n"), reading.too_long)
    for number, line in enumerate(lines, start=1):
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
        except RecursionError:
            raise InputError(f"{place}: JSON is nested too deeply: mend the line") from None
        if not isinstance(record, dict):
            raise InputError(f"{place}: {text!r:.80} is not a JSON object")
        value = _column(record, reading.field, place)
        yield from reading.documents(record.get("id"), value, place)
    if not number:
        raise InputError(
            f"{reading.place} unpacks to nothing: remove it or leave it out of `files`"
        )


def _chunks(reading: Reading) -> Iterator[bytes]:
    """The file's bytes, unpacked, without a byte order mark; no chunk is empty.

    Raises:
        InputError: UTF-16, or a compressed stream that is truncated or damaged. Only pyarrow's
            streams notice it for zstd; `zstandard` and `fsspec` end in silence.
    """
    codec = {".gz": "gzip", ".zst": "zstd"}.get(PurePosixPath(reading.name).suffix)
    with reading.named(), pa.input_stream(str(reading.path), compression=codec) as stream:
        chunk = stream.read(_CHUNK)
        if chunk.startswith(_UTF16):
            raise InputError(
                f"{reading.place} is UTF-16 (it begins with its byte order mark): convert it, as "
                "with iconv -f UTF-16 -t UTF-8"
            )
        chunk = chunk.removeprefix(_BOM) or stream.read(_CHUNK)
        while chunk:
            yield chunk
            chunk = stream.read(_CHUNK)


def _parquet(reading: Reading) -> Iterator[Document]:
    with reading.named(), pq.ParquetFile(reading.path) as file:
        asked = _asked(file.schema_arrow, reading)
        number = 0
        for batch in _batches(file, asked):
            columns = [_values(batch.column(name)) for name in asked]
            for values in zip(*columns, strict=True):
                number += 1
                place = f"{reading.name}:{number}"
                if values[0] is not None and len(values[0]) > cutting.LIMIT:
                    raise reading.too_long(number)
                decoded = [reading.decoded(v, place) if isinstance(v, bytes) else v for v in values]
                # None of a value that is there: it is not UTF-8 and the document is left out.
                if [v is None for v in decoded] == [v is None for v in values]:
                    yield from reading.documents([*decoded, None][1], decoded[0], place)


def _asked(columns: pa.Schema, reading: Reading) -> list[str]:
    """The text's column and, where it can name documents, that of the ids."""
    path, field = reading.place, reading.field
    _column(dict.fromkeys(columns.names), field, path)
    if columns.names.count(field) > 1:
        raise InputError(f"{path} has several columns {field!r}: name another in `field`")
    kind = columns.field(field).type
    if not _is_text(_unfolded(kind)):
        raise InputError(
            f"{path}: column {field!r} is of type {kind}, not text: name another in `field`"
        )
    if field == "id" or columns.names.count("id") != 1:
        return [field]
    kind = _unfolded(columns.field("id").type)
    return [field, "id"] if _is_text(kind) or pa.types.is_integer(kind) else [field]


def _unfolded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _batches(file: pq.ParquetFile, asked: list[str]) -> Iterator[pa.RecordBatch]:
    """Records in batches of few rows where one text, repeated in all of them, might not fit.

    A dictionary unfolds a file without limit: no row is longer than its column, though.
    """
    plain = [n for n in asked if not pa.types.is_dictionary(file.schema_arrow.field(n).type)]
    for group in range(file.num_row_groups):
        facts = file.metadata.row_group(group)
        columns = map(facts.column, range(facts.num_columns))
        size = sum(c.total_uncompressed_size for c in columns if c.path_in_schema in plain)
        rows = min(max(_BATCH_BYTES // max(size, 1), _LEAST_ROWS), _MOST_ROWS)
        yield from file.iter_batches(batch_size=rows, row_groups=[group], columns=asked)


def _values(column: pa.Array) -> Iterator[Any]:
    """Numbers, or texts as bytes: pyarrow does not check that a text column holds UTF-8."""
    if pa.types.is_dictionary(column.type):
        values = list(_values(column.dictionary))
        return (None if at is None else values[at] for at in column.indices.to_pylist())
    if _is_text(column.type):
        column = pc.cast(column, pa.large_binary())
    return (value.as_py() for value in column)


def _column(record: dict[str, object], field: str, place: str) -> object:
    if field not in record:
        found = ", ".join(map(repr, record)) or "none"
        raise InputError(f"{place}: no column {field!r}; columns: {found}: name one in `field`")
    return record[field]


def suffix(name: str) -> str:
    """The format's suffix: `.jsonl.gz` of `en.2024.jsonl.gz`."""
    path = PurePosixPath(name)
    last = path.suffix
    return path.with_suffix("").suffix + last if last in (".gz", ".zst") else last


FORMATS: dict[str, Callable[[Reading], Iterator[Document]]] = {
    ".json": _json_lines,
    ".json.gz": _json_lines,
    ".json.zst": _json_lines,
    ".jsonl": _json_lines,
    ".jsonl.gz": _json_lines,
    ".jsonl.zst": _json_lines,
    ".parquet": _parquet,
    ".txt": _text,
    ".txt.gz": _text,
    ".txt.zst": _text,
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
