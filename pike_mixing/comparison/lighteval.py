"""Details that lighteval logged (`--save-details`), as version 0.13 writes them.

Below one folder lie `results/MODEL/results_DATE.json` and
`details/MODEL/DATE/details_TASK_DATE.parquet`, a row for each document and way of sampling. An item
is a document (its id, and a hash of question, choices and answer) with its prompt (a hash of
instruction, shots and the model's input). The results file says which way is better, which model
was evaluated, and what the scores must average to: what they do not is no mean over items. Sums of
log-likelihoods with a count are compared per word or byte.
"""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pike_mixing import foreign_json
from pike_mixing.comparison.harness import ROLLING
from pike_mixing.comparison.scores import (
    Log,
    Run,
    Scores,
    hash_item,
    metric_without_filter,
    model_weights_text,
)
from pike_mixing.errors import InputError
from pike_mixing.table_files import read_columns

NAME = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?)\.parquet")
COLUMNS = ("doc", "metric", "model_response.input")
PROMPT = ("instruction", "fewshot_samples")


def find_details_files(path: Path) -> list[Path]:
    """The files of details that a path stands for."""
    if path.is_dir():
        return sorted(found for found in path.rglob("details_*.parquet") if NAME.match(found.name))
    return [path] if NAME.match(path.name) else []


def add_logs(
    given_path: Path, side: str, scores: Scores, metrics: Sequence[str], *,
    cluster: str | None, same_document: bool,
) -> None:  # fmt: skip
    """Adds the scores of logs.

    Args:
        given_path: A file of details, or a folder with some.
        side: Which side they are of.
        scores: Where to.
        metrics: Names that are wanted; all when empty.
        cluster: The field of a document's `specific` that says which others were made of one text;
            by default documents of one question are one.
        same_document: Leaves the prompt out of what identifies an item.

    Raises:
        InputError: a file is damaged or of another form, has no results file, or was read before.
    """
    for path in find_details_files(given_path):
        match = NAME.match(path.name)
        assert match is not None
        if scores.note_if_unwanted(match["task"]):
            continue
        folder = path.parent.parent if path.parent.name == match["date"] else path.parent
        results = _read_results(path, match["date"])
        log = Log(
            path, given_path, folder, match["task"], match["date"], _model_name(results) or None
        )
        run = scores.add_log(side, log)
        _add_details(
            path, match["task"], run, results, scores, metrics, cluster, same_document
        )  # fmt: skip


def _model_name(results: dict[str, Any]) -> str:
    """What was evaluated, as `model_weights_text` says it."""
    about = results.get("config_general") or {}
    settings = about.get("model_config")
    known = settings if isinstance(settings, dict) else {}
    return model_weights_text({"model_name": about.get("model_name"), **known})


def _read_results(path: Path, date: str) -> dict[str, Any]:
    """What the results file of an evaluation says."""
    name = f"results_{date}.json"
    top = next((folder for folder in path.parents if folder.name == "details"), path.parent)
    found = next((top if top == path.parent else top.parent).rglob(name), None)
    if found is None:
        raise InputError(
            f"{path}: there is no {name} beside the folder of details: keep both folders, results "
            "and details, that lighteval wrote"
        )
    return foreign_json.read_object(found, "evaluate again")


