"""Samples that lm-evaluation-harness logged (`--log_samples`).

The harness writes `samples_<task>_<date>.jsonl`, a line for each document and filter, and beside
them `results_<date>.json`, which says how metrics are aggregated, which way is better, and which
model was evaluated. An item is a document (its number and hash) with its prompt (a hash).
Lines have these hashes since version 0.4.3, and the names of filter and metrics since 0.4.8:
before, a document's lines stand in the order of the filters that the results file lists.
"""

import contextlib
import functools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing import foreign_json
from pike_mixing.comparison.scores import (
    Column,
    Log,
    Run,
    Scores,
    cluster_key,
    model_weights_text,
)
from pike_mixing.errors import InputError

NAME = re.compile(
    r"samples_(?P<task>.+?)(_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?))?\.jsonl$"
)
FILTER, DOCUMENT, START = b', "filter": "', b', "doc": ', b'{"doc_id": '
BETWEEN = (b', "target": ', b', "arguments": ', b', "resps": ', b', "filtered_resps": ')
CONTROL = bytes({*range(32)} - {*b"\n"})
"""Characters that JSON has nowhere, as where a disk or a copy lost a block."""
IDENTITY = ("doc_id", "doc_hash", "prompt_hash")
"""Keys of a line that say which item it is."""
HASHES = ("doc_hash", "prompt_hash", "target_hash")
OTHERS = {
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *HASHES,
}
"""Keys of a line that are no metrics."""
UP = {"acc", "acc_norm", "acc_mutual_info", "exact_match", "f1", "likelihood", "pass@1"}
"""Metrics that are means over items and better when higher, where no results file says so."""
ROLLING = {
    "word_perplexity": ("word_perplexity (nats per word)", 1.0),
    "byte_perplexity": ("byte_perplexity (nats per byte)", 1.0),
    "bits_per_byte": ("bits_per_byte", math.log(2)),
}
"""Metrics of a sum of log-likelihoods and a count: what their mean over the count is called."""


def find_logs(path: Path) -> list[Path]:
    """The files of samples that a path stands for."""
    if path.is_dir():
        return sorted(path.rglob("samples_*.jsonl"))
    if path.suffix != ".jsonl" or not path.is_file():
        return []
    with path.open("rb") as file:
        return [path] if NAME.match(path.name) or b'"doc_hash"' in file.readline() else []


def add_log(path: Path, given_path: Path, side: str, scores: Scores) -> None:
    """Adds the scores of a file of samples, found in a path of the command line.

    By default documents of one hash are made from one text.

    Raises:
        InputError: the file is damaged, cut, of another form, or was read before.
    """
    match = NAME.match(path.name)
    task, date = (match["task"], match["date"]) if match else (path.stem, None)
    if scores.needs_task_else_notes_it(task):
        about = _TaskResults(path, task, date)
        log = Log(path, given_path, path.parent, task, date or "", about.model() or None, side)
        _add_samples(path, about, scores.add_log(log), scores)


class _TaskResults:
    """What the results file says of one task; nothing where there is none."""

    def __init__(self, path: Path, task: str, date: str | None) -> None:
        self.task = task
        found = sorted(path.parent.glob(f"*_{date}.json")) if date else []
        self.whole = _read_results(found[0]) if found else {}
        self.config = self._entry("configs") or {}
        listed = self.config.get("metric_list") or []
        filters = self.config.get("filter_list") or [{"name": "none"}]
        self.filters = [str(one.get("name")) for one in filters]
        self.listed = {one["metric"]: one for one in listed if isinstance(one.get("metric"), str)}

    def _entry(self, section: str) -> Any:
        return (self.whole.get(section) or {}).get(self.task)

    def model(self) -> str:
        """What was evaluated, as `model_weights_text` says it."""
        config = self.whole.get("config") or {}
        given = config.get("model_args")
        if isinstance(given, str):
            given = dict(part.split("=", 1) for part in given.split(",") if "=" in part)
        known = given if isinstance(given, dict) else {}
        return model_weights_text(known, config.get("model_revision"), config.get("model_sha"))

    def note_facts(self, scores: Scores, run: Run) -> None:
        """Notes what runs must share."""
        for fact, part in (("version", "versions"), ("number of shots", "n-shot")):
            if (value := self._entry(part)) is not None:
                scores.note_fact(self.task, fact, value, run.name)

    def expected_documents(self) -> int | None:
        """How many documents were evaluated."""
        number = (self._entry("n-samples") or {}).get("effective")
        return number if isinstance(number, int) and number > 0 else None

    def aggregation(self, metric: str) -> str | None:
        """How the metric makes one number of many items; None where nothing says so."""
        if metric in (*ROLLING, "perplexity"):
            return "mean"
        aggregation: str | None = self.listed.get(metric, {}).get("aggregation")
        if aggregation is None and self.is_higher_better(metric) is not None:
            return "mean"
        return aggregation

    def is_higher_better(self, metric: str) -> bool | None:
        """Whether higher is better; None where nothing says so."""
        if metric in (*ROLLING, "perplexity"):
            return False
        higher = (self._entry("higher_is_better") or {}).get(metric)
        if higher is None:
            higher = self.listed.get(metric, {}).get("higher_is_better")
        return True if higher is None and metric in UP else higher


@functools.cache
def _read_results(results_path: Path) -> dict[str, Any]:
    return foreign_json.read_json_nonobject_as_empty(results_path, "evaluate again")


