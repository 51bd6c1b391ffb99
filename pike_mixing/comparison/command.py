"""The commands `compare` and `noise`.

What they need beside NumPy is imported when one of them runs.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pike_mixing.errors import InputError, refuse_without_package

if TYPE_CHECKING:
    from pike_mixing.comparison.scores import Column, Scores
    from pike_mixing.comparison.verdicts import Comparison

GATES = ("better", "not-worse")
HOLDS, FAILS, OPEN = 0, 1, 3
"""Exit codes of a gate: it holds, it does not, nothing can be said."""
GATE_SAYS = {HOLDS: "holds", FAILS: "does not hold", OPEN: "cannot tell"}
ABOUT = "is one model better than another, on the same items, by seeds and items"
ABOUT_NOISE = "how much runs of one recipe differ, and which differences 1 to 10 seeds would find"
SOURCES = "a folder for each recipe, or the runs of one; tables; a database"
MODELS = "names of a table's column `model`, or SCENARIO/SIZE/METHOD of a results database"


def add_commands(subparsers: Any) -> None:
    compare = subparsers.add_parser("compare", help=ABOUT, description=ABOUT)
    compare.set_defaults(run=comparison_and_exit_code)
    compare.add_argument(
        "source", nargs="*", type=Path, help="one table or database with both, or the two sides"
    )
    compare.add_argument("--models", nargs="+", metavar="MODEL", help=f"A, then B: {MODELS}")
    about = "folders or files of side %s; a run is one trained model"
    compare.add_argument("--a", nargs="+", type=Path, default=[], metavar="PATH", help=about % "A")
    compare.add_argument("--b", nargs="+", type=Path, default=[], metavar="PATH", help=about % "B")
    about = "differences below this do not matter, in the unit of the scores: tests equality"
    compare.add_argument("--margin", type=float, metavar="M", help=about)
    about = "share of items that not all runs have, up to which they are left out (default: 0.01)"
    compare.add_argument("--missing", type=float, default=0.01, metavar="SHARE", help=about)
    about = "what weighs alike in the mean over tasks (default: tasks)"
    compare.add_argument("--mean", choices=("tasks", "items"), default="tasks", help=about)
    about = "exit code by the verdict over tasks: 0 it holds, 1 it does not, 3 cannot tell"
    compare.add_argument("--gate", choices=GATES, help=about)
    compare.add_argument("--plot", type=Path, metavar="FILE.svg", help="a figure of the intervals")
    _add_reading_options(compare)
    choices = ("text", "json", "markdown", "csv")
    compare.add_argument("--format", choices=choices, default="text")
    noise = subparsers.add_parser("noise", help=ABOUT_NOISE, description=ABOUT_NOISE)
    noise.set_defaults(run=noise_and_exit_code)
    noise.add_argument("source", nargs="+", type=Path, help=SOURCES)
    about = f"recipes, each by itself; all of a table when absent: {MODELS}"
    noise.add_argument("--models", nargs="+", metavar="MODEL", help=about)
    noise.add_argument(
        "--missing", type=float, default=0.01, metavar="SHARE", help=argparse.SUPPRESS
    )
    _add_reading_options(noise)
    noise.add_argument("--format", choices=("text", "json"), default="text")


def _add_reading_options(command: Any) -> None:
    about = "several evaluations under one model's name: runs, each of a model trained anew; or "
    about += "repeats of one checkpoint, which are one run with the mean score of each item"
    command.add_argument("--evaluations", choices=("runs", "repeats"), help=about)
    about = "which metric, where a task has several; of several names the first that it has"
    command.add_argument("--metric", nargs="+", default=[], metavar="NAME", help=about)
    command.add_argument("--tasks", nargs="+", default=[], metavar="TASK", help="these alone")
    about = "higher is better, of these metrics or tasks or of all, where the files do not say"
    command.add_argument("--higher", nargs="*", metavar="NAME", help=about)
    about = "lower is better, in the same way"
    command.add_argument("--lower", nargs="*", metavar="NAME", help=about)
    about = "field of the harness's documents by which those made from one text are one"
    command.add_argument("--cluster", metavar="FIELD", help=about)
    about = "items are documents, whatever their prompts: for chat templates that differ"
    command.add_argument("--same-document", action="store_true", help=about)
    about = "columns of a table with other names: --columns item=question score=correct"
    command.add_argument("--columns", nargs="+", default=[], metavar="WHAT=NAME", help=about)


def _empty_scores(arguments: argparse.Namespace) -> "Scores":
    """Scores that nothing was read into yet, with what the options say of reading."""
    refuse_without_package(arguments.command, "scipy")
    from pike_mixing.comparison.scores import Reading, Scores

    columns = {}
    for given in arguments.columns:
        what, mark, name = given.partition("=")
        if not mark or not name:
            raise InputError(f"--columns {given}: write WHAT=NAME, as score=correct")
        columns[what] = name
    if not 0 <= arguments.missing < 1:
        raise InputError(f"--missing {arguments.missing:g}: give a share from 0 to below 1")
    return Scores(
        Reading(
            arguments.metric,
            arguments.tasks,
            arguments.higher,
            arguments.lower,
            arguments.cluster,
            arguments.same_document,
            columns,
            arguments.evaluations,
        )
    )


def comparison_and_exit_code(arguments: argparse.Namespace) -> tuple[str, int]:
    """The verdict as text, and the gate's exit code."""
    read = _empty_scores(arguments)
    from pike_mixing.comparison import evaluations, plot, read_sides, report, scores, verdicts

    for side, (paths, model) in zip("AB", _sides_of_options(arguments), strict=True):
        for path in paths:
            read_sides.add_scores_of_path(path, side, model, read)
    evaluations.merge_logs_by_trained_model(read)
    columns = _choose_and_check_columns(read)
    sides = read.runs("A"), read.runs("B")
    for side, runs in zip("AB", sides, strict=True):
        if not runs:
            raise read.error_with_notes(
                f"side {side} has no scores of these metrics: check --metric"
            )
    codes: dict[Any, int] = {}
    paired = [scores.pair_runs(column, sides, codes, arguments.missing) for column in columns]
    margin = arguments.margin
    if margin is not None and not margin > 0:
        raise InputError(f"--margin {margin:g}: give a number above 0, in the unit of the scores")
    if margin is not None and margin >= 1 and all(one.is_within_one for one in paired):
        raise InputError(
            f"--margin {margin:g}: these scores lie between 0 and 1: of five points give 0.05"
        )
    found = verdicts.compare(paired, sides, margin, weigh_alike=arguments.mean)
    text = report.FORMATS[arguments.format](found, read.all_notes())
    if arguments.plot is not None:
        plot.write_svg(found, arguments.plot)
    if arguments.gate is None:
        return text, HOLDS
    code = _side_a_gate_exit_code(arguments.gate, found)
    if arguments.format == "text":
        text += f"\ngate {arguments.gate}: {GATE_SAYS[code]}"
    return text, code


