"""Files that appear whole or not at all, and what they hold: JSON, checksums."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pike_mixing.errors import InputError
from pipeline import errors
from pipeline.runtime import locks, ownership

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
MANIFEST = "manifest.json"
MOST_BYTES = 2**28
"""Of a file of JSON; the largest that is written here, of 10,000 runs, has a tenth of it."""
KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}
"""What may be in the place of a file."""

Stamp = tuple[int, int, int, int]


@contextlib.contextmanager
def atomic_write(
    path: Path, owner_stage: str | None = None, protected_inputs: Sequence[Path] = ()
) -> Iterator[Path]:
    """Yields a path beside `path` to write to; on success it is synced and renamed into place.

    On any exception the partial file or folder is removed and `path` is as it was before.

    Args:
        path: The file or folder to be made.
        owner_stage: Name of the command whose output it is; only what the same command made is
            replaced (`runtime.ownership`), and what killed processes left beside it is removed.
            Absent: it lies in a folder of ours that nobody else writes.
        protected_inputs: Files and folders that the command reads: the output must not be, hold or
            lie in one.

    Raises:
        InputError: of an output: it must not be written there, or the disk is full or not writable.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part") if path.name else path
    with contextlib.ExitStack() as guards:
        if owner_stage:
            guards.enter_context(errors.explain_disk_errors(path))
            ownership.refuse_foreign_output(path, owner_stage, protected_inputs)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:
            # Such as below /proc.
            raise InputError(f"{path.parent} cannot be made ({error}): give another path") from None
        if owner_stage and guards.enter_context(locks.lock_output_or_refuse(path)):
            _remove_leftovers(path)
        remove_path(partial)
        try:
            yield partial
            if owner_stage:
                # Another's may have been put there meanwhile.
                ownership.refuse_foreign_output(path, owner_stage)
                ownership.write_mark(path, owner_stage, partial)
            _move_into_place(partial, path)
        except BaseException:
            for left in (partial, *partial.parent.glob(f"{glob.escape(partial.name)}.*")):
                remove_path(left)
            raise


def _move_into_place(partial: Path, path: Path) -> None:
    """Syncs and renames what was made. A folder before it is deleted afterwards."""
    for file in [*sorted(partial.rglob("*")), partial]:
        fsync_file_or_folder_entries(file)
    if partial.is_dir() and path.exists():
        old = path.with_name(f".{path.name}.{os.getpid()}.old")
        path.rename(old)
        partial.replace(path)
        remove_path(old)
    else:
        partial.replace(path)
    fsync_file_or_folder_entries(path.parent)


def _remove_leftovers(path: Path) -> None:
    """Removes what killed processes left of an output in the making."""
    left = re.compile(rf"\.{re.escape(path.name)}((\.\d+)?\.part(\..+)?|\.\d+\.old)")
    for result in path.parent.iterdir():
        if left.fullmatch(result.name):
            remove_path(result)


def fsync_file_or_folder_entries(path: Path) -> None:
    """Flushes a file, or the entries of a folder and not their content, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_path(path: Path) -> None:
    """Deletes a file or a whole folder; a missing one is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def step_entries(folder: Path) -> dict[int, Path]:
    """The entries `step{n}` of a folder by their number of updates n, in its order."""
    numbers = {path.name.removeprefix("step"): path for path in folder.glob("step*")}
    return {int(n): numbers[n] for n in sorted(filter(str.isdecimal, numbers), key=int)}


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_stamp(path: Path) -> Stamp:
    """Inode, size and times of a file: writing to it, or another file in its place, changes them.

    The time of the inode's last change guards the others: `cp -p`, `touch` or rsync cannot set it.
    """
    result = path.stat()
    return result.st_ino, result.st_size, result.st_mtime_ns, result.st_ctime_ns


def kind_of_existing_non_file(path: Path) -> str | None:
    """What is in the place of a file, in words: a folder, a pipe; None of a file or of nothing.

    Pipes and devices are not opened: whoever does may wait for ever.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if path.is_symlink() and error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return "a link that leads nowhere"
        return None
    return next((kind for is_kind, kind in KINDS.items() if is_kind(mode)), None)


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no blanks. NaN and infinities are refused."""
    return _CANONICAL.encode(value)


def json_digest(value: Any) -> str:
    """Hex SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def write_json(
    path: Path,
    value: Any,
    owner_stage: str | None = None,
    protected_inputs: Sequence[Path] = (),
) -> None:
    """Writes indented JSON; the file appears whole or not at all, as `atomic_write` says."""
    with atomic_write(path, owner_stage, protected_inputs) as partial:
        partial.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Reads JSON; a file that is missing, is no file or is not JSON is refused."""
    if other := kind_of_existing_non_file(path):
        raise InputError(f"{path} is {other}, and a file of JSON is read there: move it away")
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise InputError(f"{path} has {size:,} bytes, too many for JSON: check the path")
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_json_constant)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: make it first, or check the path") from None
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not valid JSON ({error}): check the path; if a command wrote it, run that "
            "command again"
        ) from None


def read_json_mapping(path: Path) -> dict[str, Any]:
    """Reads JSON that is a mapping, such as a settings file; all else is refused."""
    result = read_json(path)
    if not isinstance(result, dict):
        raise InputError(f"{path} holds no mapping of settings: check the path")
    return result


def _refuse_json_constant(name: str) -> None:
    """JSON has no NaN and no infinities, and nothing here writes them."""
    raise ValueError(f"{name} is no number")
