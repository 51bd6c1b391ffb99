"""The records of one evaluated checkpoint, table by table."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

INT, SHORT, REAL, TEXT = pa.int64(), pa.int32(), pa.float64(), pa.string()
WAY = [("step", INT), ("task", TEXT), ("shots", SHORT), ("formulation", TEXT)]

TABLES = {
    "perplexities": pa.schema(
        [
            *(("step", INT), ("domain", TEXT), ("nll", REAL), ("perplexity", REAL)),
            *(("bits_per_byte", REAL), ("tokens", INT), ("stderr", REAL)),
        ]
    ),
    "documents": pa.schema(
        [
            *(("step", INT), ("domain", TEXT), ("document", TEXT)),
            *(("nll", REAL), ("tokens", INT), ("bytes", INT)),
        ]
    ),
    "accuracies": pa.schema(
        [*WAY, ("metric", TEXT), ("value", REAL), ("stderr", REAL), ("examples", INT)]
    ),
    "choices": pa.schema(
        [
            *(*WAY, ("item", TEXT), ("document", TEXT), ("gold", SHORT), ("pick", SHORT)),
            *((name, pa.list_(REAL)) for name in ("sum_log_likelihood", "unconditional")),
            *((name, pa.list_(SHORT)) for name in ("tokens", "characters", "bytes")),
            ("shots_used", SHORT),
        ]
    ),
    "search_losses": pa.schema([("step", INT), ("domain", TEXT), ("nll", REAL), ("tokens", INT)]),
    "token_losses": pa.schema([("step", INT), ("domain", TEXT), ("nll", pa.list_(pa.float32()))]),
}
"""Columns of every table; the database adds the run."""

ON_REQUEST = ("search_losses", "token_losses")
"""Tables that are written only with rows."""


class TableRows:
    """Rows of every table of one checkpoint, the step left out."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}

    def add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Appends rows in the order of the table's columns."""
        self._rows[table] += rows

    def write(self, folder: Path, step: int) -> list[Path]:
        """Writes one Parquet file per table, without rows too but for those on request."""
        folder.mkdir(parents=True)
        written = []
        for name, schema in TABLES.items():
            if name in ON_REQUEST and not self._rows[name]:
                continue
            rows = [dict(zip(schema.names, (step, *r), strict=True)) for r in self._rows[name]]
            written.append(folder / f"{name}.parquet")
            table = pa.Table.from_pylist(rows, schema)
            pq.write_table(table, written[-1], compression="zstd")
        return written
