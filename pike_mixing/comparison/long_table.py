"""Scores from a long table: a row for each model, item and score, in CSV, JSON lines or Parquet.

Columns `model`, `item` and `score`; where they are there also `seed` or `run` (which repeat of the
model a row is of), `task`, `document` or `cluster` (the text that an item was made from), `weight`
(how many tokens the score is the mean of) and `metric`.
"""

import gzip
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pike_mixing import foreign_json
from pike_mixing.comparison.scores import Run, Scores
from pike_mixing.errors import InputError
from pike_mixing.settings import unknown_name_message
from pike_mixing.table_files import Columns, read_columns

COLUMNS = (
    "model",
    "item",
    "score",
    "seed",
    "run",
    "task",
    "document",
    "cluster",
    "weight",
    "metric",
)
EVERY = "*"
"""The side of a table whose models are each a side by itself."""
TRUTH = {"true": 1.0, "false": 0.0}


def add_runs(
    path: Path, side: str, scores: Scores, *, model: str | None, column_names: Mapping[str, str]
) -> None:
    """Adds the rows of one model to the scores.

    Args:
        path: The table.
        side: Which side the model is.
        scores: Where to.
        model: Which model; the only one of the table when absent.
        column_names: Columns with other names, by what they are: `item=question_id`.

    Raises:
        InputError: the table cannot be read, a column is missing, or a value is no number.
    """
    columns = _read_json_lines(path) if ".jsonl" in path.suffixes else read_columns(path)
    if wrong := [name for name in column_names if name not in COLUMNS]:
        raise InputError(unknown_name_message(wrong[0], COLUMNS, "--columns"))
    found = {what: columns.get(column_names.get(what, what)) for what in COLUMNS}
    for what in ("item", "score", *column_names):
        if found[what] is None:
            raise InputError(
                f"{path} has no column {column_names.get(what, what)!r}: it has "
                f"{', '.join(columns)}: say which one it is: --columns {what}=NAME"
            )
    count = len(found["item"] or [])
    model_N = found["model"] or [path.stem] * count
    known = dict.fromkeys(map(str, model_N))
    if model is None and side != EVERY and len(known) > 1:
        raise InputError(
            f"{path} has {len(known)} models: {', '.join(known)}: say which to compare: "
            f"--models {' '.join(list(known)[:2])}"
        )
    if model is not None and model not in known:
        raise InputError(unknown_name_message(model, known, f"{path}: --models"))
    for n in range(count):
        if model is None or str(model_N[n]) == model:
            _add_row(
                path, n, {what: of[n] for what, of in found.items() if of is not None}, side, scores
            )


def _add_row(path: Path, row_index: int, row: dict[str, Any], side: str, scores: Scores) -> None:
    source = f"{path}: row {row_index + 1}"
    seed = None if row.get("seed") in (None, "") else str(row["seed"])
    name = str(row.get("model", path.stem))
    repeat = seed if seed is not None else row.get("run")
    side = name if side == EVERY else side
    run = Run(side, name if repeat is None else f"{name}/{repeat}", seed)
    task, item = str(row.get("task", "items")), str(row["item"])
    score, weight = (
        _parse_number(source, "score", row["score"]),
        _parse_number(source, "weight", row.get("weight", 1.0)),
    )
    if weight <= 0:
        raise InputError(
            f"{source}: the weight {weight:g} is not above 0: mend or leave out the row"
        )
    # An item of one name in two tasks is two items, but a document of one name is one text.
    cluster = row.get("document", row.get("cluster"))
    named = f"{task}/{item}" if cluster is None else str(cluster)
    column = scores.column(task, str(row.get("metric", "score")), None)
    places, values = column.indices_and_scores(run)
    places.append(column.index_of_item(item, weight, named, source))
    values.append(score)


def _parse_number(source: str, column: str, value: object) -> float:
    try:
        text = str(value).strip().lower()
        number = TRUTH[text] if text in TRUTH else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{source}: {column} {value!r} is no number: mend or leave out the row")
    return number


def _read_json_lines(path: Path) -> Columns:
    rows: list[dict[str, object]] = []
    number = 0
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            for line in file:
                number += 1
                if line.strip():
                    rows.append(foreign_json.parse_json(line))
                    if not isinstance(rows[-1], dict):
                        raise ValueError
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: check the path") from None
    except ValueError:
        raise InputError(f"{path}: line {number} is no JSON object: mend it") from None
    if not rows:
        raise InputError(f"{path} has no rows: give a row for each item")
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        lacking = [n for n, row in enumerate(rows, 1) if name not in row]
        if lacking and name in COLUMNS:
            raise InputError(f"{path}: line {lacking[0]} has no {name!r}: mend it")
    return {name: [row.get(name) for row in rows] for name in names}
