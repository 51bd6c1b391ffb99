"""Scores from a long table: a row for each model, item and score, in CSV, JSON lines or Parquet.

Columns `model`, `item` and `score`; where they are there also `seed` or `run` (which repeat of the
model a row is of), `task`, `document` or `cluster` (the text that an item was made from), `weight`
(how many tokens the score is the mean of) and `metric`.
"""

import gzip
import math
from pathlib import Path
from typing import Any

from pike_mixing import foreign_json
from pike_mixing.comparison.scores import Run, Scores
from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message
from pike_mixing.table_files import Columns, read_csv_or_parquet

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


def add_runs(path: Path, side: str, model_if_several: str | None, scores: Scores) -> None:
    """Adds the rows of one model, which must be named where the table has several.

    Of the side `EVERY`, each model becomes a side by itself.

    Raises:
        InputError: the table cannot be read, a column is missing, or a value is no number.
    """
    model, names = model_if_several, scores.reading.columns
    columns = _read_json_lines(path) if ".jsonl" in path.suffixes else read_csv_or_parquet(path)
    if wrong := [name for name in names if name not in COLUMNS]:
        raise InputError(unknown_name_message(wrong[0], COLUMNS, "--columns"))
    found = {what: columns.get(names.get(what, what)) for what in COLUMNS}
    for what in ("item", "score", *names):
        if found[what] is None:
            raise InputError(
                f"{path} has no column {names.get(what, what)!r}: it has "
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
            row = {what: of[n] for what, of in found.items() if of is not None}
            _add_row(f"{path}: row {n + 1}", str(model_N[n]), row, side, scores)


def _add_row(source: str, model: str, row: dict[str, Any], side: str, scores: Scores) -> None:
    seed = None if row.get("seed") in (None, "") else str(row["seed"])
    repeat = seed if seed is not None else row.get("run")
    name = model if repeat is None else f"{model}/{repeat}"
    run = Run(model if side == EVERY else side, name, seed)
    task, item = str(row.get("task", "items")), str(row["item"])
    score = _parse_number(source, "score", row["score"])
    weight = _parse_number(source, "weight", row.get("weight", 1.0))
    if weight <= 0:
        raise InputError(
            f"{source}: the weight {weight:g} is not above 0: mend or leave out the row"
        )
    # An item of one name in two tasks is two items, but a document of one name is one text.
    cluster = row.get("document", row.get("cluster"))
    cluster = f"{task}/{item}" if cluster is None else str(cluster)
    column = scores.find_or_add_column(task, str(row.get("metric", "score")), None)
    column.append_score_row(run, item, score, weight=weight, cluster=cluster, message_prefix=source)


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
                    rows.append(foreign_json.parse_json_or_value_error(line))
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
