"""Details that lighteval logged (`--save-details`), as version 0.13 writes them.

Below one folder lie `results/MODEL/results_DATE.json` and
`details/MODEL/DATE/details_TASK_DATE.parquet`, a row for each document and way of sampling. An item
is a document (its id, and a hash of question, choices and answer) with its prompt (a hash of
instruction, shots and the model's input). The results file says which way is better, which model
was evaluated, and what the scores must average to: what they do not is no mean over items. Sums of
log-likelihoods with a count are compared per word or byte.
"""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing import foreign_json
from pike_mixing.comparison.lm_eval_harness import ROLLING
from pike_mixing.comparison.scores import (
    Log,
    Run,
    Scores,
    cluster_key,
    hash_item,
    model_weights_text,
)
from pike_mixing.errors import InputError
from pike_mixing.table_files import read_csv_or_parquet

NAME = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?)\.parquet")
COLUMNS = ("doc", "metric", "model_response.input")
IDENTITY = ("id", "query", "choices", "gold_index")
PROMPT = ("instruction", "fewshot_samples")


def find_logs(path: Path) -> list[Path]:
    """The files of details that a path stands for."""
    if path.is_dir():
        return sorted(found for found in path.rglob("details_*.parquet") if NAME.match(found.name))
    return [path] if NAME.match(path.name) else []


def add_log(path: Path, given_path: Path, side: str, scores: Scores) -> None:
    """Adds the scores of a file of details, found in a path of the command line.

    By default documents of one question are made from one text; `--cluster` names a field of their
    `specific`.

    Raises:
        InputError: the file is damaged or of another form, has no results file, or was read before.
    """
    match = NAME.match(path.name)
    assert match is not None
    task, date = match["task"], match["date"]
    if scores.needs_task_else_notes_it(task):
        folder = path.parent.parent if path.parent.name == date else path.parent
        results = _read_required_results_beside(path, date)
        about = results.get("config_general") or {}
        settings = about.get("model_config")
        known = settings if isinstance(settings, dict) else {}
        model = model_weights_text({"model_name": about.get("model_name"), **known})
        log = Log(path, given_path, folder, task, date, model or None, side)
        _add_details(path, task, scores.add_log(log), results, scores)


def _read_required_results_beside(details_path: Path, date: str) -> dict[str, Any]:
    """What the results file says that an evaluation wrote beside these details."""
    name = f"results_{date}.json"
    top = next(
        (folder for folder in details_path.parents if folder.name == "details"), details_path.parent
    )
    found = next((top if top == details_path.parent else top.parent).rglob(name), None)
    if found is None:
        raise InputError(
            f"{details_path}: there is no {name} beside the folder of details: keep both folders, "
            "results and details, that lighteval wrote"
        )
    return foreign_json.read_json_nonobject_as_empty(found, "evaluate again")


def _add_details(path: Path, task: str, run: Run, results: dict[str, Any], scores: Scores) -> None:
    columns, reading = read_csv_or_parquet(path, COLUMNS), scores.reading
    if lacking := [name for name in ("doc", "metric") if name not in columns]:
        raise InputError(
            f"{path} has no column {lacking[0]!r}: details of older versions of lighteval are not "
            "read: evaluate with 0.13, or make a table with the columns model, item and score"
        )
    if (version := (results.get("versions") or {}).get(task)) is not None:
        scores.note_fact(task, "version", version, run.name)
    found: dict[str, list[_Row]] = {}
    inputs = columns.get("model_response") or [None] * len(columns["doc"])
    rows: Any = zip(columns["doc"], columns["metric"], inputs, strict=True)
    for n, (doc, values, response) in enumerate(rows, 1):
        if not isinstance(doc, dict) or not doc.keys() >= {*IDENTITY}:
            raise InputError(f"{path}: row {n} is no document of lighteval: evaluate again")
        cluster = text = hash_item([doc["query"], doc["choices"], doc["gold_index"]])
        if reading.cluster is not None:
            cluster = cluster_key(f"{path}: row {n}", doc.get("specific"), reading.cluster)
        item: tuple[str, ...] = (str(doc["id"]), text)
        if not reading.same_document:
            given = (response or {}).get("input")
            item += (hash_item([given, *(doc.get(name) or None for name in PROMPT)]),)
        # A document that is sampled in two ways has two rows, each with its own metrics.
        for metric, value in (values if isinstance(values, dict) else {}).items():
            if scores.needs_metric_else_notes_it(task, metric) and value is not None:
                found.setdefault(metric, []).append(_Row(item, cluster, value))
    for metric, of_metric in found.items():
        _add_or_leave_out_metric(path, task, run, metric, of_metric, results, scores)


class _Row(NamedTuple):
    """What one row holds of one metric."""

    item: tuple[str, ...]
    cluster: str
    value: Any


def _add_or_leave_out_metric(
    path: Path, task: str, run: Run, metric: str, rows: list[_Row], results: dict[str, Any],
    scores: Scores,
) -> None:  # fmt: skip
    said = ((results.get("results") or {}).get(task) or {}).get(metric)
    label, scale = ROLLING.get(metric, (metric, 1.0))
    rolling = metric in ROLLING and all(isinstance(row.value, dict) for row in rows)
    values, weights = [], []
    for item, _, value in rows:
        weight = 1.0
        if rolling:
            value, weight = value.get("logprobs"), value.get("weights")
        if isinstance(value, (dict, list, str)) or not isinstance(weight, (int, float)):
            scores.note_left_out(task, metric, "its rows hold no number")
            return
        if value is None or not math.isfinite(value) or not weight > 0:
            raise InputError(
                f"{path}: document {item[0]}: {metric} is {value!r}, no number that can be "
                "averaged: evaluate again, or compare another metric with --metric"
            )
        weights.append(float(weight))
        values.append(-value / weight / scale if rolling else float(value))
    mean = math.fsum(map(math.prod, zip(values, weights, strict=True))) / math.fsum(weights)
    if rolling and metric != "bits_per_byte":
        mean = math.exp(mean)
    if not isinstance(said, (int, float)) or abs(mean - said) > 1e-6 * max(1.0, abs(said)):
        why = f"the scores' mean is {mean:.6g}, its result {said}"
        scores.note_left_out(task, metric, why)
        return
    higher = False if rolling else _is_higher_better(results, task, metric)
    column = scores.find_or_add_column(task, label, higher)
    for (item, cluster, _), value, weight in zip(rows, values, weights, strict=True):
        column.append_score_row(
            run, item, value, weight=weight, cluster=cluster, message_prefix=path
        )


def _is_higher_better(results: dict[str, Any], task: str, metric: str) -> bool | None:
    """Whether a higher score is better; None where the results file does not say."""
    for one in ((results.get("config_tasks") or {}).get(task) or {}).get("metrics") or []:
        named, higher = one.get("metric_name"), one.get("higher_is_better")
        if metric == named or (isinstance(named, list) and metric in named):
            found = higher.get(metric) if isinstance(higher, dict) else higher
            return found if isinstance(found, bool) else None
    return None
