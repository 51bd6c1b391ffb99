"""Locks on files: one process makes an output, one process writes a run.

The system frees a lock (`flock`) when the process that holds it ends, however it ends: the next one
takes it at once. A run's writer locks `lease.json` in the run's folder and writes there who it is.
A second one is refused while the first lives, also on another machine, where the file system holds
locks between machines: NFS, CephFS, Lustre mounted with `flock`. An NFSv4 server frees the locks of
a machine that was lost after its lease time, of 90 s by default; `wait_while_lease_held` waits
for that.
"""

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pike_mixing import foreign_json
from pike_mixing.errors import InputError

log = logging.getLogger("pike")

NAME = "lease.json"
SLURM_JOB = "SLURM_JOB_ID"
"""The variable in which Slurm tells a process its job's number."""
LOOK_SECONDS = 1.0
"""Between two tries to take a lease that is waited for."""
_TRIES, _TRY_SECONDS = 20, 0.02
"""`pike watch` holds a lease while it asks whether it is held, and that is no refusal."""
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Answers of a file system that has no locks."""
LocksSupported = bool
"""Whether a file system has locks."""


def open_nofollow(path: str, flags: int) -> int:
    """Opens a file, for `open`, and fails with ELOOP where a symbolic link is in its place."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def try_lock(path: Path) -> IO[bytes] | None:
    """Locks a file, which is made where there is none, for as long as it is open.

    Returns:
        The open file, to append to; None while another process has it locked.

    Raises:
        OSError: the file cannot be opened, or its file system has no locks.
    """
    while True:
        file = open(path, "ab", opener=open_nofollow)  # noqa: SIM115 - the caller's
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
def lock_output_or_refuse(path: Path) -> Iterator[LocksSupported]:
    """Holds the lock file of an output in the making, which is gone afterwards.

    Yields:
        Whether the file system has locks; where it has none, others may make the output, too.

    Raises:
        InputError: another process makes the output.
    """
    place, file = path.with_name(f".{path.name}.lock"), None
    try:
        file = try_lock(place)
        if file is None:
            raise InputError(f"{path} is being made by another process: wait for it")
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
    try:
        yield file is not None
    finally:
        with contextlib.suppress(OSError):
            place.unlink()
        if file is not None:
            file.close()


_held: set[IO[bytes]] = set()
"""This process's leases. A lock lasts while any process has its file open: programs that are
started do not get it, and forks close it."""


def _close_leases_in_fork() -> None:
    while _held:
        _held.pop().close()


os.register_at_fork(after_in_child=_close_leases_in_fork)


@dataclasses.dataclass(frozen=True)
class Lease:
    """The lease of a run directory."""

    folder: Path
    holder: str = ""
    """What the lease's file says while this process holds it."""

    def refuse_if_lost(self) -> None:
        """Refuses to go on where this process no longer holds the lease."""
        try:
            what = (self.folder / NAME).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            what = str(error)
        if what != self.holder:
            raise InputError(
                f"{self.folder} was moved or deleted, or the lease in it ({what}): start the "
                "command again with the place where the run is now"
            )


@contextlib.contextmanager
def acquire_lease(folder: Path) -> Iterator[Lease]:
    """Holds the lease of a run directory while the block runs.

    Raises:
        InputError: another living process holds it, or the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    since = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": since}
    if job := os.environ.get(SLURM_JOB):
        holder["slurm_job"] = job
    lease = Lease(folder, json.dumps(holder))
    with _lock_or_refuse(folder / NAME) as file:
        _held.add(file)
        file.truncate(0)
        file.write(lease.holder.encode())
        file.flush()
        try:
            yield lease
        except (OSError, InputError):
            # Where the folder is gone, or another's, that is what happened.
            lease.refuse_if_lost()
            raise
        finally:
            # A folder that is gone, or another's by now, has no lease of ours; nor has a fork.
            with contextlib.suppress(OSError, InputError):
                lease.refuse_if_lost()
                if file in _held:
                    (folder / NAME).unlink()
            _held.discard(file)


def wait_while_lease_held(folder: Path, at_most_minutes: float) -> None:
    """Waits while another living process holds the lease of a run directory, for some minutes.

    Who takes the lease afterwards is refused if it is still held.
    """
    end, told = time.monotonic() + 60 * at_most_minutes, False
    while is_lease_held(folder) and time.monotonic() < end:
        if not told:
            log.info(
                "%s; waiting here for %g minutes at most",
                _lease_held_message(folder / NAME),
                at_most_minutes,
            )
        told = True
        time.sleep(LOOK_SECONDS)


def is_lease_held(folder: Path) -> bool:
    """Whether a living process holds the lease of a run directory."""
    with contextlib.suppress(FileNotFoundError), (folder / NAME).open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def holder_message_if_held(folder: Path) -> str | None:
    """Who holds the lease of a run directory, and how to end it; None where nobody does."""
    return _lease_held_message(folder / NAME) if is_lease_held(folder) else None


def _lock_or_refuse(path: Path) -> IO[bytes]:
    for _ in range(_TRIES):
        try:
            if file := try_lock(path):
                return file
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
            # Locks may be lacking for a moment only: a file that says who holds it stays.
            if not path.stat().st_size:
                path.unlink()
            raise InputError(
                f"{path.parent} lies on a file system without locks (flock: {error}): mount it "
                "with them, or give a results folder elsewhere"
            ) from None
        time.sleep(_TRY_SECONDS)
    raise InputError(_lease_held_message(path))


def _lease_held_message(path: Path) -> str:
    how = ""
    try:
        holder = foreign_json.parse_json_or_value_error(path.read_text(encoding="utf-8"))
        who = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        # A job that Slurm has put back into the queue finds its own number: to cancel it ends both.
        if (job := holder.get("slurm_job")) and job != os.environ.get(SLURM_JOB):
            who += f", Slurm job {job}"
            how = f" (`scancel {job}`: it saves its training, with which the next one goes on)"
    except (OSError, ValueError, TypeError, KeyError):
        # It has just begun or ended.
        who = "another process"
    return (
        f"{path.parent} is being written by {who}: wait for it or stop it first{how}; if its "
        f"machine is gone for good and the lock stays, delete {path}"
    )
