"""Which runs a command line names, read from whatever they are in.

Read here are samples of an inspect_ai log in JSON (`inspect eval --log-format json`, `inspect log
convert`), and losses of a results database of this project or of the records that it was made of.
An item of a log is a sample: its id with its input and target. Several epochs of a sample are one
score, their mean. Letters count as inspect_ai's own mean does: C 1, P 0.5, I and N 0.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pike_mixing import foreign_json
from pike_mixing.comparison import harness, lighteval, long_table, opencompass
from pike_mixing.comparison.scores import (
    Column,
    Log,
    Run,
    Scores,
    metric_without_filter,
    model_weights_text,
)
from pike_mixing.errors import InputError, refuse_without_package
from pike_mixing.settings import unknown_name_message

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def is_inspect_log(path: Path) -> bool:
    """Whether a path is a log, or a folder with some."""
    return path.suffix in (".eval", ".json") or (path.is_dir() and bool(find_inspect_logs(path)))


def find_inspect_logs(path: Path) -> list[Path]:
    """The logs that a path stands for."""
    if not path.is_dir():
        return [path]
    found = [p for p in sorted(path.iterdir()) if p.suffix in (".eval", ".json")]
    return [p for p in found if not p.name.startswith("results_") and p.name != "manifest.json"]


def read_inspect_log(
    path: Path, given_path: Path, side: str, scores: Scores, metrics: list[str], cluster: str | None
) -> None:
    """Adds a log's samples to the scores.

    Args:
        path: The log.
        given_path: The path of the command line, this log or its folder.
        side: Which side it is of.
        scores: Where to.
        metrics: Names of the scorers that are wanted; all when empty.
        cluster: The field of a sample's metadata that says which others were made of one text.

    Raises:
        InputError: the log cannot be read, was not finished, or a score is no number.
    """
    task, version, model, samples = _parse_inspect_log(path)
    if scores.note_if_unwanted(task):
        return
    run = scores.add_log(side, Log(path, given_path, path.parent, task, path.name, model))
    scores.note_fact(task, "version", version, run.name)
    by_item: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    clusters: dict[tuple[Any, ...], str] = {}
    for n, sample in enumerate(samples, 1):
        if not _is_sample(sample):
            raise InputError(f"{path}: sample {n} is none of inspect_ai: write the log again")
        text = json.dumps([sample.get("input"), sample.get("target")], sort_keys=True)
        item = (sample["id"], text, "")
        clusters[item] = text if cluster is None else _cluster_of_sample(path, sample, cluster)
        for name, score in (sample.get("scores") or {}).items():
            if metrics and name not in metrics:
                scores.note_unwanted_metrics(task, [name], metrics)
            else:
                number = _score_of_sample(path, sample["id"], name, score.get("value"))
                by_item.setdefault(item, {}).setdefault(name, []).append(number)
    for item, found in by_item.items():
        for name, numbers in found.items():
            column = scores.column(task, name, True)
            places, values = column.indices_and_scores(run)
            places.append(column.index_of_item(item, 1.0, clusters[item], path))
            values.append(math.fsum(numbers) / len(numbers))


class _InspectLog(NamedTuple):
    """What one log holds."""

    task: str
    version: object
    model: str | None
    """What was evaluated, as `model_weights_text` says it."""
    samples: list[dict[str, Any]]


def _parse_inspect_log(path: Path) -> _InspectLog:
    if path.suffix == ".eval":
        raise InputError(f"{path}: write it as JSON first: inspect log convert --to json {path}")
    foreign_json.refuse_no_file(path, "write the log again")
    try:
        log = foreign_json.parse_json(path.read_text(encoding="utf-8"))
        about, samples, status = log["eval"], log["samples"], log["status"]
        task = about["task"]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: check the path") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is no log of inspect_ai in JSON: give another file, or make a table of it "
            "with the columns model, item and score"
        ) from None
    if status == "success" and not isinstance(samples, list):
        raise InputError(f"{path} has no list of samples: write the log again")
    if status != "success" or not samples:
        raise InputError(f"{path}: its status is {status!r}: evaluate again")
    arguments = about.get("model_args")
    known = arguments if isinstance(arguments, dict) else {}
    named = {**known, "model": about.get("model"), "base_url": about.get("model_base_url")}
    return _InspectLog(task, about.get("task_version"), model_weights_text(named) or None, samples)


def _is_sample(sample: object) -> bool:
    """Whether a sample has an id, and scores with values."""
    if not isinstance(sample, dict) or "id" not in sample:
        return False
    scores = sample.get("scores") or {}
    return isinstance(scores, dict) and all(isinstance(one, dict) for one in scores.values())


def _cluster_of_sample(path: Path, sample: dict[str, Any], field: str) -> str:
    metadata = sample.get("metadata") or {}
    if field not in metadata:
        raise InputError(
            f"{path}: --cluster: the metadata of sample {sample['id']} have no {field!r}: they "
            f"have {', '.join(metadata) or 'none'}"
        )
    return json.dumps(metadata[field], sort_keys=True)


def _score_of_sample(path: Path, sample: object, scorer: str, value: object) -> float:
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    if isinstance(value, str) and value in LETTERS:
        return LETTERS[value]
    raise InputError(
        f"{path}: sample {sample}: {scorer} is {value!r}, no number: compare another scorer: "
        "--metric"
    )


METRIC = "loss (nats per token)"
COLUMNS = ("run", "step", "domain", "document", "nll", "tokens")
MOST_NAMED = 8
"""Methods that a message names; the others are counted."""


def find_own_records(path: Path) -> Path | None:
    """The database or table of documents' losses that a path stands for; None where it is none."""
    if path.suffix == ".duckdb" or path.name == "documents.parquet":
        return path
    names = ("pike.duckdb", "records/documents.parquet", "documents.parquet")
    places = [path / name for name in names]
    return next((place for place in places if place.exists()), None)


