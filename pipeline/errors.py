"""Troubles of the disk that a user can mend, said plainly."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from pike_mixing.errors import InputError

_MENDABLE = {
    errno.ENOSPC: "free some space there, or give another results folder",
    errno.EDQUOT: "raise the quota there, or give another results folder",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f), or give another results folder",
    errno.EROFS: "mount it writable, or give another results folder",
    errno.EACCES: "give this user the right to it, or give another results folder",
    errno.EPERM: "give this user the right to it, or give another results folder",
    errno.ENOTDIR: "a file is in the place of a folder: give another path",
    errno.EEXIST: "a file is in the place of a folder: give another path",
    errno.EISDIR: "a folder is in the place of a file: give another path",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "a symbolic link is in its place or leads to itself: give another path",
    errno.EBUSY: "it is in use, or something is mounted there: give a folder below it",
}


@contextlib.contextmanager
def explain_disk_errors(path: Path) -> Iterator[None]:
    """Turns a full or unwritable disk inside the block into a message that names `path`.

    Raises:
        InputError: the disk is full, over quota or not writable, or something else is in the
            place. Other errors pass unchanged.
    """
    try:
        yield
    except OSError as error:
        if not mendable(error):
            raise
        # No name is given to what is raised: it would hold itself by this frame, and open files.
        raise mistake(error, path) from error


def mendable(error: OSError) -> bool:
    """Whether it is a trouble that a user can mend."""
    return error.errno in _MENDABLE


def mistake(error: OSError, path: Path | None = None) -> InputError:
    """What a user is told of a trouble that they can mend, met in writing `path` if it is given.

    An error that names a file elsewhere is of that file.
    """
    remedy = _MENDABLE[error.errno or 0]
    named = error.filename if isinstance(error.filename, str) else str(path or "a file")
    if path and path.absolute().parent in Path(named).absolute().parents:
        return InputError(f"{path} cannot be written: {error}: {remedy}")
    return InputError(f"{named} cannot be used: {error}: {remedy}")
