"""Records of other people's files: a row of Parquet, a line of JSON, a line of text."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.runtime import file_kinds


def read_records_by_suffix(path: Path, remedy: str) -> Iterator[Any]:
    """The records of a file in their order, in bounded memory; blank lines are left out.

    `path` is a .parquet, .jsonl or .txt file, the latter two also as .gz; of .txt a record is a
    line, of every other suffix JSON is expected. `remedy` is what to do when it cannot be read.
    """
    place = str(path)
    try:
        file_kinds.refuse_content_unlike_suffix(path)
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches():
                    yield from batch.to_pylist()
            return
        packed = path.suffix == ".gz"
        plain = (path.with_suffix("") if packed else path).suffix == ".txt"
        with (gzip.open if packed else open)(path, "rt", encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                place = f"{path}:{number}"
                if line.strip():
                    record = line if plain else json.loads(line)
                    # JSON can escape a lone surrogate, which no text may hold.
                    json.dumps(record, ensure_ascii=False).encode()
                    yield record
    except InputError:
        raise
    except (OSError, EOFError, zlib.error, ValueError, RecursionError, pa.ArrowException) as error:
        errors.refuse_process_resource_shortage(error)
        raise InputError(f"{place} cannot be read ({error}): {remedy}") from error
