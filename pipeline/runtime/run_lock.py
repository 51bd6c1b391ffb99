"""One writer per run directory.

A process that writes a run holds the run's lease: the folder `lease/` with one file, named by a
token of its holder, which the holder touches every few seconds. Whoever finds a living lease stops
and says who holds it; a lease whose holder is dead is taken over, at once on the holder's own
machine, after `STALE_SECONDS` without a heartbeat elsewhere. A holder elsewhere that was alive a
moment ago is watched until its next heartbeat, or until there was none for so long: a job that was
lost with its machine is often started again within seconds, and must not fail for it. A container
with process numbers of its own counts as another machine, whatever host name it bears.

A lease is taken by renaming a folder into its place, which fails as long as that place holds a
file, and a dead holder's file is deleted by its own name, so that of several who take over one wins
and none deletes the winner's. Both are atomic, on network file systems too.
"""

import contextlib
import dataclasses
import errno
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from pike_mixing.errors import InputError
from pipeline.runtime import atomic_files

log = logging.getLogger("pike")

HEARTBEAT_SECONDS = 5.0
STALE_SECONDS = 120.0
WATCH_SECONDS = 1.0
"""Between two looks at a lease that is watched."""
LOOK_SECONDS = 30.0
"""Between two tries to take a lease that is waited for and not given back."""


@dataclasses.dataclass(frozen=True)
class Lease:
    """A lease that this process took."""

    path: Path
    """The file that names this process."""

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.path.parent.parent

    def confirm(self) -> None:
        """Gives a sign of life where nobody took over, as they may from a machine that slept.

        Raises:
            InputError: another process has taken the lease, or it cannot be reached any more.
        """
        try:
            os.utime(self.path)
        except OSError as error:
            gone = isinstance(error, FileNotFoundError)
            for other in self.path.parent.glob("*") if gone else ():
                raise InputError(
                    f"{self.folder} was taken over by {_named(other)}, since this one gave "
                    f"no sign of life for {STALE_SECONDS:.0f} s: the other goes on with the run"
                ) from None
            raise InputError(
                f"{self.folder} was moved or deleted, or the lease in it, or cannot be written any "
                f"more ({error}): start the command again with the place where the run is now"
            ) from None


