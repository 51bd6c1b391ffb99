"""Files of a project that somebody edits or damages, and JSON values with one place spoiled."""

import copy as copies
import functools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import yaml
from hypothesis import strategies as st

from pipeline.runtime import atomic_files

P = ParamSpec("P")
GONE = object()
"""In place of a value: the key is taken out."""
Edit = Callable[[Path], None]
"""Spoils a project, given its folder."""

WRONG = (None, True, -1, 0, 1.5, math.nan, "x", [], ["x"], {}, {"x": 1})


def paths(value, before=()):
    """Every place within a JSON value."""
    listed = dict(enumerate(value)) if isinstance(value, list) else value
    for key, one in listed.items() if isinstance(listed, dict) else ():
        yield (*before, key)
        yield from paths(one, (*before, key))


def way(place: str, separator: str = ".") -> list[str | int]:
    """Names and numbers of a place that is written as one text: `runs.0.seeds`."""
    return [int(part) if part.isdecimal() else part for part in place.split(separator)]


def set_at(value: Any, place: Sequence[str | int], new: Any) -> None:
    """Sets what stands at a place within a JSON value; GONE takes it out."""
    *before, last = place
    for key in before:
        value = value[key]
    if new is GONE:
        del value[last]
    else:
        value[last] = new


@st.composite
def edited(draw, value):
    """A JSON text with one place taken out or of another kind, or cut short."""
    if draw(st.booleans()) and draw(st.booleans()):
        text = json.dumps(value)
        return text[: draw(st.integers(0, len(text) - 1))]
    changed = copies.deepcopy(value)
    place = draw(st.sampled_from(list(paths(changed))))
    set_at(changed, place, GONE if draw(st.booleans()) else draw(st.sampled_from(WRONG)))
    return json.dumps(changed)


def _edit(change: Callable[Concatenate[Path, P], None]) -> Callable[P, Edit]:
    """The change without the project's folder, which is given when the edit is made."""

    @functools.wraps(change)
    def given(*arguments: P.args, **named: P.kwargs) -> Edit:
        return lambda root: change(root, *arguments, **named)

    return given


def _write(place: Path, content: bytes) -> None:
    """Puts another file in the place of one, which a process may have mapped into its memory."""
    place.unlink(missing_ok=True)
    place.write_bytes(content)


@_edit
def put(root: Path, path: str, content: str | bytes = "") -> None:
    """Writes a file."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    _write(place, content.encode() if isinstance(content, str) else content)


@_edit
def program(root: Path, path: str, *lines: str) -> None:
    """Writes a shell script that can be started."""
    put(path, "\n".join(["#!/bin/sh", *lines, ""]))(root)
    (root / path).chmod(0o755)


@_edit
def values(root: Path, path: str, changes: dict[str, Any]) -> None:
    """Changes values of a JSON or YAML file by their place (`runs/0/seeds`); GONE takes one out."""
    place = root / path
    text = place.read_text(encoding="utf-8")
    is_json = place.suffix == ".json"
    content = json.loads(text) if is_json else yaml.load(text, yaml.CSafeLoader)
    for at, value in changes.items():
        set_at(content, way(at, "/"), value)
    changed = (
        json.dumps(content)
        if is_json
        else yaml.dump(content, None, yaml.CSafeDumper, sort_keys=False)
    )
    _write(place, changed.encode())


@_edit
def text(root: Path, path: str, old: str, new: str) -> None:
    """Replaces the first place where a text occurs."""
    before = (root / path).read_text(encoding="utf-8")
    assert old in before
    _write(root / path, before.replace(old, new, 1).encode())


@_edit
def flip(root: Path, path: str, place: int | None = None) -> None:
    """Flips every bit of one byte, of that in the middle; a negative place counts from the end."""
    content = bytearray((root / path).read_bytes())
    content[len(content) // 2 if place is None else place] ^= 0xFF
    _write(root / path, bytes(content))


@_edit
def cut(root: Path, path: str, kept: float = 0.5) -> None:
    """Keeps the first part of a file, this share of it or all but so many bytes: -1."""
    content = (root / path).read_bytes()
    _write(root / path, content[: int(kept if kept < 0 else len(content) * kept)])


@_edit
def remove(root: Path, path: str) -> None:
    """Deletes a file or a folder."""
    atomic_files.remove_path(root / path)


@_edit
def copy(root: Path, path: str, source: str) -> None:
    """Copies a file of the project."""
    _write(root / path, (root / source).read_bytes())


@_edit
def folder(root: Path, path: str) -> None:
    """Makes a folder, in place of a file where one is there."""
    (root / path).unlink(missing_ok=True)
    (root / path).mkdir(parents=True)


@_edit
def link(root: Path, path: str, target: str) -> None:
    """Makes a symbolic link, in place of what is there."""
    place = root / path
    if place.exists():
        atomic_files.remove_path(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