def _add_details(
    path: Path, task: str, run: Run, results: dict[str, Any], scores: Scores,
    metrics: Sequence[str], cluster: str | None, same_document: bool,
) -> None:  # fmt: skip
    columns = read_columns(path, COLUMNS)
    if lacking := [name for name in ("doc", "metric") if name not in columns]:
        raise InputError(
            f"{path} has no column {lacking[0]!r}: details of older versions of lighteval are not "
            "read: evaluate with 0.13, or make a table with the columns model, item and score"
        )
    if (version := (results.get("versions") or {}).get(task)) is not None:
        scores.note_fact(task, "version", version, run.name)
    wanted = set(map(metric_without_filter, metrics))
    found: dict[str, list[tuple[Any, str, Any]]] = {}
    inputs = columns.get("model_response") or [None] * len(columns["doc"])
    for n, (doc, values, response) in enumerate(
        zip(columns["doc"], columns["metric"], inputs, strict=True), 1
    ):
        item, text = _item_key_and_document(path, n, doc, response)
        of = text if cluster is None else _cluster_of_row(path, n, doc, cluster)
        for metric, value in (values if isinstance(values, dict) else {}).items():
            # A document that is sampled in two ways has two rows, each with its own metrics.
            if wanted and metric_without_filter(metric) not in wanted:
                scores.note_unwanted_metrics(task, [metric], wanted)
            elif value is not None:
                row = (item[:2] if same_document else item, of, value)
                found.setdefault(metric, []).append(row)
    for metric, rows in found.items():
        _add_metric(path, task, run, metric, rows, results, scores)


def _item_key_and_document(
    path: Path, row_number: int, doc: Any, response: Any
) -> tuple[tuple[str, str, str], str]:
    """What identifies a row, and its document."""
    if not isinstance(doc, dict) or _has_no_identity(doc):
        raise InputError(f"{path}: row {row_number} is no document of lighteval: evaluate again")
    text = hash_item([doc["query"], doc["choices"], doc["gold_index"]])
    given = (response or {}).get("input")
    prompt = hash_item([given, *(doc.get(name) or None for name in PROMPT)])
    return (str(doc["id"]), text, prompt), text


def _has_no_identity(doc: dict[str, Any]) -> bool:
    """Whether a document has no identity."""
    return any(name not in doc for name in ("id", "query", "choices", "gold_index"))


def _cluster_of_row(path: Path, row_number: int, doc: Any, field: str) -> str:
    known = doc.get("specific") or {}
    if field not in known:
        raise InputError(
            f"{path}: row {row_number}: --cluster: the document's `specific` has no {field!r}: it "
            f"has {', '.join(known) or 'nothing'}"
        )
    return json.dumps(known[field], sort_keys=True, default=repr)


def _add_metric(
    path: Path, task: str, run: Run, metric: str, rows: list[tuple[Any, str, Any]],
    results: dict[str, Any], scores: Scores,
) -> None:  # fmt: skip
    said = ((results.get("results") or {}).get(task) or {}).get(metric)
    label, scale = ROLLING.get(metric, (metric, 1.0))
    rolling = metric in ROLLING and all(isinstance(value, dict) for *_, value in rows)
    values, weights = [], []
    for item, _, value in rows:
        weight = 1.0
        if rolling:
            value, weight = value.get("logprobs"), value.get("weights")
        if isinstance(value, (dict, list, str)) or not isinstance(weight, (int, float)):
            _note_left_out(scores, task, metric, "its rows hold no number")
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
        _note_left_out(scores, task, metric, f"the scores' mean is {mean:.6g}, its result {said}")
        return
    column = scores.column(
        task, label, False if rolling else _is_higher_better(results, task, metric)
    )
    places, found = column.indices_and_scores(run)
    for (item, of, _), value, weight in zip(rows, values, weights, strict=True):
        places.append(column.index_of_item(item, weight, of, path))
        found.append(value)


def _note_left_out(scores: Scores, task: str, metric: str, why: str) -> None:
    note = f"{task}: {metric} is left out: it is no mean over items ({why})"
    scores.notes += [] if note in scores.notes else [note]


def _is_higher_better(results: dict[str, Any], task: str, metric: str) -> bool | None:
    """Whether a higher score is better; None where the results file does not say."""
    for one in ((results.get("config_tasks") or {}).get(task) or {}).get("metrics") or []:
        named, higher = one.get("metric_name"), one.get("higher_is_better")
        if metric == named or (isinstance(named, list) and metric in named):
            found = higher.get(metric) if isinstance(higher, dict) else higher
            return found if isinstance(found, bool) else None
    return None
