"""Which runs a command line names, read from whatever they are in.

Read here are losses of a results database of this project, or of the records that it was made of.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pike_mixing import table_files
from pike_mixing.comparison import inspect_logs, lighteval, lm_eval_harness, long_table, opencompass
from pike_mixing.comparison.scores import Column, Reading, Run, Scores, bare_metric_name
from pike_mixing.errors import InputError, names_text, refuse_without_package
from pike_mixing.setting_messages import unknown_name_message

TABLES = (".csv", ".gz", ".parquet", ".jsonl")
HARNESSES = (lm_eval_harness, lighteval, opencompass, inspect_logs)


def has_harness_logs(path: Path) -> bool:
    """Whether a path is a harness's log, or a folder of such: of one side, not of both."""
    is_ours = find_pipeline_records(path) is not None or (path / "experiment.json").is_file()
    return path.exists() and not is_ours and any(kind.find_logs(path) for kind in HARNESSES)


def add_scores_of_path(path: Path, side: str, model_if_several: str | None, scores: Scores) -> None:
    """Adds the scores of a path to a side; of logs, `merge_logs_by_trained_model` then makes runs.

    A path is a folder or file of lm-evaluation-harness's samples, of lighteval's details, of
    OpenCompass's results or of inspect_ai's logs, a long table, or a results database of this
    project or its records. A model must be named of a table of several, and of any database.

    Raises:
        InputError: the path is not there, is nothing of these, or what its reader refuses.
    """
    if not path.exists():
        raise InputError(f"{path} is not there: check the path")
    records, model = find_pipeline_records(path), model_if_several
    # A table of one's own may be called documents.parquet, too.
    if records is not None and ((model or "").count("/") == 2 or path.suffix not in TABLES):
        add_pipeline_losses(records, side, scores, model or "")
        return
    if (path / "experiment.json").is_file() and not lm_eval_harness.find_logs(path):
        raise InputError(
            f"{path} is a results folder of this project without its pike.duckdb: `make run` makes "
            "that when all runs are trained"
        )
    for kind in HARNESSES:
        logs = kind.find_logs(path)
        if logs and model is not None:
            raise InputError(
                f"{path}: --models names models of a table or a database: of logs give the folders "
                "of both sides: --a FOLDER --b FOLDER"
            )
        for log in logs:
            # Of logs a path is a recipe by itself, where each of a table's models is one.
            kind.add_log(log, path, str(path) if side == long_table.EVERY else side, scores)
        if logs:
            return
    if path.is_file() and path.suffix in TABLES:
        long_table.add_runs(path, side, model, scores)
        return
    if path.name.startswith("results_") and path.suffix == ".json":
        raise InputError(f"{path} has no scores by item: give the folder {path.parent}")
    raise InputError(
        f"{path} is nothing that can be read: give a folder of lm-evaluation-harness "
        "(--log_samples), lighteval (--save-details) or OpenCompass, a JSON log of inspect_ai, or "
        "a results database; of another harness make a table (.csv, .jsonl, .parquet) with the "
        "columns model, item and score"
    )


METRIC = "loss (nats per token)"
COLUMNS = ("run", "step", "domain", "document", "nll", "tokens")


def find_pipeline_records(path: Path) -> Path | None:
    """The database or table of documents' losses that a path stands for; None where it is none."""
    if path.suffix == ".duckdb" or path.name == "documents.parquet":
        return path
    names = ("pike.duckdb", "records/documents.parquet", "documents.parquet")
    places = [path / name for name in names]
    return next((place for place in places if place.exists()), None)


def add_pipeline_losses(path: Path, side: str, scores: Scores, scenario_size_method: str) -> None:
    """Adds the losses of a method's runs after their last step, by domain and document.

    A method is named scenario/size/method, a run scenario/size/method/seed. Documents are the
    items, of their tokens' weight; a text in several domains is one document.

    Raises:
        InputError: the file cannot be read, or the method is not there.
    """
    rows = (
        _read_losses_of_database(path) if path.suffix == ".duckdb" else _read_losses_of_table(path)
    )
    method = scenario_size_method
    last: dict[str, int] = {}
    for run, step, *_ in rows:
        last[run] = max(step, last.get(run, 0))
    known = dict.fromkeys(run.rpartition("/")[0] for run in last)
    if method not in known:
        place = f"{path}: --models SCENARIO/SIZE/METHOD"
        ends = [name for name in known if name.endswith(f"/{method}")]
        if ends or not method:
            names = sorted(ends or known)
            one_of = "one of " if len(names) > 1 else ""
            raise InputError(
                f"{place}: {method or 'no name'} is not enough: type {one_of}{names_text(names)}"
            )
        raise InputError(unknown_name_message(method, known, place))
    for run, step, domain, document, nll, tokens in rows:
        of, _, seed = run.rpartition("/")
        if of == method and step == last[run]:
            scores.find_or_add_column(domain, METRIC, False).append_score_row(
                Run(side, run, seed),
                # Two texts of one beginning have one name and other lengths.
                (document, tokens),
                nll / tokens,
                weight=float(tokens),
                cluster=document,
                message_prefix=path,
            )


def _read_losses_of_database(path: Path) -> list[tuple[Any, ...]]:
    refuse_without_package(f"{path}: a database", "duckdb")
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            return connection.execute(f"select {', '.join(COLUMNS)} from documents").fetchall()
    except duckdb.Error as error:
        raise InputError(f"{path} is no results database: {error}: check the path") from None


def _read_losses_of_table(path: Path) -> list[tuple[Any, ...]]:
    columns = table_files.read_csv_or_parquet(path)
    if lacking := [name for name in COLUMNS if name not in columns]:
        raise InputError(f"{path} has no column {lacking[0]!r}: give the table of a results folder")
    return list(zip(*(columns[name] for name in COLUMNS), strict=True))


def set_directions_from_options(columns: Sequence[Column], reading: Reading) -> None:
    """Sets in each column which way is better, where the reader says so.

    Raises:
        InputError: neither says, both do, or a name is of no metric or task.
    """
    ways = [("--higher", reading.higher, True), ("--lower", reading.lower, False)]
    known = dict.fromkeys(
        n for c in columns for n in (c.metric, bare_metric_name(c.metric), c.task)
    )
    for option, names, _ in ways:
        if wrong := [name for name in names or () if name not in known]:
            raise InputError(unknown_name_message(wrong[0], known, option))
    for column in columns:
        named = {column.metric, bare_metric_name(column.metric), column.task}
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
