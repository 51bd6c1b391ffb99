"""Two databases beside each other: two machines, two versions of the code, two corpora.

The second's runs stand for a method that is compared with the first's. So the tests that compare
methods within one database do it: losses by document (`seed_differences`), multiple choice by item
(`comparisons`), both by seed.
"""

from pathlib import Path
from typing import Any, Literal

import duckdb

from pike_mixing.errors import InputError
from pipeline.planning import paper_roles
from pipeline.results import comparisons, views
from pipeline.results.selection import connect
from pipeline.runtime import presentation

Format = Literal["text", "csv", "json"]

TABLES = ("runs", "domains", "corpora", "perplexities", "documents", "accuracies", "choices")
"""Tables that both databases must have, with all their columns."""
COLUMNS = (
    "kind", "name", "quantity", "first", "second", "difference", "low", "high", "p", "seeds",
    "verdict",
)  # fmt: skip

SQL = Path(__file__).parent / "compare_sql"

Row = tuple[Any, ...]
"""A value for each of `COLUMNS`."""

RUNS = """
    insert into runs by name
        select r.* replace (
            '{side}/' || l.label as run, l.name as model, '{side}' as method, l.seed as seed
        )
        from labelled as l join {side}.runs as r on l.run = r.run
"""
RECORDS = """
    insert into {table} by name
        select x.* replace ('{side}/' || l.label as run)
        from labelled as l
        join {side}.{table} as x on l.run = x.run
        where {kept}
        qualify x.step = max(x.step) over (partition by l.label)
"""
TEXT = "(l.tokenizer, {source}) in (select (tokenizer, source) from same_text)"
CONTINUED = f"replace(x.task, '{paper_roles.CONTINUATION}', '')"
KEPT = {
    "perplexities": "true",
    "documents": TEXT.format(source="x.domain"),
    "accuracies": "true",
    "choices": f"x.task = {CONTINUED} or {TEXT.format(source=CONTINUED)}",
}
"""Last records that are compared: documents and continuations of another text are not."""


def compare(first: Path, second: Path, format: Format = "text") -> str:
    """What two databases have in common, and where they differ.

    Args:
        first: One database; differences are the other's value minus its.
        second: The other.
        format: `text` for people; `csv` and `json` have one row per run, setting and number.

    Raises:
        InputError: one is missing, is no database or lacks a column that this version reads.
    """
    with _both(first, second) as connection:
        facts = connection.execute(_sql("facts")).fetchall()
        rows = [(*row[:-1], *[None] * 5, row[-1]) for row in facts]
        rows += connection.execute(_sql("numbers")).fetchall()
    told = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    return presentation.shown(format, told, lambda: _told(rows, first, second))


def _both(first: Path, second: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory with both attached, and what their common runs left in its tables."""
    connection = duckdb.connect()
    shown = ("method_domains", "method_averages", "seed_differences", "mean_tasks")
    views.create(connection, *shown)
    sql = "select table_name, column_name from information_schema.columns"
    wanted = {row for row in connection.execute(sql).fetchall() if row[0] in TABLES}
    _refuse_missing(first, second)
    for side, path in (("first", first), ("second", second)):
        with connect(path) as opened:
            missing = sorted(wanted - set(opened.execute(sql).fetchall()))
        if len(missing) == len(wanted):
            raise InputError(f"{path} is no database of an experiment: give one of `pike database`")
        if missing:
            raise InputError(
                f"{path} lacks {', '.join(map('.'.join, missing))}: it was made by another "
                "version; make it anew from its records with `pike database` and this version"
            )
        quoted = str(path).replace("'", "''")
        connection.execute(f"attach '{quoted}' as {side} (read_only)")
    connection.execute(_sql("common"))
    for side in ("first", "second"):
        connection.execute(RUNS.format(side=side))
        for table, kept in KEPT.items():
            connection.execute(RECORDS.format(table=table, side=side, kept=kept))
    comparisons.fill(connection)
    return connection


def _sql(name: str) -> str:
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


def _refuse_missing(first: Path, second: Path) -> None:
    """Names each of the two that is not there, by its place in what was typed."""
    problems = []
    for side, path in (("FIRST", first), ("SECOND", second)):
        try:
            connect(path).close()
        except InputError as error:
            problems.append(f"{side}: {error}")
    if problems:
        raise InputError("\n".join(problems))


def _told(rows: list[Row], first: Path, second: Path) -> str:
    """The same for reading: what differs in the same way in several runs is said once."""
    runs = {verdict: [r[1] for r in rows if r[0] == "run" and r[-1] == verdict]
            for verdict in ("in both", "first only", "second only")}  # fmt: skip
    lines = [f"first: {first}", f"second: {second}", ""]
    lines += [f"runs in both: {len(runs['in both'])}"]
    for verdict in ("first only", "second only"):
        lines += [f"runs in the {verdict}: {len(runs[verdict])}"]
        lines += [f"  {run}" for run in runs[verdict]]
    alike: dict[Row, list[str]] = {}
    for kind, name, quantity, a, b, *_ in rows:
        if kind in ("setting", "fact", "corpus"):
            alike.setdefault((kind, quantity, a, b), []).append(name)
    equal = "equal settings and data"
    lines += ["", "what differs in settings, code and data:" if alike else equal]
    for (kind, quantity, a, b), names in alike.items():
        where = names[0] if len(names) == 1 else f"in {len(names)}, the first: {names[0]}"
        lines.append(f"  {kind} {quantity}: {_shown(a)} -> {_shown(b)} ({where})")
    numbers = [r for r in rows if r[0] in ("perplexity", "accuracy")]
    differing = [r for r in numbers if not r[-1].startswith("equal")]
    lines += ["", f"numbers that are equal: {len(numbers) - len(differing)} of {len(numbers)}"]
    if differing:
        lines += ["", presentation.aligned([*COLUMNS], differing)]
    significant = sum(r[-1].startswith("significant") for r in differing)
    lines += ["", f"significant differences: {significant} of {len(numbers)} (accuracies corrected "
              "for each run's tasks, perplexities by 95% intervals)"]  # fmt: skip
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return "nothing" if value is None else presentation.cut(str(value))
