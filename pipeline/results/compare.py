"""Two databases beside each other: two machines, two versions of the code, two corpora."""

import json
from pathlib import Path
from typing import Any, Literal

from pipeline.results import differences, query
from pipeline.results.differences import COLUMNS, Row

Format = Literal["text", "csv", "json"]


def compare(first: Path, second: Path, format: Format = "text") -> str:
    """What two databases have in common, and where they differ.

    Args:
        first: One database; differences are the other's value minus its.
        second: The other.
        format: `text` for people; `csv` and `json` have one row per run, setting and number.

    Raises:
        InputError: one is missing, is no database or lacks a column that this version reads.
    """
    connection = differences.both(first, second)
    try:
        rows = [*differences.runs(connection), *differences.settings(connection)]
        rows += [*differences.corpora(connection), *differences.numbers(connection)]
    finally:
        connection.close()
    if format == "csv":
        return query.comma_separated(list(COLUMNS), rows)
    if format == "json":
        objects = [dict(zip(COLUMNS, map(query.plain, row), strict=True)) for row in rows]
        return json.dumps(objects, indent=2, ensure_ascii=False)
    return _told(rows, first, second)


def _told(rows: list[Row], first: Path, second: Path) -> str:
    """The same for reading: what differs in the same way in several runs is said once."""
    runs = {verdict: [r[1] for r in rows if r[0] == "run" and r[-1] == verdict]
            for verdict in ("in both", "first only", "second only")}  # fmt: skip
    lines = [f"first: {first}", f"second: {second}", ""]
    lines += [f"runs in both: {len(runs['in both'])}"]
    for verdict in ("first only", "second only"):
        lines += [f"runs in the {verdict}: {len(runs[verdict])}"]
        lines += [f"  {run}" for run in runs[verdict]]
    alike: dict[tuple[Any, ...], list[str]] = {}
    for kind, name, quantity, a, b, *_ in rows:
        if kind in ("setting", "fact", "corpus"):
            alike.setdefault((kind, quantity, a, b), []).append(name)
    lines += [
        "",
        "what differs in settings, code and data:" if alike else "equal settings and data",
    ]
    for (kind, quantity, a, b), names in alike.items():
        lines.append(f"  {kind} {quantity}: {_shown(a)} -> {_shown(b)} ({_named(names)})")
    numbers = [r for r in rows if r[0] in ("perplexity", "accuracy")]
    differing = [r for r in numbers if not r[-1].startswith("equal")]
    lines += ["", f"numbers that are equal: {len(numbers) - len(differing)} of {len(numbers)}"]
    if differing:
        lines += ["", query.aligned([*COLUMNS], differing)]
    significant = sum(r[-1].startswith("significant") for r in differing)
    lines += ["", f"significant differences: {significant} of {len(numbers)} (accuracies corrected "
              "for each run's tasks, perplexities by 95% intervals)"]  # fmt: skip
    return "\n".join(lines)


def _named(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"in {len(names)}, the first: {names[0]}"


def _shown(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= query.WIDEST else text[: query.WIDEST - 3] + "..."
