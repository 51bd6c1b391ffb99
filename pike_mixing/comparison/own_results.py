"""Losses from a results database of this project, or from the records that it was made of."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pike_mixing.comparison.scores import Run, Scores
from pike_mixing.errors import InputError
from pike_mixing.settings import unknown

METRIC = "loss (nats per token)"
COLUMNS = ("run", "step", "domain", "document", "nll", "tokens")


def records(path: Path) -> Path | None:
    """The database or table of documents' losses that a path stands for; None where it is none."""
    if path.suffix == ".duckdb" or path.name == "documents.parquet":
        return path
    places = (path / "records" / "documents.parquet", path / "documents.parquet")
    return next((place for place in places if place.exists()), None)


def read(path: Path, side: str, scores: Scores, method: str | None) -> None:
    """Adds the losses of a method's runs after their last step, by domain and document.

    A run is named scenario/size/method/seed. Documents are the items, of their tokens' weight; a
    text in several domains is one document.

    Args:
        path: The database, or the table of documents.
        side: Which side the method is.
        scores: Where to.
        method: scenario/size/method.

    Raises:
        InputError: the file cannot be read, or the method is not there.
    """
    rows = list(_database(path) if path.suffix == ".duckdb" else _table(path))
    last: dict[str, int] = {}
    for run, step, *_ in rows:
        last[run] = max(step, last.get(run, 0))
    known = dict.fromkeys(run.rpartition("/")[0] for run in last)
    if method not in known:
        raise InputError(unknown(method or "", known, f"{path}: --models SCENARIO/SIZE/METHOD"))
    for run, step, domain, document, nll, tokens in rows:
        of, _, seed = run.rpartition("/")
        if of == method and step == last[run]:
            column = scores.column(domain, METRIC, False)
            places, values = column.rows(Run(side, run, seed))
            # Two texts of one beginning have one name and other lengths.
            item = (document, tokens)
            places.append(column.place(item, float(tokens), document, path))
            values.append(nll / tokens)


def _database(path: Path) -> Iterator[tuple[Any, ...]]:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise InputError(
            f"{path}: a database needs the package 'duckdb', which is not installed: run "
            "`pip install duckdb`"
        ) from None
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            yield from connection.execute(f"select {', '.join(COLUMNS)} from documents").fetchall()
    except duckdb.Error as error:
        raise InputError(f"{path} is no results database: {error}: check the path") from None


def _table(path: Path) -> Iterator[tuple[Any, ...]]:
    from pike_mixing.table_files import read_columns

    columns = read_columns(path)
    if lacking := [name for name in COLUMNS if name not in columns]:
        raise InputError(f"{path} has no column {lacking[0]!r}: give the table of a results folder")
    yield from zip(*(columns[name] for name in COLUMNS), strict=True)
