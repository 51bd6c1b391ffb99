"""Samples that lm-evaluation-harness logged (`--log_samples`).

The harness writes `samples_<task>_<date>.jsonl`, a line for each document and filter, and beside
them `results_<date>.json`, which says how metrics are aggregated, which way is better, and which
model was evaluated. An item is a document (its number and hash) with its prompt (a hash).
Lines have these hashes since version 0.4.3, and the names of filter and metrics since 0.4.8:
before, a document's lines stand in the order of the filters that the results file lists.
"""

import functools
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing import foreign_json
from pike_mixing.comparison.scores import (
    Log,
    Run,
    Scores,
    metric_without_filter,
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


def find_sample_files(path: Path) -> list[Path]:
    """The files of samples that a path stands for."""
    return sorted(path.rglob("samples_*.jsonl")) if path.is_dir() else [path]


def add_logs(
    given_path: Path, side: str, scores: Scores, metrics: Sequence[str], *,
    cluster: str | None, same_document: bool,
) -> None:  # fmt: skip
    """Adds the scores of logs.

    Args:
        given_path: A file of samples, or a folder with some.
        side: Which side they are of.
        scores: Where to.
        metrics: Names that are wanted; all when empty.
        cluster: The field of a document that says which others were made from the same text; by
            default documents of one hash are one.
        same_document: Leaves the prompt out of what identifies an item.

    Raises:
        InputError: a file is damaged, cut, of another form, or was read before.
    """
    for path in find_sample_files(given_path):
        match = NAME.match(path.name)
        task, date = (match["task"], match["date"]) if match else (path.stem, None)
        if scores.note_if_unwanted(task):
            continue
        about = _TaskAbout(path, task, date)
        log = Log(path, given_path, path.parent, task, date or "", about.model() or None)
        run = scores.add_log(side, log)
        _add_samples(path, run, about, scores, metrics, cluster, same_document)


class _MetricKind(NamedTuple):
    """How a metric makes one number of many items."""

    aggregation: str
    is_higher_better: bool | None
    is_mean: bool


class _TaskAbout:
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

    def kind_of_metric(self, metric: str) -> _MetricKind:
        """How a metric aggregates, and whether higher is better; None where nothing says so."""
        higher = (self._entry("higher_is_better") or {}).get(metric)
        listed = self.listed.get(metric, {})
        if higher is None:
            higher = listed.get("higher_is_better")
        aggregation = listed.get("aggregation")
        if metric in (*ROLLING, "perplexity"):
            return _MetricKind(metric, False, is_mean=True)
        if aggregation is None and (metric in UP or higher is not None):
            aggregation = "mean"
        if higher is None and metric in UP:
            higher = True
        return _MetricKind(str(aggregation), higher, aggregation in ("mean", "nanmean"))


@functools.cache
def _read_results(path: Path) -> dict[str, Any]:
    return foreign_json.read_object(path, "evaluate again")


def _numbered_rows(path: Path, parse_whole: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows with their numbers; by default their ends alone are parsed.

    A row is long by its prompt, and what counts stands at both ends. A quotation mark in a text is
    escaped, so that the last unescaped key `filter` and what follows it is the end of the row. What
    stands between must be text all the same, with its keys: a damaged middle may join two rows.
    """
    foreign_json.refuse_no_file(path, "evaluate again")
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
                if parse_whole or min(head, tail) < 0 or not plain_ or line.count(START) != 1:
                    yield number, foreign_json.parse_json(line)
                else:
                    row = foreign_json.parse_json((line[:head] + line[tail:]).decode())
                    yield number, row if "doc_hash" in row else foreign_json.parse_json(line)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: check the path") from None
    except ValueError:
        raise InputError(f"{path}: line {number} is cut or damaged: evaluate again") from None


def _add_samples(
    path: Path, run: Run, about: _TaskAbout, scores: Scores, metrics: Sequence[str],
    cluster: str | None, same_document: bool,
) -> None:  # fmt: skip
    times: dict[Any, int] = {}
    about.note_facts(scores, run)
    wanted = set(map(metric_without_filter, metrics))
    number = 0
    readers: dict[tuple[str, str], Any] = {}
    seen: dict[tuple[Any, Any], int] = {}
    for number, row in _numbered_rows(path, cluster is not None):
        try:
            identity = row["doc_id"], row["doc_hash"], row["prompt_hash"]
            time = times[identity[0]] = times.get(identity[0], 0) + 1
            filter_ = row["filter"] if "filter" in row else about.filters[time - 1]
            named = row.get("metrics") or [name for name in row if name not in OTHERS]
            values = [(name, row[name]) for name in named if not wanted or name in wanted]
            if (first := seen.setdefault((identity[0], filter_), number)) != number:
                raise InputError(
                    f"{path}: line {number}: document {identity[0]} again, after line {first}: "
                    "take one of them out, or evaluate again"
                )
        except IndexError:
            raise InputError(
                f"{path}: line {number}: document {row['doc_id']} again, and neither the line nor "
                "a results file beside it says of which filter: evaluate with 0.4.8 or newer"
            ) from None
        except (KeyError, TypeError):
            raise InputError(
                f"{path}: line {number} has no doc_id, doc_hash, prompt_hash or metrics, as "
                "lm-evaluation-harness writes them since 0.4.3: evaluate with it"
            ) from None
        of = identity[1] if cluster is None else _cluster_of_row(path, number, row, cluster)
        item = identity[:2] if same_document else identity
        for metric, value in values:
            reader = readers.get((metric, filter_))
            if reader is None:
                reader = readers[metric, filter_] = _score_adder(
                    path, run, about, scores, metric, filter_
                )
            if reader is not False:
                reader(item, of, value, number)
    if not number:
        raise InputError(f"{path} is empty: evaluate again")
    scores.note_unwanted_metrics(about.task, named, wanted)
    expected = about.expected_documents()
    if expected is not None and len(times) < expected:
        raise InputError(
            f"{path} has {len(times)} of {expected} documents: the file is cut: evaluate again"
        )


def _cluster_of_row(path: Path, number: int, row: dict[str, Any], field: str) -> str:
    document = row.get("doc")
    if not isinstance(document, dict) or field not in document:
        known = ", ".join(document) if isinstance(document, dict) else "none"
        raise InputError(
            f"{path}: line {number}: --cluster: the document has no field {field!r}: it has {known}"
        )
    return json.dumps(document[field], sort_keys=True)


def _score_adder(
    path: Path, run: Run, about: _TaskAbout, scores: Scores, metric: str, filter_: str
) -> Any:
    """A function that adds one score; False for a metric that is no mean over items."""
    aggregation, higher, is_mean = about.kind_of_metric(metric)
    label, scale = ROLLING.get(metric, (metric, 1.0))
    if metric == "perplexity":
        label = "perplexity (nats per item)"
    if filter_ != "none":
        label = f"{label},{filter_}"
    if not is_mean and aggregation != "None":
        note = f"{about.task}: {label} is left out: it is no mean over items ({aggregation})"
        scores.notes += [] if note in scores.notes else [note]
        return False
    column = scores.column(about.task, label, higher)
    places, values = column.indices_and_scores(run)
    items, weights, clusters = column.items, column.weight, column.cluster
    rolling = metric in ROLLING
    sign = -1.0 if rolling or metric == "perplexity" else 1.0

    def refuse(number: int, value: object) -> InputError:
        return InputError(
            f"{path}: line {number}: {metric} is {value!r}, no number that can be averaged: "
            "evaluate again, or compare another metric with --metric"
        )

    def add(item: Any, cluster: Any, score: Any, line_number: int) -> None:
        try:
            weight = float(score[1]) if rolling else 1.0
            value = sign * float(score[0] if rolling else score) / weight / scale
        except (TypeError, ValueError, IndexError, ZeroDivisionError):
            raise refuse(line_number, score) from None
        if not math.isfinite(value):
            raise refuse(line_number, score)
        place = items.get(item)
        if place is None or weights[place] != weight or clusters[place] != cluster:
            place = column.index_of_item(item, weight, cluster, f"{path}: line {line_number}")
        places.append(place)
        values.append(value)

    return add
