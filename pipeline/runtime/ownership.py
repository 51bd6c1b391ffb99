"""Which files a stage made: what it may replace, and what it must leave alone.

A folder bears the mark `.made-by`, with a line of JSON for each file: the stage, the file's name
below the folder and, where the file is an output of its own, its SHA-256. A stage replaces a folder
whose every file has its line, and a file whose line, in the mark beside it, is that of what it
holds now. All else is somebody's. The mark stays where Snakemake deletes the declared outputs of a
stage before it runs the stage again.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from pike_mixing.errors import InputError
from pipeline.runtime import file_locks

MARK = ".made-by"
_MAKE_FILES = ("tokenizer", "mixture", "database", "table", "figure", "report")
"""Stages whose outputs are files; those of all others are folders."""
_SHOWN = 3
"""Files of somebody's that a message names."""


def refuse(path: Path, stage: str, inputs: Sequence[Path] = ()) -> None:
    """Refuses a place that a stage must not write to.

    Args:
        path: The file or folder to be made.
        stage: Name of the command that makes it.
        inputs: Files and folders that the command reads.

    Raises:
        InputError: the place has no name, is a link, is a folder where the stage makes a file,
            holds what the stage did not make, or is an input, holds one or lies in one; so with
            the working folder, in which it may lie.
    """
    if path.name in ("", ".."):
        raise InputError(f"{path} has no name of its own: give --out a file or folder to make")
    if path.is_symlink():
        raise InputError(
            f"{path} is a symbolic link, through which nothing is written: give the place that it "
            "leads to, or another --out"
        )
    _refuse_input(path, inputs)
    if stage in _MAKE_FILES and path.is_dir():
        raise InputError(f"{path} is a folder, and `pike {stage}` makes a file: name one in --out")
    foreign = _foreign(path, stage)
    if foreign:
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        what = f"holds {', '.join(foreign[:_SHOWN])}{more}" if path.is_dir() else "is there already"
        raise InputError(
            f"{path} {what}, and no {MARK} there says that `pike {stage}` made it so: give another "
            "--out, or move it away"
        )


def siblings(
    out: Path, suffixes: Sequence[str], stage: str, inputs: Sequence[Path]
) -> dict[str, Path]:
    """The files that a command makes side by side, by suffix; each is refused as `refuse` does.

    Args:
        out: One of them, as the user names it.
        suffixes: Those of all.
        stage: Name of the command that makes them.
        inputs: Files and folders that the command reads.

    Raises:
        InputError: `out` has another suffix, or one of the files must not be written.
    """
    if out.suffix not in suffixes:
        raise InputError(
            f"{out} has no suffix of a {stage}: give --out a file with {', '.join(suffixes)}"
        )
    places = {suffix: out.with_suffix(suffix) for suffix in suffixes}
    for place in places.values():
        refuse(place, stage, inputs)
    return places


def append(path: Path, stage: str, content: Path) -> None:
    """Marks a file that is to appear at `path` with what `content` holds now."""
    _write(path.parent / MARK, [_line(stage, path.name, content)])


def mark(folder: Path, stage: str) -> None:
    """Marks a folder that is whole but for its mark."""
    _write(folder / MARK, [_line(stage, name) for name in _names(folder)])


def _refuse_input(path: Path, inputs: Sequence[Path]) -> None:
    place = _resolved(path)
    for given in [Path.cwd(), *inputs]:
        read = _resolved(given)
        if place == read or place in read.parents:
            told = "the working folder" if given == Path.cwd() else f"the input {given}"
            how = "is" if place == read else "holds"
            raise InputError(f"{path} {how} {told}, which would be lost: give another --out")
        if read in place.parents and given in inputs:
            raise InputError(f"{path} lies in the input {given}: give an --out outside of it")


def _resolved(path: Path) -> Path:
    """The place that links lead to; `Path.resolve` fails at one that leads to itself."""
    return Path(os.path.realpath(path))


def _foreign(path: Path, stage: str) -> list[str]:
    """Names of the files at a place that the stage did not make."""
    folder = path if path.is_dir() else path.parent
    mark = folder / MARK
    lines = set(mark.read_bytes().split(b"\n")) if mark.exists() else set()
    if folder == path:
        return [name for name in _names(folder) if _line(stage, name) not in lines]
    return [path.name] if path.exists() and _line(stage, path.name, path) not in lines else []


def _names(folder: Path) -> list[str]:
    """All that lies below a folder but its mark and folders, with paths relative to it."""
    result = (p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    names = (path.relative_to(folder).as_posix() for path in result)
    return sorted(name for name in names if name != MARK)


def _line(stage: str, name: str, content: Path | None = None) -> bytes:
    digest = None
    if content:
        with content.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return json.dumps([stage, name, digest]).encode()


def _write(path: Path, lines: Sequence[bytes]) -> None:
    # One write at the end of the file: several processes may mark files of one folder. Each line
    # begins with its line break, so that one which a full disk cut off spoils no other.
    with open(path, "ab", opener=file_locks.nofollow) as file:
        file.write(b"".join(b"\n" + line for line in lines))
