"""Formats of text files: JSON lines (plain or compressed), Parquet and plain text.

A reader takes a `Reading`, which knows how to open its file, on this disk or elsewhere.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.data.documents import Document
from pipeline.errors import InputError

_BOM = b"\xef\xbb\xbf"
_CHUNK = 2**20

Utf8Policy = Literal["error", "replace", "drop"]


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
    opened: Callable[[], AbstractContextManager[BinaryIO]]
    """Opens the file's bytes; seeking is asked of Parquet alone."""
    skipped: Counter[str]
    """Documents left out, by reason."""

    @contextlib.contextmanager
    def stream(self) -> Iterator[BinaryIO]:
        """The open file; what goes wrong in the block is told with the file's name.

        Raises:
            InputError: the file cannot be read as what it is.
        """
        try:
            with self.opened() as stream:
                yield stream
        except (OSError, pa.ArrowInvalid, EOFError) as error:
            raise InputError(f"{self.place} cannot be read: {error}: {self.remedy}") from error

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
            raise InputError(f"{place}: {self.field!r} is {value!r:.80}, not a text")
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
        if self.invalid_utf8 == "error":
            raise InputError(
                f"{problem}: mend the file, or set invalid_utf8 to 'replace' or 'drop'"
            )
        self.skipped[f"invalid UTF-8, {self.invalid_utf8}"] += 1
        return mended if self.invalid_utf8 == "replace" else None


def _text(reading: Reading) -> Iterator[Document]:
    with reading.stream() as stream:
        content = stream.read().removeprefix(_BOM)
    text = reading.decoded(content, reading.name)
    if text is not None:
        yield from reading.documents(reading.name, text, reading.name)


def _json_lines(reading: Reading) -> Iterator[Document]:
    number = 0
    for number, line in enumerate(_lines(reading), start=1):
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
        value = _column(record, reading.field, place)
        yield from reading.documents(record.get("id"), value, place)
    if not number:
        raise InputError(
            f"{reading.place} unpacks to nothing: remove it or leave it out of `files`"
        )


def _lines(reading: Reading) -> Iterator[bytes]:
    """Lines of a file; the first one without a byte order mark.

    Raises:
        InputError: the compressed stream is truncated or damaged. Only pyarrow's streams notice
            it for zstd; `zstandard` and `fsspec` end in silence.
    """
    codec = {".gz": "gzip", ".zst": "zstd"}.get(PurePosixPath(reading.name).suffix)
    with reading.stream() as file:
        stream: Any = pa.CompressedInputStream(pa.PythonFile(file, "r"), codec) if codec else file
        rest, mark = b"", _BOM
        while chunk := stream.read(_CHUNK):
            *lines, rest = (rest + chunk).removeprefix(mark).split(b"\n")
            mark = b""
            yield from lines
        if rest:
            yield rest


def _parquet(reading: Reading) -> Iterator[Document]:
    path, field = reading.place, reading.field
    with reading.stream() as stream, pq.ParquetFile(stream) as file:
        columns = file.schema_arrow
        _column(dict.fromkeys(columns.names), field, path)
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
}
"""Suffix: reader."""


def documents(reading: Reading) -> Iterator[Document]:
    """The documents of a file of a known format, in its order.

    Raises:
        InputError: it cannot be read as what its suffix says.
    """
    return FORMATS[suffix(reading.name)](reading)
