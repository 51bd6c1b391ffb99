"""Which files a stage made: what it may replace, and what it must leave alone.

A folder bears the mark `.made-by`, with a line for each file: the stage and the file's name below
the folder. A stage replaces a folder whose every file has its line, and a file that has its line in
the mark beside it. All else is somebody's. The mark stays where Snakemake deletes the declared
outputs of a stage before it runs the stage again.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from pike_mixing.errors import InputError
from pipeline.runtime import locks

MARK = ".made-by"
MAKE_FILES = ("tokenizer", "mixture", "database", "table", "figure", "article", "report")
"""Stages whose outputs are files; those of all others are folders."""


def refuse_foreign_output(path: Path, stage: str, inputs: Sequence[Path] = ()) -> None:
    """Refuses the place of an output that is not the stage's to write, or that is its input."""
    if path.name in ("", ".."):
        raise InputError(f"{path} has no name of its own: give --out a file or folder to make")
    if path.is_symlink():
        raise InputError(
            f"{path} is a symbolic link, through which nothing is written: give the place that it "
            "leads to, or another --out"
        )
    # `Path.resolve` fails at a link that leads to itself.
    place = Path(os.path.realpath(path))
    for one in inputs:
        read = Path(os.path.realpath(one))
        if place == read or place in read.parents or read in place.parents:
            raise InputError(f"{path} is, holds or lies in the input {one}: give another --out")
    if stage in MAKE_FILES and is_mark_place_blocked(own := path.parent / MARK):
        raise InputError(f"{own} is a folder, a pipe or a link, and no mark of ours: delete it")
    if stage in MAKE_FILES and path.is_dir():
        raise InputError(f"{path} is a folder, and `pike {stage}` makes a file: name one in --out")
    is_folder = path.is_dir()
    files = _files_below_except_mark(path) if is_folder else [path] if path.exists() else []
    mark = (path if is_folder else path.parent) / MARK
    if foreign := _unmarked_files(files, stage, mark):
        what = f"holds {foreign[0].relative_to(path)}" if is_folder else "is there already"
        raise InputError(
            f"{path} {what}, and no {MARK} there says that `pike {stage}` made it: give another "
            "--out, or move it away"
        )


def sibling_outputs_by_suffix(
    one_output: Path, suffixes: Sequence[str], stage: str, inputs: Sequence[Path]
) -> dict[str, Path]:
    """The files that a stage makes side by side, by suffix; each is one that it may write."""
    if one_output.suffix not in suffixes:
        raise InputError(
            f"{one_output} has no suffix of a {stage}: give --out a file with {', '.join(suffixes)}"
        )
    places = {suffix: one_output.with_suffix(suffix) for suffix in suffixes}
    for place in places.values():
        refuse_foreign_output(place, stage, inputs)
    return places


def write_mark(final_path: Path, stage: str, current_path: Path) -> None:
    """Marks the file or folder that a stage is about to move to its final path."""
    folder, names = final_path.parent, [final_path.name]
    if current_path.is_dir():
        folder, files = current_path, _files_below_except_mark(current_path)
        names = [_name_below(file, folder) for file in files]
    # One write at the end of the file: several processes may mark files of one folder. Each line
    # begins with its line break, so that one which a full disk cut off spoils no other.
    with open(folder / MARK, "ab", opener=locks.open_nofollow) as file:
        file.write(b"".join(b"\n" + _mark_line(stage, name) for name in names))


def is_mark_place_blocked(mark: Path) -> bool:
    """Whether a folder, a pipe or a link is in the place of a mark."""
    return mark.is_symlink() or (mark.exists() and not mark.is_file())


def unmarked_files_by_mark(
    files: Sequence[Path], stage: str, folder: Path
) -> dict[Path, list[Path]]:
    """Files of a stage that no mark says it made, by the mark that should; it would refuse them.

    `folder` is the one that the stage made, if it makes one.
    """
    marks: dict[Path, list[Path]] = {}
    for file in files:
        marks.setdefault((file.parent if stage in MAKE_FILES else folder) / MARK, []).append(file)
    left = {mark: _unmarked_files(of_mark, stage, mark) for mark, of_mark in marks.items()}
    return {mark: several for mark, several in left.items() if several}


def _unmarked_files(files: Sequence[Path], stage: str, mark: Path) -> list[Path]:
    """Those of the files of which a mark does not say that the stage made them."""
    # A pipe or a folder in a mark's place is not opened.
    known = set(mark.read_bytes().split(b"\n")) if files and mark.is_file() else set()
    return [f for f in files if _mark_line(stage, _name_below(f, mark.parent)) not in known]


def _files_below_except_mark(folder: Path) -> list[Path]:
    """All that lies below a folder but its mark and folders."""
    below = sorted(p for p in folder.rglob("*") if p.is_symlink() or not p.is_dir())
    return [path for path in below if path != folder / MARK]


def _name_below(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()


def _mark_line(stage: str, name: str) -> bytes:
    return json.dumps([stage, name]).encode()
