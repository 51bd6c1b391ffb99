"""Lock files of outputs in the making: who is at it, and whose leftovers lie there."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from pike_mixing.errors import InputError
from pipeline.runtime import ownership

_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Answers of a file system that has no locks."""


@contextlib.contextmanager
def acquire(path: Path, sweep: Callable[[], None], *, alone: bool) -> Iterator[None]:
    """Holds the lock file of an output, which the system frees when its holder dies.

    Whoever finds it free sweeps first. The file is gone when nobody holds it any more.

    Args:
        path: The output.
        sweep: Removes what dead holders left.
        alone: Whether nobody else may make it meanwhile; otherwise several may.

    Raises:
        InputError: another process is making it.
    """
    lock = path.with_name(f".{path.name}.lock")
    while True:
        with open(lock, "ab", opener=ownership.nofollow) as file:
            first = _first(file.fileno(), alone=alone)
            if first is None:
                raise InputError(
                    f"another process is making {path} (it holds {lock}): wait for it, or stop it"
                )
            if not _is(lock, file.fileno()):
                continue  # Its holder has just deleted it.
            if first:
                sweep()
                if not alone:
                    fcntl.flock(file, fcntl.LOCK_SH)
            try:
                yield
            finally:
                # Only who holds it alone may delete it.
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _is(lock, file.fileno()):
                        lock.unlink()
            return


def _first(lock: int, *, alone: bool) -> bool | None:
    """Locks an open file: whether nobody else holds it; None where that is asked for in vain."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if alone:
            return None
        fcntl.flock(lock, fcntl.LOCK_SH)
    except OSError as error:
        if alone or error.errno not in _WITHOUT_LOCKS:
            raise
    else:
        return True
    return False


def _is(path: Path, descriptor: int) -> bool:
    """Whether a path still names an open file."""
    return path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino
