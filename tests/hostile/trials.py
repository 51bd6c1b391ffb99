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
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.__main__ import MISTAKE, main
from pipeline.runtime import atomic_files

REFUSED, UNCLEAR, TRACEBACK, DAMAGE, SILENT, HANG = OUTCOMES = (
    "refused clearly",
    "unclear",
    "traceback",
    "damage",
    "silent",
    "hang",
)
SECONDS = 120
"""Time limit of a trial; a sound command takes less than one where nothing else runs."""
RUN = "results/runs/words/tiny/mix/seed0"
CORPUS = "results/corpora/letters/easy"
GONE = object()
"""In place of a value: the key is taken out."""

State = dict[str, tuple[str, ...]]
"""Kind, mode and content by path."""
Edit = Callable[[Path], None]
"""Spoils a project, given its folder."""
Run = Callable[[str, Path], tuple[int | None, str, bool]]
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
        atomic_files.remove(root / path)

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
    found = {".": (oct(stat.S_IMODE(root.lstat().st_mode)), "folder")}
    waiting = [""]
    while waiting:
        within = waiting.pop()
        for entry in os.scandir(root / within):
            name, facts = within + entry.name, entry.stat(follow_symlinks=False)
            if entry.is_symlink():
                what = ("link", os.readlink(entry.path))  # noqa: PTH115 - as it is written
            elif entry.is_file():
                what = ("file", _sha256(entry.path, facts))
            elif entry.is_dir():
                what = ("folder",)
                waiting.append(f"{name}/")
            else:
                what = (str(stat.S_IFMT(facts.st_mode)),)
            found[name] = (oct(stat.S_IMODE(facts.st_mode)), *what)
    return found


def _sha256(path: str, facts: os.stat_result) -> str:
    """Of a file's bytes, remembered where a change would show in the time that the system keeps.

    Its clock ticks every few milliseconds.
    """
    old = time.time_ns() - facts.st_ctime_ns > 10**8
    key = (path, facts.st_ino, facts.st_size, facts.st_ctime_ns)
    return (_hashed if old else _hashed.__wrapped__)(*key)


@functools.lru_cache(maxsize=4096)
def _hashed(path: str, *_: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def changes(before: State, after: State) -> list[str]:
    """What differs between two states: `- gone`, `! changed`, `+ added` (folders aside)."""
    found = [f"- {name}" for name in before if name not in after]
    found += [f"! {name}" for name in before if name in after and before[name] != after[name]]
    added = (name for name in after if name not in before)
    return found + [f"+ {name}" for name in added if after[name][1] in ("file", "link")]


class Ground:
    """A copy of a sound project for trials; what a trial has changed is made sound again."""

    def __init__(self, sound: Path, root: Path) -> None:
        """Copies the project to below `root`, which holds nothing else."""
        self.sound, self.root = sound, root
        self.project = root / "home" / "project"
        shutil.copytree(sound, self.project, symlinks=True)
        self.wanted = state(root)

    def attempt(self, trial: Trial, run: Run | None = None) -> Outcome:
        """Spoils the copy, gives the command, looks at what it did."""
        try:
            for edit in trial.edits:
                edit(self.project)
            before = state(self.root)
            answer = (run or called)(trial.command, self.project)
            return judged(trial, *answer, before, state(self.root))
        finally:
            self.restore()

    def restore(self) -> None:
        """Makes the copy like the sound project again."""
        found = state(self.root)
        for name in found.keys() - self.wanted.keys():
            atomic_files.remove(self.root / name)
        for name in sorted(self.wanted):
            if found.get(name) != self.wanted[name]:
                self._copy(name)

    def _copy(self, name: str) -> None:
        place, origin = self.root / name, self.sound / Path(name).relative_to("home/project")
        if place.is_symlink() or origin.is_dir() != place.is_dir():
            atomic_files.remove(place)
        if origin.is_dir():
            place.mkdir(exist_ok=True)
        else:
            shutil.copy2(origin, place)
        place.chmod(stat.S_IMODE(origin.stat().st_mode))


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
