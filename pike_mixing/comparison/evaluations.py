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
from pike_mixing.errors import InputError

RUNS, REPEATS = "runs", "repeats"
"""What evaluations of one model's name are: of models trained anew, or of one checkpoint."""
SHOWN = 4
"""Evaluations that a message names."""


@dataclass(frozen=True)
class Evaluation:
    """The logs of one evaluation."""

    run: Run
    folder: Path
    """Of the model."""
    model: str | None
    """What its logs say of the weights; None where they say nothing."""


def group_logs_into_runs(scores: Scores, meaning: str | None) -> None:
    """Makes runs of the logs that were read: each trained model is one.

    Args:
        scores: What was read.
        meaning: What several evaluations of one model's name are, `RUNS` or `REPEATS`; None: not
            known, so that they are refused.

    Raises:
        InputError: a side has several evaluations of a task under one model's name, and `meaning`
            is None; or as `one_run_per_evaluation`.
    """
    average_repeats(scores, one_run_per_evaluation(scores, meaning), meaning)


def one_run_per_evaluation(scores: Scores, meaning: str | None) -> list[Evaluation]:
    """Makes one run of the logs of each evaluation.

    Of the logs of one folder that name the same weights, the first of each task are one evaluation,
    the second of each task another.

    Raises:
        InputError: a folder has several evaluations and nothing says what they are, some tasks
            were evaluated more often than others, or one of several folders of a model's name has
            several evaluations.
    """
    if meaning is not None:
        _refuse_both(scores)
    folders: dict[tuple[str, Path], list[Run]] = {}
    for run, log in scores.logs.items():
        folders.setdefault((run.side, log.folder.resolve()), []).append(run)
    result = []
    for runs in folders.values():
        logs = {run: scores.logs[run] for run in runs}
        if meaning is None:
            _refuse_several([*logs.values()])
        parts = [
            part
            for of_model in _split_by_model(logs)
            for part in _split_by_evaluation(of_model, meaning)
        ]
        for part in parts:
            run = Run(runs[0].side, _evaluation_name(part, len(parts)))
            _move_scores(scores, [*part], run)
            log = next(iter(part.values()))
            named = [one.model for one in part.values() if one.model is not None]
            result.append(Evaluation(run, log.folder, named[0] if named else None))
    return result


def average_repeats(scores: Scores, evaluations: Sequence[Evaluation], meaning: str | None) -> None:
    """Makes one run of evaluations of the same weights: an item's score is their mean.

    Raises:
        InputError: they evaluated one task several times, and nothing says what they are.
    """
    if meaning == RUNS:
        return
    same: dict[tuple[str, str], list[Evaluation]] = {}
    for one in evaluations:
        same.setdefault((one.run.side, one.model or f"folder {one.folder}"), []).append(one)
    for (side, model), parts in same.items():
        if len(parts) == 1:
            continue
        runs = [one.run for one in parts]
        # Of the task that was evaluated most often: its evaluations.
        having = {c.task: [r for r in runs if r in c.found] for c in scores.columns.values()}
        task = max(having, key=lambda name: len(having[name]), default="")
        times = len(having.get(task, ()))
        is_repeated = times > 1
        names = [*dict.fromkeys(run.name for run in runs)]
        if is_repeated and meaning is None:
            of_side = f"side {side}: " if side in ("A", "B") else ""
            where = [run.name for run in having[task]]
            more = [f"and {times - SHOWN} more"] if times > SHOWN else []
            raise InputError(
                f"{of_side}{times} evaluations of {task} name one model ({model}): "
                f"{', '.join([*where[:SHOWN], *more])}: {_models_or_repeats_question(times)}"
            )
        if is_repeated and len({one.folder for one in parts}) == 1:
            names = [str(parts[0].folder)]
        name = names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        into = Run(side, name + (f" (mean of {len(runs)} evaluations)" if is_repeated else ""))
        for column in scores.columns.values():
            column.average_runs(runs, into)


def pool_sides(evaluations: Sequence[Evaluation], scores: Scores, side: str) -> list[Evaluation]:
    """Makes repeats of one recipe of the evaluations, where each of them is a side by itself."""
    if any(times > 1 for times in Counter(one.run.side for one in evaluations).values()):
        return [*evaluations]
    result = [replace(one, run=replace(one.run, side=side)) for one in evaluations]
    for old, new in zip(evaluations, result, strict=True):
        _move_scores(scores, [old.run], new.run)
    return result


def _refuse_several(logs: Sequence[Log]) -> None:
    times = Counter((log.given, log.task) for log in logs)
    for (given, task), count in times.items():
        if count > 1:
            of = sorted((o for o in logs if (o.given, o.task) == (given, task)), key=_date_and_path)
            names = ", ".join(dict.fromkeys(log.model for log in of if log.model is not None))
            about = f" ({names})" if names else ""
            raise InputError(
                f"{of[0].folder} has {count} evaluations of {task}{about}: "
                f"{_models_or_repeats_question(count)} If one "
                f"alone counts, give its file: {of[-1].path}"
            )


def _refuse_both(scores: Scores) -> None:
    """Refuses several folders of one model's name, one of them with several evaluations.

    Three trained models of which one was evaluated twice are neither four runs nor one.
    """
    folders: dict[tuple[str, str, str], set[Path]] = {}
    times: Counter[tuple[str, str, str, Path, Path]] = Counter()
    for run, log in scores.logs.items():
        if log.model is not None:
            folders.setdefault((run.side, log.model, log.task), set()).add(log.folder)
            times[run.side, log.model, log.task, log.folder, log.given] += 1
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


def _split_by_model(logs: dict[Run, Log]) -> list[dict[Run, Log]]:
    """The logs of one folder by what they say of the weights."""
    named = {log.model for log in logs.values()} - {None}
    result: dict[str | None, dict[Run, Log]] = {}
    for run, log in logs.items():
        # Where all others name one model, a log without a results file is of that, too.
        model = next(iter(named)) if len(named) == 1 else log.model
        result.setdefault(model, {})[run] = log
    return [*result.values()]


def _split_by_evaluation(logs: dict[Run, Log], meaning: str | None) -> list[dict[Run, Log]]:
    """The logs of one folder and model by evaluation: the first of each task, the second..."""
    by_task: dict[str, list[Run]] = {}
    for run in sorted(logs, key=lambda run: _date_and_path(logs[run])):
        by_task.setdefault(logs[run].task, []).append(run)
    counts = {task: len(runs) for task, runs in by_task.items()}
    if meaning == RUNS and len({*counts.values()}) > 1:
        many, few = max(counts, key=lambda t: counts[t]), min(counts, key=lambda t: counts[t])
        folder = logs[by_task[many][0]].folder
        raise InputError(
            f"{folder} has {counts[many]} evaluations of {many} and {counts[few]} of {few}: which "
            f"belong together is not known: choose with --tasks, or give the files"
        )
    most = max(counts.values())
    return [
        {runs[n]: logs[runs[n]] for runs in by_task.values() if n < len(runs)} for n in range(most)
    ]


def _evaluation_name(logs: dict[Run, Log], evaluations: int) -> str:
    log = min(logs.values(), key=_date_and_path)
    if len(logs) == 1 and log.given == log.path:
        return str(log.path)
    return str(log.folder) if evaluations == 1 else f"{log.folder} ({log.date})"


def _move_scores(scores: Scores, runs: Sequence[Run], into: Run) -> None:
    for column in scores.columns.values():
        for run in runs:
            if run in column.found:
                column.found[into] = column.found.pop(run)