@contextlib.contextmanager
def acquire(folder: Path) -> Iterator[Lease]:
    """Holds the lease of a run directory while the block runs.

    Raises:
        InputError: another living process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ours = _acquired(folder / "lease")
    lease, stop = Lease(ours), threading.Event()
    beat = threading.Thread(target=_heartbeat, args=(ours, stop), daemon=True)
    beat.start()
    try:
        yield lease
    except (OSError, InputError):
        # Where the folder is gone, or another's, that is what happened.
        lease.confirm()
        raise
    finally:
        stop.set()
        beat.join()
        # A lease that cannot be deleted is a dead holder's. The folder may be another's by now.
        with contextlib.suppress(OSError):
            ours.unlink()
            ours.parent.rmdir()


@contextlib.contextmanager
def follow(folder: Path) -> Iterator[Lease]:
    """The lease that another process of the same run holds, for one that writes nothing."""
    yield Lease(folder / "lease" / "of-another.json")


def await_free(folder: Path, minutes: float) -> None:
    """Waits while another living process holds the lease of a run directory.

    Args:
        folder: The run directory.
        minutes: How long at most. Who takes the lease afterwards is refused if it is still held.
    """
    end = time.monotonic() + 60 * minutes
    told = False
    # A folder without a lease, also one that is not there, is left alone.
    while any((folder / "lease").glob("*.json")):
        try:
            with acquire(folder):
                return
        except InputError as refused:
            if minutes and not told:
                log.info("%s; waiting here for %g minutes at most", refused, minutes)
                told = True
            if time.monotonic() >= end:
                return
        again = min(end, time.monotonic() + LOOK_SECONDS)
        while time.monotonic() < again and any((folder / "lease").glob("*.json")):
            time.sleep(WATCH_SECONDS)


def _acquired(lease: Path) -> Path:
    token = uuid.uuid4().hex
    claim = lease.with_name(f".lease.{token}")
    process = _process_start(os.getpid())
    holder = {**_machine(), "pid": os.getpid(), "process": process}
    try:
        claim.mkdir()
        name = f"{token}.json"
        (claim / name).write_text(json.dumps(holder), encoding="utf-8")
        # The file system's own clock: on a network it need not be this machine's.
        now = (claim / name).stat().st_mtime
        # Again where a dead holder's file was removed first. Losing a race is another's win.
        for _ in range(3):
            try:
                claim.rename(lease)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            else:
                return lease / name
            for other in sorted(lease.glob("*"), key=lambda path: path.suffix != ".json"):
                if other.suffix != ".json":
                    raise InputError(f"{other} was put there by no training: delete or move it")
                if _alive(other, now):
                    raise InputError(_refusal(other))
                other.unlink(missing_ok=True)
        raise InputError(_refusal(lease / name))
    finally:
        atomic_files.remove(claim)


def _named(path: Path) -> str:
    """The holder that a file names, where it does."""
    holder = _read(path)
    known = "pid" in holder and "host" in holder
    return f"process {holder['pid']} on {holder['host']}" if known else "another process"


def _refusal(path: Path) -> str:
    return (
        f"{path.parent.parent} is being written by {_named(path)}: wait for it or stop it first; a "
        f"dead holder's lease ({path}) is taken over, from another machine after "
        f"{STALE_SECONDS:.0f} s without a sign of life"
    )


def _alive(path: Path, now: float) -> bool:
    holder = _read(path)
    if {name: holder.get(name) for name in _machine()} == _machine():
        pid = holder.get("pid")
        return isinstance(pid, int) and holder.get("process") == _process_start(pid) is not None
    try:
        return _beats(path, now)
    except FileNotFoundError:
        return False


def _machine() -> dict[str, str | None]:
    """Where a process's number means that process: a boot of a machine and a PID namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    space = Path("/proc/self/ns/pid")
    return {
        "host": socket.gethostname(),
        "boot": boot.read_text(encoding="utf-8").strip() if boot.exists() else None,
        "pid_namespace": str(space.readlink()) if space.is_symlink() else None,
    }


def _beats(path: Path, now: float) -> bool:
    """Watches a lease of another machine: whether there is a heartbeat before it is stale."""
    last = path.stat().st_mtime
    # One that is dated in the future, by a clock that was set back, is as good as one of now.
    silent = max(0.0, now - last)
    if silent < STALE_SECONDS:
        log.info("%s: another machine's; watching for its heartbeat", path)
    while silent < STALE_SECONDS:
        time.sleep(WATCH_SECONDS)
        silent += WATCH_SECONDS
        if path.stat().st_mtime != last:
            return True
    return False


def _process_start(pid: int) -> str | None:
    """The kernel's start time of a process: tells it from a later one with the same number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return None
        return _signalled(pid)
    # Fields after the command's name, which may hold blanks; state Z is dead but not yet reaped.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def _signalled(pid: int) -> str | None:
    try:
        # Another user's process may not be signalled, but it runs.
        with contextlib.suppress(PermissionError):
            os.kill(pid, 0)
    except ProcessLookupError:
        return None
    return "running"


def _read(path: Path) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError):
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, dict):
            return value
    return {}


def _heartbeat(path: Path, stop: threading.Event) -> None:
    """Gives signs of life, also after one that failed: what lies elsewhere may come back."""
    told = False
    while not stop.wait(HEARTBEAT_SECONDS):
        try:
            os.utime(path)
            told = False
        except OSError as error:
            if not told:
                log.warning("the lease cannot be renewed (%s), which is tried again", error)
            told = True