def _sides_of_options(arguments: argparse.Namespace) -> list[tuple[list[Path], str | None]]:
    """For A and B the paths, and which model of a table or database it is."""
    source, a, b, models = arguments.source, arguments.a, arguments.b, arguments.models
    if models is not None and len(models) != 2:
        raise InputError(f"--models: {', '.join(models)}: name two, first A, then B: --models A B")
    if source and (a or b):
        raise InputError("give either sources with --models, or --a and --b")
    if len(source) == 2 and models is None:
        a, b = ([path] for path in source)
    elif source:
        if models is None:
            raise InputError(_problem_without_models_option(source))
        if models[0] == models[1]:
            raise InputError(f"--models: both are {models[0]}: name two")
        return [(source, model) for model in models]
    if not (a and b):
        raise InputError(_missing_side_problem(arguments))
    twice = {p.resolve() for p in a} & {p.resolve() for p in b}
    if twice and models is None:
        raise InputError(f"{sorted(twice)[0]} is on both sides: give each run to one of them")
    return list(zip((a, b), models or (None, None), strict=True))


def _problem_without_models_option(source: list[Path]) -> str:
    """What to type where one source, or more than two, stand without --models."""
    from pike_mixing.comparison.read_sides import has_harness_logs

    if missing := [path for path in source if not path.exists()]:
        return f"{missing[0]} is not there: check the path"
    if len(source) == 1 and has_harness_logs(source[0]):
        inside = sorted(one for one in source[0].glob("*/") if has_harness_logs(one))
        if len(inside) > 1:
            return (
                f"{source[0]} has several folders of logs: say which two to compare: "
                f"pike-mixing compare {inside[0]} {inside[1]}"
            )
        return (
            f"{source[0]} has logs of one side, A: give the folder of B, too: "
            f"pike-mixing compare {source[0]} FOLDER"
        )
    return (
        "say which two of the source to compare, --models A B, or give the folders of both sides: "
        "--a FOLDER --b FOLDER"
    )


