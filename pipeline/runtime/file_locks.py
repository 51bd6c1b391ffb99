"""Files that one process at a time locks; the system frees them when it ends, however it ends."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from pike_mixing.errors import InputError

WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Answers of a file system that has no locks."""


def nofollow(path: str, flags: int) -> int:
    """Opens a file, for `open`, and fails with ELOOP where a symbolic link is in its place."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def lock(path: Path) -> IO[bytes] | None:
    """Locks a file, which is made where there is none, for as long as it is open.

    Returns:
        The open file, to append to; None while another process has it locked.

    Raises:
        OSError: the file cannot be opened, or its file system has no locks.
    """
    while True:
        file = open(path, "ab", opener=nofollow)  # noqa: SIM115 - the caller's
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                    return file
            # Its last holder has just deleted it.
            file.close()
        except OSError as error:
            file.close()
            if not isinstance(error, BlockingIOError):
                raise
            return None


@contextlib.contextmanager
def acquire(path: Path, sweep: Callable[[], None]) -> Iterator[None]:
    """Holds the lock file of an output in the making, which is gone afterwards.

    `sweep` removes what dead makers left. A file system without locks has nothing swept: others
    may be at work.

    Raises:
        InputError: another process makes the output.
    """
    place = path.with_name(f".{path.name}.lock")
    with contextlib.ExitStack() as held:
        try:
            file = lock(place)
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
        else:
            if file is None:
                raise InputError(f"{path} is being made by another process: wait for it")
            held.enter_context(file)
            sweep()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                place.unlink()