def read_own_results(path: Path, side: str, scores: Scores, method: str | None) -> None:
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
    rows = list(_database_rows(path) if path.suffix == ".duckdb" else _table_rows(path))
    last: dict[str, int] = {}
    for run, step, *_ in rows:
        last[run] = max(step, last.get(run, 0))
    known = dict.fromkeys(run.rpartition("/")[0] for run in last)
    if method not in known:
        place = f"{path}: --models SCENARIO/SIZE/METHOD"
        ends = [name for name in known if name.endswith(f"/{method}")]
        if ends or method is None:
            named = ", ".join(sorted(ends or known)[:MOST_NAMED])
            more = len(ends or known) - MOST_NAMED
            raise InputError(
                f"{place}: {method or 'no name'} is not enough: type "
                f"{'one of ' if len(ends or known) > 1 else ''}{named}"
                + (f" and {more} more" if more > 0 else "")
            )
        raise InputError(unknown_name_message(method, known, place))
    for run, step, domain, document, nll, tokens in rows:
        of, _, seed = run.rpartition("/")
        if of == method and step == last[run]:
            column = scores.column(domain, METRIC, False)
            places, values = column.indices_and_scores(Run(side, run, seed))
            # Two texts of one beginning have one name and other lengths.
            item = (document, tokens)
            places.append(column.index_of_item(item, float(tokens), document, path))
            values.append(nll / tokens)


def _database_rows(path: Path) -> Iterator[tuple[Any, ...]]:
    refuse_without_package(f"{path}: a database", "duckdb")
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            yield from connection.execute(f"select {', '.join(COLUMNS)} from documents").fetchall()
    except duckdb.Error as error:
        raise InputError(f"{path} is no results database: {error}: check the path") from None


def _table_rows(path: Path) -> Iterator[tuple[Any, ...]]:
    from pike_mixing.table_files import read_columns

    columns = read_columns(path)
    if lacking := [name for name in COLUMNS if name not in columns]:
        raise InputError(f"{path} has no column {lacking[0]!r}: give the table of a results folder")
    yield from zip(*(columns[name] for name in COLUMNS), strict=True)


TABLES = (".csv", ".gz", ".parquet", ".jsonl")
LISTED = ("metrics", "tasks", "higher", "lower")


@dataclass(frozen=True)
class Reading:
    """How files are read."""

    metrics: Sequence[str] = ()
    tasks: Sequence[str] = ()
    higher: Sequence[str] | None = None
    """Metrics that are better when higher; every one when empty."""
    lower: Sequence[str] | None = None
    cluster: str | None = None
    same_document: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    evaluations: str | None = None
    """What several evaluations of one model's name are: `evaluations.RUNS` or `REPEATS`."""