def _missing_side_problem(arguments: argparse.Namespace) -> str:
    """What to type where a side has no runs; an option of several words may have taken them."""
    options = {"--higher": arguments.higher, "--lower": arguments.lower}
    options |= {"--metric": arguments.metric, "--tasks": arguments.tasks}
    taken = [(n, o) for o, names in options.items() for n in names or () if Path(n).exists()]
    why = "".join(f"; {n} was read as a name of {o}: put files before it" for n, o in taken[:1])
    if arguments.a or arguments.b:
        side = "b" if arguments.a else "a"
        return f"side {side.upper()} has no runs: give its folder, too: --{side} PATH{why}"
    return f"give runs of both sides (--a PATH ... --b PATH ...), or a table and --models{why}"


def _choose_and_check_columns(read: "Scores") -> "list[Column]":
    """The columns to compare, with their directions set; refuses what cannot be compared."""
    from pike_mixing.comparison import read_sides, scores

    columns = scores.choose_one_column_per_task(read)
    read_sides.set_directions_from_options(columns, read.reading)
    read_sides.refuse_differing_facts(read, [column.task for column in columns])
    return columns


def _side_a_gate_exit_code(gate: str, comparison: "Comparison") -> int:
    """The exit code of a gate: by the mean over tasks, or the only task."""
    from pike_mixing.comparison.verdicts import BETTER, EQUAL, WORSE

    row = comparison.mean or comparison.tasks[0]
    if comparison.mean is None and len(comparison.tasks) > 1:
        raise InputError("--gate: the tasks' scores have no common mean: choose one with --tasks")
    if gate == "better":
        return {BETTER: HOLDS, WORSE: FAILS, EQUAL: FAILS}.get(row.verdict, OPEN)
    if comparison.margin is None:
        raise InputError("--gate not-worse: say how much worse does not matter: --margin M")
    if row.why_none is not None or row.low is None or row.high is None:
        return OPEN
    low, high = (row.low, row.high) if row.higher_is_better else (-row.high, -row.low)
    if low > -comparison.margin:
        return HOLDS
    return FAILS if high < -comparison.margin else OPEN


def noise_and_exit_code(arguments: argparse.Namespace) -> tuple[str, int]:
    """The noise of each recipe as text, and the exit code 0."""
    read = _empty_scores(arguments)
    from pike_mixing.comparison import evaluations, long_table, noise, read_sides

    for model in arguments.models or [None]:
        for path in arguments.source:
            read_sides.add_scores_of_path(path, model or long_table.EVERY, model, read)
    # Folders of one run each are runs of one recipe, a folder of several is a recipe.
    found = evaluations.merge_logs_of_each_evaluation(read)
    if evaluations.is_each_on_its_own_side(found):
        found = evaluations.move_to_side(read, found, long_table.EVERY)
    evaluations.average_evaluations_of_same_weights(read, found)
    columns = _choose_and_check_columns(read)
    return noise.noise_text(read, columns, arguments.missing, arguments.format), 0
