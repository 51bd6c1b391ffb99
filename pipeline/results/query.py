"""Questions put to the database in SQL."""

import csv
import io
import json
import math
import textwrap
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline.planning import outdated, planner
from pipeline.results.selection import connect
from pipeline.runtime import atomic_files

Format = Literal["table", "csv", "json", "parquet"]

WIDEST = 60
"""Characters of a cell in the aligned table; longer ones are cut with `...`."""


def query(sql: str, database: Path, format: Format = "table") -> str | bytes:
    """Answers one SQL statement, opened for reading only; texts end without a line break.

    Args:
        sql: The statement.
        database: The experiment's database.
        format: `table` is aligned for people; `csv`, `json` (a list of objects) and `parquet`
            (bytes) are for machines.

    Raises:
        InputError: there is no database, the statement is wrong (the message is DuckDB's), there is
            none or more than one, or `json` or `parquet` would lose a column.
    """
    connection = connect(database)
    try:
        statement = _only(connection, sql)
        if "stale" in sql.lower():
            _add_outdated(connection, database)
        if format == "parquet":
            return _parquet(connection, statement)
        answer = connection.execute(statement)
        columns = [column[0] for column in answer.description or []]
        rows = answer.fetchall()
    except (duckdb.Error, pa.ArrowException, UnicodeEncodeError) as error:
        hint = '`pike query "show tables"` lists tables and views'
        text = textwrap.indent(str(error).strip(), "  ")
        if "pytz" in text:  # DuckDB wants it to show times with a time zone.
            text += "\n  A time with a time zone is shown after ::timestamp or ::text behind it."
        raise InputError(f"the query cannot be answered ({hint}):\n{text}") from None
    finally:
        connection.close()
    if format == "csv":
        return comma_separated(columns, rows)
    if format == "json":
        _refuse_twice(columns)
        objects = [{c: plain(v) for c, v in zip(columns, row, strict=True)} for row in rows]
        return json.dumps(objects, indent=2, ensure_ascii=False)
    return aligned(columns, rows)


def _only(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """The one statement of a text; DuckDB would answer the last of several alone.

    Raises:
        InputError: there is none, or there are several.
        duckdb.Error, UnicodeEncodeError: it is no SQL, or no text.
    """
    sql.encode()
    statements = connection.extract_statements(sql)
    if not statements:
        raise InputError(f"{sql!r} holds no statement: ask for instance 'from runs'")
    if len(statements) > 1:
        raise InputError(
            f"there are {len(statements)} statements: ask one at a time, without `;` between them"
        )
    return statements[0]


def _refuse_twice(columns: list[str]) -> None:
    """Objects have each name once: the values of the other columns would be lost.

    Raises:
        InputError: two columns have one name.
    """
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise InputError(
            f"columns that have one name: {', '.join(twice)}: name them apart with `as`, or ask "
            "for a table or csv"
        )


def _add_outdated(connection: duckdb.DuckDBPyConnection, database: Path) -> None:
    """Lays over the view `stale` what the configuration of today would have made otherwise.

    The view itself knows the settings and the code that the database was built with. Where the
    configuration is not at hand, results that were copied without their clone, that is all.

    Raises:
        InputError: the configuration cannot be used.
    """
    stamps = [folder / "experiment.json" for folder in database.absolute().parents[:2]]
    stamp: Any = next((atomic_files.read_json(path) for path in stamps if path.is_file()), {})
    origin = Path(str(stamp.get("configuration")))
    if not origin.is_file():
        return
    plan = planner.plan(planner.read(origin), str(origin))
    connection.execute(
        "create temp table outdated (artifact text, reason text, recorded text, expected text)"
    )
    if found := [list(one) for one in outdated.every(plan)]:
        connection.executemany("insert into outdated values (?, ?, ?, ?)", found)
    catalog = connection.execute("select current_catalog()").fetchall()[0][0]
    connection.execute(
        f'create temp view stale as select * from "{catalog}".main.stale '
        "union select * from outdated order by artifact, reason"
    )


def _parquet(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> bytes:
    relation = connection.sql(statement)
    if relation is None:
        raise InputError("the statement has no rows to write as Parquet: ask with `select`")
    _refuse_twice(relation.columns)
    out = io.BytesIO()
    pq.write_table(relation.to_arrow_table(), out)
    return out.getvalue()


def comma_separated(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue().removesuffix("\n")


def plain(value: Any) -> Any:
    """As JSON has it: no NaN, no infinity, no decimals; times as text."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else None
    return value if isinstance(value, bool | int | str | None) else str(value)


def aligned(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    """Columns under their names, numbers to the right, and the count of rows."""
    texts = [[_text(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    right = [
        bool(rows) and all(isinstance(row[i], int | float | Decimal | None) for row in rows)
        for i in range(len(columns))
    ]

    def line(cells: list[str]) -> str:
        padded = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(cells, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    counted = f"({len(rows):,} row{'' if len(rows) == 1 else 's'})"
    return "\n".join([line(columns), rule, *map(line, texts), counted])


def _text(value: Any) -> str:
    """One line of at most `WIDEST` characters; floats with six significant digits."""
    if isinstance(value, float | Decimal):
        return f"{value:.6g}"
    return cut("" if value is None else " ".join(str(value).split()))


def cut(text: str) -> str:
    """At most `WIDEST` characters."""
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."
