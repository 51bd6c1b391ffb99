"""From logs to runs: a run is one trained model, and an evaluation of it is no second one.

A harness writes one file for each task of an evaluation, into a folder that is named after the
model. Two files of one task in one folder are two evaluations: of one checkpoint, or of a model
that was trained anew and saved in the same place. No file says which, so that the reader must.
The same is asked of folders whose logs name one model (three jobs that each saved `out`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pike_mixing.comparison.scores import Log, Run, Scores
from pike_mixing.errors import InputError, names_text

RUNS, REPEATS = "runs", "repeats"
"""What evaluations of one model's name are: of models trained anew, or of one checkpoint."""


@dataclass(frozen=True)
class Evaluation:
    """The logs of one evaluation, as one run."""

    run: Run
    folder: Path
    """Of the model."""
    model: str | None
    """What its logs say of the weights; None where they say nothing."""


def merge_logs_by_trained_model(scores: Scores) -> None:
    """Makes runs of the logs that were read: each trained model is one.

    Raises:
        InputError: a side has several evaluations of a task under one model's name, and nothing
            says what they are; or as `merge_logs_of_each_evaluation`.
    """
    average_evaluations_of_same_weights(scores, merge_logs_of_each_evaluation(scores))


def merge_logs_of_each_evaluation(scores: Scores) -> list[Evaluation]:
    """Makes one run of the logs of each evaluation.

    Of the logs of one folder that name the same weights, the first of each task are one evaluation,
    the second of each task another.

    Raises:
        InputError: a folder has several evaluations and nothing says what they are, some tasks
            were evaluated more often than others, or one of several folders of a model's name has
            several evaluations.
    """
    meaning = scores.reading.evaluations
    if meaning is not None:
        _refuse_repeats_across_and_within_folders(scores)
    folders: dict[tuple[str, Path], list[Log]] = {}
    for log in sorted(scores.logs.values(), key=_date_and_path):
        folders.setdefault((log.side, log.folder.resolve()), []).append(log)
    result = []
    for logs in folders.values():
        if meaning is None:
            _refuse_task_evaluated_twice(logs)
        models = _split_by_model(logs)
        parts = [part for of_model in models for part in _split_by_evaluation(of_model, meaning)]
        for part in parts:
            first = min(part, key=_date_and_path)
            name = str(first.folder) if len(parts) == 1 else f"{first.folder} ({first.date})"
            if len(part) == 1 and first.given == first.path:
                name = str(first.path)
            run = Run(first.side, name)
            _merge_runs_assuming_distinct_tasks(scores, [log.provisional_run for log in part], run)
            model = next((log.model for log in part if log.model is not None), None)
            result.append(Evaluation(run, first.folder, model))
    return result


def average_evaluations_of_same_weights(scores: Scores, evaluations: Sequence[Evaluation]) -> None:
    """Makes one run of evaluations of the same weights: an item's score is their mean.

    Raises:
        InputError: they evaluated one task several times, and nothing says what they are.
    """
    if scores.reading.evaluations == RUNS:
        return
    same: dict[tuple[str, str], list[Evaluation]] = {}
    for one in evaluations:
        same.setdefault((one.run.side, one.model or f"folder {one.folder}"), []).append(one)
    for (side, model), parts in same.items():
        if len(parts) == 1:
            continue
        runs = [one.run for one in parts]
        # Of the task that was evaluated most often: its evaluations.
        having = {c.task: [r for r in runs if r in c.rows_by_run] for c in scores.columns.values()}
        task = max(having, key=lambda name: len(having[name]), default="")
        times = len(having.get(task, ()))
        is_repeated = times > 1
        if is_repeated and scores.reading.evaluations is None:
            of_side = f"side {side}: " if side in ("A", "B") else ""
            raise InputError(
                f"{of_side}{times} evaluations of {task} name one model ({model}): "
                f"{names_text(run.name for run in having[task])}: "
                f"{_models_or_repeats_question(times)}"
            )
        names = [*dict.fromkeys(run.name for run in runs)]
        if is_repeated and len({one.folder for one in parts}) == 1:
            names = [str(parts[0].folder)]
        mean = f" (mean of {len(runs)} evaluations)" if is_repeated else ""
        into = Run(side, names_text(names, most=1) + mean)
        for column in scores.columns.values():
            column.average_runs(runs, into)


