"""Which fields the first records of a text file have, to check a field's name before a training."""

import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pike_mixing import foreign_json
from pike_mixing.errors import names_text

if TYPE_CHECKING:
    from pyarrow import Schema

RECORDS = 1000
"""How many are looked at: JSON lines may lack a field in some."""
TEXTS = ("string", "large_string")
"""How the names of Arrow's types of text begin."""
TextFlagByField = dict[str, bool | None]
"""By name, `a.b` for b within a: whether the values are texts; None where all are null."""


def text_field_problem(path: Path, field_unless_text: str | None, domain: str) -> str | None:
    """Why a file's records have no text in a field, and what to type.

    Where no field is named it is `text`, but rows that are packed already need none.
    None where they have, and where nothing can be said: a file that cannot be opened here, or a
    package that is missing, is the trainer's affair.
    """
    try:
        fields = _read_text_flag_by_field(path)
    except (OSError, EOFError, ImportError, RecursionError, ValueError, csv.Error, zlib.error):
        return None
    if field_unless_text is None and "input_ids" in fields:
        return None
    field = field_unless_text or "text"
    parts = field.split(".")
    around = [".".join(parts[:n]) for n in range(1, len(parts))]
    if not fields or any(name in fields and fields[name] is None for name in around):
        return None
    if field not in fields:
        found = f"has no field {field!r}, but {names_text(fields)}"
    elif fields[field] is False:
        found = f"has no text in the field {field!r}"
    else:
        return None
    texts = [name for name, is_text in fields.items() if is_text]
    advice = f"type, for example, {domain}={texts[0]}"
    if len(texts) != 1:
        advice = f"type {domain}=FIELD, with the name of the field that has the text"
    return f"--field: domain {domain!r}: {path} {found}: {advice}"


def _read_text_flag_by_field(path: Path) -> TextFlagByField:
    """By field of the first records: is it text; none where the kind of file is unknown.

    Raises:
        OSError, EOFError, ImportError, RecursionError, ValueError, csv.Error, zlib.error: the file
            cannot be opened here, or is damaged.
    """
    kind = Path(path.name.lower().removesuffix(".gz").removesuffix(".zst")).suffix
    if kind == ".txt":
        return {"text": True}
    if kind in (".parquet", ".arrow"):
        return dict(_text_flags_of_columns(_read_schema(path, kind)))
    with _open_text(path) as file:
        if kind == ".csv":
            return dict.fromkeys(next(csv.reader(file), []), True)
        if kind in (".json", ".jsonl"):
            return _text_flags_of_json_lines(file)
    return {}


def _open_text(path: Path) -> Any:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    if path.suffix.lower() == ".zst":
        import pyarrow as pa

        stream = pa.input_stream(str(path), compression="zstd")
        return io.TextIOWrapper(stream, encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _text_flags_of_json_lines(lines: Iterable[str]) -> TextFlagByField:
    fields: TextFlagByField = {}
    filled = (line for line in lines if not line.isspace())
    for line in itertools.islice(filled, RECORDS):
        record = foreign_json.parse_json_or_value_error(line)
        if not isinstance(record, Mapping):
            raise ValueError("no line is a record: the file may be one list")
        for name, value in _dotted_names_and_values(record):
            is_text = None if value is None else isinstance(value, str)
            fields[name] = max(fields.get(name), is_text, key=(None, False, True).index)
    return fields


def _dotted_names_and_values(
    record: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        yield prefix + name, value
        if isinstance(value, Mapping):
            yield from _dotted_names_and_values(value, f"{prefix}{name}.")


def _read_schema(path: Path, kind: str) -> "Schema":
    import pyarrow as pa
    from pyarrow import parquet

    if kind == ".parquet":
        return parquet.read_schema(path)
    with pa.memory_map(str(path)) as file:
        try:
            return pa.ipc.open_stream(file).schema
        except pa.ArrowInvalid:
            file.seek(0)
            return pa.ipc.open_file(file).schema


def _text_flags_of_columns(
    columns: Iterable[Any], prefix: str = ""
) -> Iterator[tuple[str, bool | None]]:
    for column in columns:
        kind = str(column.type)
        is_unknown = kind.startswith(("null", "extension"))
        values = kind.removeprefix("dictionary<values=")
        yield prefix + column.name, None if is_unknown else values.startswith(TEXTS)
        if kind.startswith("struct<"):
            yield from _text_flags_of_columns(column.type, f"{prefix}{column.name}.")
