"""A trial: what is bad, how a sound project is spoiled by it, the command, the words of the answer.

Every bad input ends the same way: exit code 2, one message that names what is at fault, and no
file of the project changed, gone or added.
"""

import contextlib
import functools
import hashlib
import io
import json
import os
import shlex
import shutil
import signal
import stat
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.__main__ import MISTAKE, main

REFUSED, UNCLEAR, TRACEBACK, DAMAGE, SILENT, HANG = OUTCOMES = (
    "refused clearly",
    "unclear",
    "traceback",
    "damage",
    "silent",
    "hang",
)
SECONDS = 30
"""Time limit of a trial; a sound command takes less than one."""
RUN = "results/runs/words/tiny/mix/seed0"
CORPUS = "results/corpora/letters/easy"
GONE = object()
"""In place of a value: the key is taken out."""

State = dict[str, tuple[str, ...]]
"""Kind, mode and content by path."""
Edit = Callable[[Path], None]
"""Spoils a project, given its folder."""


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


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    kind: str
    told: str
    """Exit code, what was printed, and what changed."""


SLOW = ("compare", "database", "figure", "report", "theory")
"""Commands that take a third of a second or more."""


def cases(trials: Sequence[Trial]) -> pytest.MarkDecorator:
    """A test for each trial, under its name."""
    assert len({trial.bad for trial in trials}) == len(trials), "a name stands for one trial"
    marks = {True: [pytest.mark.slow], False: []}
    params = [pytest.param(t, id=t.bad, marks=marks[t.command.startswith(SLOW)]) for t in trials]
    return pytest.mark.parametrize("trial", params)


class HangError(BaseException):
    """The time limit has passed; no handler of the code under trial may catch it."""


def put(path: str, content: str | bytes = "") -> Edit:
    """Writes a file."""

    def edit(root: Path) -> None:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)

    return edit


def values(path: str, changes: dict[str, Any]) -> Edit:
    """Changes values of a JSON or YAML file by their place (`runs/0/seeds`); GONE takes one out."""

    def edit(root: Path) -> None:
        place = root / path
        text = place.read_text(encoding="utf-8")
        is_json = place.suffix == ".json"
        content = json.loads(text) if is_json else yaml.safe_load(text)
        for at, value in changes.items():
            *way, last = [int(part) if part.isdecimal() else part for part in at.split("/")]
            inner = content
            for part in way:
                inner = inner[part]
            if value is GONE:
                del inner[last]
            else:
                inner[last] = value
        place.write_text(
            json.dumps(content) if is_json else yaml.safe_dump(content, sort_keys=False),
            encoding="utf-8",
        )

    return edit


def flip(path: str, place: int) -> Edit:
    """Flips every bit of one byte; a negative place counts from the end."""

    def edit(root: Path) -> None:
        content = bytearray((root / path).read_bytes())
        content[place] ^= 0xFF
        (root / path).write_bytes(content)

    return edit


def cut(path: str, share: float = 0.5) -> Edit:
    """Keeps the first part of a file."""

    def edit(root: Path) -> None:
        content = (root / path).read_bytes()
        (root / path).write_bytes(content[: int(len(content) * share)])

    return edit


def remove(path: str) -> Edit:
    """Deletes a file or a folder."""

    def edit(root: Path) -> None:
        shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()

    return edit


def copy(path: str, source: str) -> Edit:
    """Copies a file of the project."""

    def edit(root: Path) -> None:
        shutil.copyfile(root / source, root / path)

    return edit


def folder(path: str) -> Edit:
    """Makes a folder, in place of a file where one is there."""

    def edit(root: Path) -> None:
        (root / path).unlink(missing_ok=True)
        (root / path).mkdir(parents=True)

    return edit


def link(path: str, target: str) -> Edit:
    """Makes a symbolic link, in place of what is there."""

    def edit(root: Path) -> None:
        place = root / path
        if place.exists():
            remove(path)(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    return edit


def state(root: Path) -> State:
    """Kind, mode and content of all below a folder, links not followed."""
    found = {}
    for path in [root, *root.rglob("*")]:
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            what = ("link", os.readlink(path))  # noqa: PTH115 - as it is written
        elif stat.S_ISREG(facts.st_mode):
            what = ("file", _sha256(path, facts.st_ino, facts.st_size, facts.st_ctime_ns))
        else:
            what = (str(stat.S_IFMT(facts.st_mode)),)
        found[os.path.relpath(path, root)] = (oct(stat.S_IMODE(facts.st_mode)), *what)
    return found


@functools.lru_cache(maxsize=1024)
def _sha256(path: Path, *_: int) -> str:
    """Of a file's bytes; nothing changes them without changing the time that the system keeps."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def changes(before: State, after: State) -> list[str]:
    """What differs between two states: `- gone`, `! changed`, `+ added` (folders aside)."""
    found = [f"- {name}" for name in before if name not in after]
    found += [f"! {name}" for name in before if name in after and before[name] != after[name]]
    added = (name for name in after if name not in before)
    return found + [f"+ {name}" for name in added if after[name][1] in ("file", "link")]


def attempt(trial: Trial, sound: Path, root: Path) -> Outcome:
    """Spoils a copy of the sound project below `root`, gives the command, looks at what it did."""
    project = root / "home" / "project"
    shutil.copytree(sound, project, symlinks=True)
    for edit in trial.edits:
        edit(project)
    before = state(root)
    code, printed, crashed = called(trial.command, project)
    return judged(trial, code, printed, crashed, before, state(root))


def judged(
    trial: Trial, code: int | None, printed: str, crashed: bool, before: State, after: State
) -> Outcome:
    """The outcome of a command with this exit code and output, which left this state."""
    changed = changes(before, after)
    told = "\n".join([f"exit code {code}", printed, *changed])
    return Outcome(_kind(trial, code, printed, crashed, changed), told)


def _kind(trial: Trial, code: int | None, printed: str, crashed: bool, changed: list[str]) -> str:
    if code is None:
        return HANG
    # What a command makes lies under results; all else is the user's.
    lost = [line[2:] for line in changed if line[0] != "+"]
    if code == 0:
        lost = [name for name in lost if not name.startswith("home/project/results/")]
    if lost or (changed and code == MISTAKE):
        return DAMAGE
    if code == 0:
        return SILENT
    if crashed:
        return TRACEBACK
    clear = code == MISTAKE and all(word in printed for word in trial.says)
    return REFUSED if clear else UNCLEAR


def called(command: str, project: Path) -> tuple[int | None, str, bool]:
    """Runs a command in a folder: exit code (None: past the limit), what it printed, a crash?"""
    with _captured() as printed, _within(project), _limited():
        try:
            code: int | None = main(shlex.split(command))
            crashed = False
        except SystemExit as ended:
            code, crashed = ended.code if isinstance(ended.code, int) else 1, False
        except HangError:
            code, crashed = None, False
        except Exception:
            traceback.print_exc()
            code, crashed = 1, True
        sys.stdout.flush()
    return code, printed.getvalue().decode(errors="replace"), crashed


@contextlib.contextmanager
def _captured() -> Iterator[io.BytesIO]:
    printed = io.BytesIO()
    stream = io.TextIOWrapper(printed, encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        yield printed
    stream.detach()


@contextlib.contextmanager
def _within(project: Path) -> Iterator[None]:
    here = Path.cwd()
    os.chdir(project)
    try:
        yield
    finally:
        os.chdir(here)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def late(number: int, frame: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
