"""Tables as columns: CSV (also compressed), or Parquet, with pyarrow."""

import csv
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

from pike_mixing import foreign_json
from pike_mixing.errors import InputError, refuse, refuse_without_package

Columns = dict[str, list[object]]


def read_csv_or_parquet(path: Path, only_of_parquet: Sequence[str] | None = None) -> Columns:
    """The columns of a table by name, from the top down; texts of a CSV, values of a Parquet file.

    Of a Parquet file, `only_of_parquet` names the columns and parts of columns (`a.b`) to read if
    they are there.

    Raises:
        InputError: the file cannot be read, has no rows or a name twice, or rows of other lengths.
    """
    if path.suffix == ".parquet":
        return _read_parquet(path, only_of_parquet)
    return _read_csv_as_texts(path)


def _read_csv_as_texts(path: Path) -> Columns:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read: {why}: check the path") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no CSV in UTF-8: {error}: write it anew") from None
    if len(header) == 1 and (other := [mark for mark in ";\t" if mark in header[0]]):
        raise InputError(
            f"{path}: columns stand between {other[0]!r}: write commas, and 0.5, not 0,5"
        )
    header = [name.strip() for name in header]
    _refuse_repeated_names(path, header)
    ragged = [
        f"{path}: row {n}: {len(row)} values for {len(header)} columns: mend it"
        for n, row in enumerate(rows, 1)
        if len(row) != len(header)
    ]
    refuse_first_problems(ragged)
    if not rows:
        raise InputError(f"{path} has no rows: give a header and a row for each run")
    return {name: [row[m] for row in rows] for m, name in enumerate(header)}


def _read_parquet(path: Path, only: Sequence[str] | None) -> Columns:
    refuse_without_package(f"{path}: Parquet", "pyarrow", ", or give a CSV")
    from pyarrow import ArrowInvalid, parquet

    foreign_json.refuse_pipes_and_folders(path, "write it anew")
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read(None if only is None else list(only))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}: check the path") from None
    except ArrowInvalid as error:
        raise InputError(f"{path} is no Parquet file: {error}: write it anew") from None
    _refuse_repeated_names(path, table.column_names)
    if not table.num_rows:
        raise InputError(f"{path} has no rows: give a row for each run")
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _refuse_repeated_names(path: Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: the column {twice[0]!r} is there twice: rename one")


def refuse_first_problems(problems: list[str]) -> None:
    """Raises the first problems of a table: of a thousand rows all may be wrong alike."""
    more = [f"{len(problems) - 5} more"] if len(problems) > 5 else []
    refuse(problems[:5] + more)
