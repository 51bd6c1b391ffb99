"""A trial: what is bad, how a sound project is spoiled by it, the command, the words of the answer.

Every bad input ends the same way: exit code 2, one message that names what is at fault, and no
file of the project changed, gone or added.
"""

import contextlib
import io
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from edits import Edit

from pipeline.__main__ import MISTAKE, main
from pipeline.runtime import checksums

SET = "results/settings"
SOURCE = "results/data/easy"
LETTERS = "results/tokenizers/letters.model"
MODELS = "results/corpora/letters"
CORPUS = f"{MODELS}/easy"
RUN = "results/runs/words/tiny/mix/seed0"
FOUND = "results/runs/words/tiny/found/seed0"
CHOSEN = f"{SET}/mixtures/words/tiny/chosen/seed0.json"
MIXTURE = "results/mixtures/words/tiny/chosen/seed0.json"
DATABASE = "results/pike.duckdb"
OF_RUN = f"--corpora {MODELS} --device cpu"
COMMANDS = {
    "download": f"download {SET}/sources/easy.json --out own",
    "tokenizer": f"tokenizer {SET}/tokenizers/letters.json --sources {SOURCE} --out own.model",
    "pack": f"pack {SET}/corpora/letters/easy.json --documents {SOURCE} --tokenizer {LETTERS}"
    " --out own",
    "pretrain": f"pretrain {RUN}/run.json {OF_RUN}",
    "pretrain found": f"pretrain {FOUND}/run.json --mixture {MIXTURE} {OF_RUN}",
    "evaluate": f"evaluate {RUN}/evaluation.json --run {RUN} --tokenizer {LETTERS} {OF_RUN}",
    "probe": f"probe {RUN}/probe.json --run {RUN} {OF_RUN}",
    "mixture": f"mixture {CHOSEN} --out own.json",
    "database": f"database {SET}/experiment.json --out own.duckdb",
    "table": f"table {SET}/tables/perplexity.json --database {DATABASE} --out own.md",
    "figure": f"figure {SET}/figures/losses.json --database {DATABASE} --out own.svg",
    "report": f"report {SET}/experiment.json --database {DATABASE} --tables results/tables"
    " --figures results/figures --out own.html",
    "corpus": f"corpus {CORPUS}",
    "verify corpus": f"verify {CORPUS}",
    "verify": "verify results/data results/corpora",
}
"""Sound commands, which trials spoil the input of."""


def onto(command, out):
    """A command with another output, which it names last."""
    return f"{command.rpartition(' ')[0]} {out}"


State = dict[str, tuple[int, ...] | str | None]
"""Number, size and time of a file, target of a link, None of a folder, by path."""
Run = Callable[[str, Path], tuple[int, str]]
"""Gives a command in a folder: as `called`."""


@dataclass(frozen=True)
class Trial:
    """One bad input."""

    bad: str
    """What is bad: the trial's name."""
    command: str
    """As one types it behind `pike`, in the project's folder."""
    says: tuple[str, ...]
    """What the message must hold: the place that is at fault, or its name."""
    edits: tuple[Edit, ...] = ()


SLOW = ("database", "figure", "report", "theory")
"""Commands that take a third of a second or more."""


def cases(trials: Sequence[Trial]) -> pytest.MarkDecorator:
    """A test for each trial, under its name."""
    assert len({trial.bad for trial in trials}) == len(trials), "a name stands for one trial"
    marks = {True: [pytest.mark.slow], False: []}
    params = [pytest.param(t, id=t.bad, marks=marks[t.command.startswith(SLOW)]) for t in trials]
    return pytest.mark.parametrize("trial", params)


def state(root: Path) -> State:
    """All below a folder, links not followed."""
    found: State = {}
    waiting = [str(root)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if entry.name.endswith(checksums.REMEMBERED):
                continue  # Digests of what was read: nobody's result.
            what: tuple[int, ...] | str | None = None
            if entry.is_symlink():
                what = str(Path(entry.path).readlink())
            elif entry.is_dir():
                waiting.append(entry.path)
            else:
                seen = entry.stat()
                what = seen.st_ino, seen.st_size, seen.st_mtime_ns
            found[entry.path[len(str(root)) + 1 :]] = what
    return found


def refused(trial: Trial, project: Path, run: Run) -> None:
    """Spoils a copy of a project, gives the command, and fails unless it is refused clearly."""
    for edit in trial.edits:
        edit(project)
    above = project.parent
    before = state(above)
    code, printed = run(trial.command, project)
    after = state(above)
    lost = [name for name in before if name not in after or before[name] != after[name]]
    # Folders on the way to an output may be left behind.
    added = [name for name in after if name not in before and after[name] is not None]
    assert (code, lost, added) == (MISTAKE, [], []), printed
    missing = [word for word in trial.says if word not in printed]
    assert not missing, f"{missing} are not in: {printed}"


def called(command: str, project: Path) -> tuple[int, str]:
    """Runs a command in a folder: exit code and what it printed."""
    printed = io.BytesIO()
    stream = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
    with (
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
        contextlib.chdir(project),
    ):
        try:
            code = main(shlex.split(command))
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    stream.detach()
    return code, printed.getvalue().decode(errors="replace")
