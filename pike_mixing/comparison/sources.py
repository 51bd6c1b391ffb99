"""Which runs a command line names, read from whatever they are in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pike_mixing.comparison import harness, inspect_log, long_table, own_results
from pike_mixing.comparison.scores import Column, Run, Scores
from pike_mixing.errors import InputError

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


def read(paths: Sequence[Path], side: str, model: str | None, how: Reading, scores: Scores) -> None:
    """Adds one side's runs to the scores.

    A path is a folder or file of lm-evaluation-harness's samples, a log of inspect_ai, a long
    table, or a results database of this project or its records; each folder of samples is one run.

    Raises:
        InputError: a path is not there, is nothing of these, or what its reader refuses.
    """
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} is not there: check the path")
        if not _read(path, side, model, how, scores):
            raise InputError(
                f"{path} is nothing that can be read: give a folder with samples_*.jsonl of "
                "lm-evaluation-harness (--log_samples), a JSON log of inspect_ai, a table (.csv, "
                ".jsonl, .parquet) with the columns model, item and score, or a results database"
            )


def _read(path: Path, side: str, model: str | None, how: Reading, scores: Scores) -> bool:
    if (place := own_results.records(path)) is not None and (model or "").count("/") == 2:
        own_results.read(place, side, scores, model)
        return True
    if _is_harness(path):
        files = harness.samples(path)
        harness.read(
            files, side, scores, how.metrics, cluster=how.cluster, same_document=how.same_document
        )
        return True
    if path.is_file() and path.suffix in TABLES:
        long_table.read(path, side, scores, model=model, names=how.columns)
        return True
    if inspect_log.is_log(path):
        run = Run(side, str(path))
        for log in inspect_log.logs(path):
            inspect_log.read(log, run, scores, list(how.metrics), how.cluster)
        return True
    return False


def _is_harness(path: Path) -> bool:
    if path.is_dir():
        return bool(harness.samples(path))
    if path.suffix != ".jsonl":
        return False
    with path.open("rb") as file:
        return harness.NAME.match(path.name) is not None or b'"doc_hash"' in file.readline()


def directions(columns: Sequence[Column], how: Reading) -> None:
    """Sets which way is better, where the files do not say and the reader does.

    Raises:
        InputError: neither says.
    """
    for column in columns:
        for names, higher in ((how.higher, True), (how.lower, False)):
            if names is not None and (not names or column.metric in names or column.task in names):
                column.higher = higher
        if column.higher is None:
            raise InputError(
                f"{column.task}: nothing says whether a higher {column.metric} is better: add "
                "--higher or --lower"
            )


def check_facts(scores: Scores, tasks: Sequence[str]) -> None:
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
