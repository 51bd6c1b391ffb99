"""Troubles of the disk that a user can mend, said plainly."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import InputError

_MENDABLE = {
    errno.ENOSPC: "free some space there, or give another results folder",
    errno.EDQUOT: "raise the quota there, or give another results folder",
    errno.EROFS: "mount it writable, or give another results folder",
    errno.EACCES: "give this user the right to write there, or give another results folder",
}


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Turns a full or unwritable disk inside the block into a message that names `path`.

    Raises:
        InputError: the disk is full, over quota or not writable. Other errors pass unchanged.
    """
    try:
        yield
    except OSError as error:
        remedy = _MENDABLE.get(error.errno or 0)
        if remedy is None:
            raise
        raise InputError(f"{path} cannot be written: {error}: {remedy}") from error