def is_each_on_its_own_side(evaluations: Sequence[Evaluation]) -> bool:
    return len({one.run.side for one in evaluations}) == len(evaluations)


def move_to_side(scores: Scores, evaluations: Sequence[Evaluation], side: str) -> list[Evaluation]:
    """Makes the evaluations those of one side, as runs of one recipe are; returns them so."""
    result = [replace(one, run=replace(one.run, side=side)) for one in evaluations]
    for old, new in zip(evaluations, result, strict=True):
        _merge_runs_assuming_distinct_tasks(scores, [old.run], new.run)
    return result


def _refuse_task_evaluated_twice(logs: Sequence[Log]) -> None:
    """Refuses several evaluations of a task in one folder, the logs being in their order."""
    by_task: dict[tuple[Path, str], list[Log]] = {}
    for log in logs:
        by_task.setdefault((log.given, log.task), []).append(log)
    for (_, task), of_task in by_task.items():
        if (count := len(of_task)) > 1:
            names = ", ".join(dict.fromkeys(o.model for o in of_task if o.model is not None))
            about = f" ({names})" if names else ""
            raise InputError(
                f"{of_task[0].folder} has {count} evaluations of {task}{about}: "
                f"{_models_or_repeats_question(count)} If one alone counts, give its file: "
                f"{of_task[-1].path}"
            )


def _refuse_repeats_across_and_within_folders(scores: Scores) -> None:
    """Refuses several folders of one model's name, one of them with several evaluations.

    Three trained models of which one was evaluated twice are neither four runs nor one.
    """
    folders: dict[tuple[str, str, str], set[Path]] = {}
    times: Counter[tuple[str, str, str, Path, Path]] = Counter()
    for log in scores.logs.values():
        if log.model is not None:
            folders.setdefault((log.side, log.model, log.task), set()).add(log.folder)
            times[log.side, log.model, log.task, log.folder, log.given] += 1
    for (side, model, task, folder, _), count in times.items():
        if count > 1 and (named := len(folders[side, model, task])) > 1:
            raise InputError(
                f"{folder} has {count} evaluations of {task}, and {named} folders name its model "
                f"({model}): --evaluations cannot mean both: give files one by one, as those that "
                f"count of each trained model, with --evaluations {RUNS}"
            )


def _models_or_repeats_question(count: int) -> str:
    return (
        f"are these {count} trained models (add --evaluations {RUNS}), or {count} evaluations of "
        f"one (add --evaluations {REPEATS})?"
    )


def _date_and_path(log: Log) -> tuple[str, str]:
    return log.date, str(log.path)


def _split_by_model(logs: Sequence[Log]) -> list[list[Log]]:
    """The logs of one folder by what they say of the weights."""
    named = {log.model for log in logs} - {None}
    result: dict[str | None, list[Log]] = {}
    for log in logs:
        # Where all others name one model, a log without a results file is of that, too.
        model = next(iter(named)) if len(named) == 1 else log.model
        result.setdefault(model, []).append(log)
    return [*result.values()]


def _split_by_evaluation(logs: Sequence[Log], meaning: str | None) -> list[list[Log]]:
    """The logs of one folder and model by evaluation: the first of each task, the second..."""
    by_task: dict[str, list[Log]] = {}
    for log in logs:
        by_task.setdefault(log.task, []).append(log)
    counts = {task: len(of_task) for task, of_task in by_task.items()}
    many, few = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
    if meaning == RUNS and counts[many] > counts[few]:
        raise InputError(
            f"{logs[0].folder} has {counts[many]} evaluations of {many} and {counts[few]} of "
            f"{few}: which belong together is not known: choose with --tasks, or give the files"
        )
    return [
        [of_task[n] for of_task in by_task.values() if n < len(of_task)]
        for n in range(counts[many])
    ]


def _merge_runs_assuming_distinct_tasks(scores: Scores, runs: Sequence[Run], into: Run) -> None:
    """Puts one run in the place of several that have no column in common."""
    for column in scores.columns.values():
        for run in runs:
            if run in column.rows_by_run:
                column.rows_by_run[into] = column.rows_by_run.pop(run)