def _numbered_rows(path: Path, parse_whole_rows: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows with their numbers; by default their ends alone are parsed.

    A row is long by its prompt, and what counts stands at both ends. A quotation mark in a text is
    escaped, so that the last unescaped key `filter` and what follows it is the end of the row. What
    stands between must be text all the same, with its keys: a damaged middle may join two rows.
    """
    foreign_json.refuse_pipes_and_folders(path, "evaluate again")
    parse, number = foreign_json.parse_json_or_value_error, 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                head = line.find(DOCUMENT, 0, 80)
                tail = line.rfind(FILTER)
                text = line.removesuffix(b"\r\n")
                if len(text.translate(None, CONTROL)) != len(text):
                    raise ValueError("control characters")
                text.decode()
                plain_ = all(line.find(key, head, tail) > 0 for key in BETWEEN)
                if parse_whole_rows or min(head, tail) < 0 or not plain_ or line.count(START) != 1:
                    yield number, parse(line)
                else:
                    row = parse((line[:head] + line[tail:]).decode())
                    yield number, row if "doc_hash" in row else parse(line)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: check the path") from None
    except ValueError:
        raise InputError(f"{path}: line {number} is cut or damaged: evaluate again") from None
    if not number:
        raise InputError(f"{path} is empty: evaluate again")


def _add_samples(path: Path, about: _TaskResults, run: Run, scores: Scores) -> None:
    reading = scores.reading
    about.note_facts(scores, run)
    times: dict[Any, int] = {}
    metrics: dict[tuple[str, str], _Metric | None] = {}
    seen: dict[tuple[Any, Any], int] = {}
    for number, row in _numbered_rows(path, reading.cluster is not None):
        source = f"{path}: line {number}"
        try:
            identity = tuple(row[key] for key in IDENTITY)
            time = times[identity[0]] = times.get(identity[0], 0) + 1
            filter_ = row["filter"] if "filter" in row else about.filters[time - 1]
            values = {n: row[n] for n in row.get("metrics") or [n for n in row if n not in OTHERS]}
            if (first := seen.setdefault((identity[0], filter_), number)) != number:
                raise InputError(
                    f"{source}: document {identity[0]} again, after line {first}: take one of them "
                    "out, or evaluate again"
                )
        except IndexError:
            raise InputError(
                f"{source}: document {row['doc_id']} again, and neither the line nor a results "
                "file beside it says of which filter: evaluate with 0.4.8 or newer"
            ) from None
        except (KeyError, TypeError):
            raise InputError(_lacking_fields_message(source, row)) from None
        cluster = identity[1]
        if reading.cluster is not None:
            cluster = cluster_key(source, row.get("doc"), reading.cluster)
        item = identity[:2] if reading.same_document else identity
        for name, value in values.items():
            if (name, filter_) not in metrics:
                metrics[name, filter_] = _find_metric(about, scores, name, filter_)
            if (metric := metrics[name, filter_]) is not None:
                score, weight = _score_or_loss_and_weight(metric, value, f"{source}: {name}")
                metric.column.append_score_row(
                    run, item, score, weight=weight, cluster=cluster, message_prefix=source
                )
    expected = about.expected_documents()
    if expected is not None and len(times) < expected:
        raise InputError(
            f"{path} has {len(times)} of {expected} documents: the file is cut: evaluate again"
        )


def _lacking_fields_message(source: str, row: Any) -> str:
    """What a line lacks, and what to do."""
    if not isinstance(row, dict):
        lacking = "is no JSON object"
    else:
        listed = row.get("metrics")
        metrics = [n for n in listed if isinstance(n, str)] if isinstance(listed, list) else []
        names = [name for name in (*IDENTITY, *metrics) if name not in row]
        lacking = f"has no {', no '.join(names)}" if names else "has fields of other types"
    return (
        f"{source} {lacking}: it is not as lm-evaluation-harness writes it since 0.4.3: evaluate "
        "with --log_samples and a newer version, or write a CSV with the columns model, item and "
        "score"
    )


class _Metric(NamedTuple):
    """Where scores of a metric and filter go, and what a logged number is divided by."""

    column: Column
    divisor: float
    is_rolling: bool


def _find_metric(about: _TaskResults, scores: Scores, name: str, filter_: str) -> _Metric | None:
    """A metric with its column; None of one that nobody asked for or that is no mean over items."""
    if not scores.needs_metric_else_notes_it(about.task, name):
        return None
    label, unit = ROLLING.get(name, (name, 1.0))
    if name == "perplexity":
        label = "perplexity (nats per item)"
    if filter_ != "none":
        label = f"{label},{filter_}"
    aggregation = about.aggregation(name)
    if aggregation not in (None, "mean", "nanmean"):
        scores.note_left_out(about.task, label, aggregation)
        return None
    # Log-likelihoods become losses.
    divisor = -unit if name in ROLLING or name == "perplexity" else unit
    column = scores.find_or_add_column(about.task, label, about.is_higher_better(name))
    return _Metric(column, divisor, name in ROLLING)


def _score_or_loss_and_weight(metric: _Metric, value: Any, place: str) -> tuple[float, float]:
    score, weight = math.nan, 1.0
    with contextlib.suppress(TypeError, ValueError, IndexError, ZeroDivisionError):
        weight = float(value[1]) if metric.is_rolling else 1.0
        score = float(value[0] if metric.is_rolling else value) / weight / metric.divisor
    if not math.isfinite(score):
        raise InputError(
            f"{place} is {value!r}, no number that can be averaged: evaluate again, or compare "
            "another metric with --metric"
        )
    return score, weight
