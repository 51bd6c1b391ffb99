"""Lock files of outputs in the making: who is at it, and whose leftovers lie there."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pipeline.runtime import ownership

WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Answers of a file system that has no locks."""


@contextlib.contextmanager
def acquire(path: Path, sweep: Callable[[], None]) -> Iterator[None]:
    """Holds the lock file of an output, which the system frees when its holder dies.

    Whoever finds it free sweeps first. The file is gone when nobody holds it any more.

    Args:
        path: The output.
        sweep: Removes what dead holders left.
    """
    lock = path.with_name(f".{path.name}.lock")
    while True:
        with open(lock, "ab", opener=ownership.nofollow) as file:
            first = _first(file.fileno())
            if not is_open(lock, file.fileno()):
                continue  # Its holder has just deleted it.
            if first:
                sweep()
                fcntl.flock(file, fcntl.LOCK_SH)
            try:
                yield
            finally:
                # Only who holds it alone may delete it.
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if is_open(lock, file.fileno()):
                        lock.unlink()
            return


def _first(lock: int) -> bool:
    """Locks an open file: whether nobody else holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(lock, fcntl.LOCK_SH)
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
    else:
        return True
    return False


def is_open(path: Path, descriptor: int) -> bool:
    """Whether a path still names an open file."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False
