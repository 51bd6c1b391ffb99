"""The records of one evaluated checkpoint, table by table."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_LENGTHS = pa.list_(pa.int32())
_NATS = pa.list_(pa.float64())

TABLES = {
    "perplexities": pa.schema(
        [
            ("step", pa.int64()),
            ("domain", pa.string()),
            ("nll", pa.float64()),
            ("perplexity", pa.float64()),
            ("bits_per_byte", pa.float64()),
            ("tokens", pa.int64()),
            ("stderr", pa.float64()),
        ]
    ),
    "documents": pa.schema(
        [
            ("step", pa.int64()),
            ("domain", pa.string()),
            ("document", pa.string()),
            ("nll", pa.float64()),
            ("tokens", pa.int64()),
            ("bytes", pa.int64()),
        ]
    ),
    "accuracies": pa.schema(
        [
            ("step", pa.int64()),
            ("task", pa.string()),
            ("shots", pa.int32()),
            ("formulation", pa.string()),
            ("metric", pa.string()),
            ("value", pa.float64()),
            ("stderr", pa.float64()),
            ("examples", pa.int64()),
        ]
    ),
    "choices": pa.schema(
        [
            ("step", pa.int64()),
            ("task", pa.string()),
            ("shots", pa.int32()),
            ("formulation", pa.string()),
            ("item", pa.string()),
            ("document", pa.string()),
            ("gold", pa.int32()),
            ("pick", pa.int32()),
            ("sum_log_likelihood", _NATS),
            ("unconditional", _NATS),
            ("tokens", _LENGTHS),
            ("characters", _LENGTHS),
            ("bytes", _LENGTHS),
            ("shots_used", pa.int32()),
        ]
    ),
}
"""Columns of every table; the database adds the run."""


class TableRows:
    """Rows of every table of one checkpoint, the step left out."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}

    def add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Appends rows in the order of the table's columns."""
        self._rows[table] += rows

    def write(self, folder: Path, step: int) -> list[Path]:
        """Writes one Parquet file per table, also of a table without rows."""
        folder.mkdir(parents=True)
        return [self._write(folder / f"{name}.parquet", name, step) for name in TABLES]

    def _write(self, path: Path, name: str, step: int) -> Path:
        schema, rows = TABLES[name], self._rows[name]
        columns = zip(*((step, *row) for row in rows), strict=True) if rows else [()] * len(schema)
        arrays = [pa.array(a, field.type) for a, field in zip(columns, schema, strict=True)]
        pq.write_table(pa.table(arrays, schema=schema), path, compression="zstd")
        return path
