"""A stamp for each piece of work: a small file that is an input of its job.

Its time is what tells Snakemake whether finished work is to be made again: old where the work is
what the plan would make, and new where it is not. All other inputs are `ancient`. A stamp is
written whenever jobs are looked for, by dry runs, too: it says nothing of an earlier time, but that
work which was found to differ, and has been touched since (`--touch`), counts as made.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files, made_from

FOLDER = made_from.KEPT
"""In the folder where the workflow is started: a dry run writes nothing among the results."""
OLD = 0
"""The time of a stamp of what stands, in nanoseconds."""


def place(manifest: str) -> str:
    """Where the stamp of the work with this manifest lies."""
    parts = Path(os.path.relpath(manifest)).parts
    return str(FOLDER.joinpath(*("up" if part == ".." else part for part in parts)))


def ensure(manifest: str) -> str:
    """The stamp of a piece of work, as it is: an old one where there was none."""
    if not Path(place(manifest)).exists():
        make_old(manifest)
    return place(manifest)


def make_old(manifest: str) -> None:
    """Says that work stands, or is not there."""
    stamp = Path(place(manifest))
    with contextlib.suppress(FileNotFoundError):
        if stamp.stat().st_mtime_ns == OLD:
            return
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()
    os.utime(stamp, ns=(OLD, OLD))


def make_new(manifest: str, differences: Sequence[made_from.Difference]) -> None:
    """Says that finished work differs from the plan, from now on, unless it is said already."""
    if _says(manifest, differences):
        return
    stamp, made = Path(place(manifest)), Path(manifest).stat().st_mtime_ns
    # Snakemake compares contents, too: the same difference at another time is another content.
    content = {**_content(manifest, differences), "since": time.time_ns()}
    atomic_files.write_json(stamp, content)
    if made >= stamp.stat().st_mtime_ns:
        # Another machine's clock was ahead.
        os.utime(stamp, ns=(made + 10**9, made + 10**9))


def is_touched(manifest: str, differences: Sequence[made_from.Difference]) -> bool:
    """Whether work was touched after it had been found to differ like this."""
    if not _says(manifest, differences):
        return False
    return Path(manifest).stat().st_mtime_ns > Path(place(manifest)).stat().st_mtime_ns


def _says(manifest: str, differences: Sequence[made_from.Difference]) -> bool:
    stamp = Path(place(manifest))
    if not stamp.is_file() or stamp.stat().st_mtime_ns == OLD:
        return False
    try:
        said: Any = atomic_files.read_json(stamp)
    except InputError:
        return False
    wanted = _content(manifest, differences)
    return isinstance(said, dict) and {name: said.get(name) for name in wanted} == wanted


def _content(manifest: str, differences: Sequence[made_from.Difference]) -> dict[str, Any]:
    # One that was copied, or made anew, is another file: only what was touched is the same.
    return {"differs": [[*one] for one in differences], "manifest": Path(manifest).stat().st_ino}