def add_side(
    paths: Sequence[Path], side: str, model: str | None, reading: Reading, scores: Scores
) -> None:
    """Adds one side's scores; `group_logs_into_runs` then makes runs of the logs.

    A path is a folder or file of lm-evaluation-harness's samples, of lighteval's details, of
    OpenCompass's results or of inspect_ai's logs, a long table, or a results database of this
    project or its records.

    Raises:
        InputError: a path is not there, is nothing of these, or what its reader refuses.
    """
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} is not there: check the path")
        if not _add_path_if_known(path, side, model, reading, scores):
            raise InputError(
                f"{path} is nothing that can be read: give a folder of lm-evaluation-harness "
                "(--log_samples), lighteval (--save-details) or OpenCompass, a JSON log of "
                "inspect_ai, or a results database; of another harness make a table (.csv, .jsonl, "
                ".parquet) with the columns model, item and score"
            )


def _add_path_if_known(
    path: Path, side: str, model: str | None, reading: Reading, scores: Scores
) -> bool:
    place = find_own_records(path)
    # A table of one's own may be called documents.parquet, too.
    if place is not None and ((model or "").count("/") == 2 or path.suffix not in TABLES):
        read_own_results(place, side, scores, model)
        return True
    if (path / "experiment.json").is_file() and not _is_harness_log(path):
        raise InputError(
            f"{path} is a results folder of this project without its pike.duckdb: `make run` makes "
            "that when all runs are trained"
        )
    if model is not None and (_is_harness_log(path) or lighteval.find_details_files(path)):
        raise InputError(
            f"{path}: --models names models of a table or a database: of logs give the folders of "
            "both sides: --a FOLDER --b FOLDER"
        )
    # Of logs a path is a recipe by itself, where each of a table's models is one.
    logs_side = str(path) if side == long_table.EVERY else side
    for add_logs, is_there in (
        (harness.add_logs, _is_harness_log(path)),
        (lighteval.add_logs, bool(lighteval.find_details_files(path))),
        (opencompass.add_logs, bool(opencompass.find_results_files(path))),
    ):
        if is_there:
            add_logs(
                path,
                logs_side,
                scores,
                reading.metrics,
                cluster=reading.cluster,
                same_document=reading.same_document,
            )
            return True
    if path.is_file() and path.suffix in TABLES:
        long_table.add_runs(path, side, scores, model=model, column_names=reading.columns)
        return True
    if path.name.startswith("results_") and path.suffix == ".json":
        raise InputError(f"{path} has no scores by item: give the folder {path.parent}")
    if is_inspect_log(path):
        for log in find_inspect_logs(path):
            read_inspect_log(log, path, logs_side, scores, list(reading.metrics), reading.cluster)
        return True
    return False


def _is_harness_log(path: Path) -> bool:
    if path.is_dir():
        return bool(harness.find_sample_files(path))
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open("rb") as file:
        return harness.NAME.match(path.name) is not None or b'"doc_hash"' in file.readline()


def set_directions(columns: Sequence[Column], reading: Reading) -> None:
    """Sets which way is better, where the files do not say and the reader does.

    Raises:
        InputError: neither says, both do, or a name is of no metric or task.
    """
    ways = [("--higher", reading.higher, True), ("--lower", reading.lower, False)]
    known = dict.fromkeys(
        n for c in columns for n in (c.metric, metric_without_filter(c.metric), c.task)
    )
    for option, names, _ in ways:
        if wrong := [name for name in names or () if name not in known]:
            raise InputError(unknown_name_message(wrong[0], known, option))
    for column in columns:
        named = {column.metric, metric_without_filter(column.metric), column.task}
        # A name says more than an option for all.
        said = {higher for _, names, higher in ways if names and named & {*names}}
        said = said or {higher for _, names, higher in ways if names is not None and not names}
        if len(said) > 1:
            raise InputError(f"{column.task}: --higher and --lower are said of it: give one")
        column.higher = said.pop() if said else column.higher
        if column.higher is None:
            raise InputError(
                f"{column.task}: nothing says whether a higher {column.metric} is better: add "
                "--higher or --lower"
            )


def refuse_differing_facts(scores: Scores, tasks: Sequence[str]) -> None:
    """Refuses runs that evaluated a task in several versions.

    Raises:
        InputError: two runs say different things of a task.
    """
    for (task, fact), values in scores.facts.items():
        if len(values) > 1 and task in tasks:
            said = ", ".join(f"{value} in {source}" for value, source in values.items())
            raise InputError(
                f"{task}: its {fact} differs: {said}: evaluate all runs alike, or leave the task "
                "out with --tasks"
            )
