"""One writer per run directory.

A process that writes a run holds the run's lease: a file that names it and that it touches every
few seconds. Whoever finds a living lease stops and says who holds it; a lease whose holder is dead
is taken over, at once on the holder's own machine, after `STALE_SECONDS` without a heartbeat
elsewhere. Creation by hard link and take-over by rename are atomic, on network file systems too.
"""

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import InputError

HEARTBEAT_SECONDS = 5.0
STALE_SECONDS = 120.0


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds the lease of a run directory while the block runs.

    Raises:
        InputError: another living process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lease.json"
    ours = _acquired(path)
    stop = threading.Event()
    beat = threading.Thread(target=_heartbeat, args=(path, stop), daemon=True)
    beat.start()
    try:
        yield
    finally:
        stop.set()
        beat.join()
        if _read(path).get("token") == ours:
            path.unlink(missing_ok=True)


def _acquired(path: Path) -> str:
    token = uuid.uuid4().hex
    claim = path.with_name(f".lease.{token}")
    holder = {
        "token": token,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "process": _process_start(os.getpid()),
    }
    claim.write_text(json.dumps(holder), encoding="utf-8")
    try:
        # Two tries: a dead holder's lease is set aside first. Losing a race is another's win.
        for _ in range(2):
            with contextlib.suppress(FileExistsError):
                os.link(claim, path)
                return token
            other = _read(path)
            if _alive(path, other):
                break
            with contextlib.suppress(FileNotFoundError):
                path.rename(path.with_name(f".lease.dead.{token}"))
                path.with_name(f".lease.dead.{token}").unlink()
        other = _read(path)
        raise InputError(
            f"{path.parent} is being written by process {other.get('pid')} on "
            f"{other.get('host')}: wait for it or stop it first; a dead holder's lease "
            f"({path.name}) is taken over after {STALE_SECONDS:.0f} s without a sign of life"
        )
    finally:
        claim.unlink(missing_ok=True)


def _alive(path: Path, holder: dict[str, object]) -> bool:
    if holder.get("host") == socket.gethostname():
        pid = holder.get("pid")
        return isinstance(pid, int) and holder.get("process") == _process_start(pid) is not None
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime < STALE_SECONDS
    return False


def _process_start(pid: int) -> str | None:
    """The kernel's start time of a process: tells it from a later one with the same number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        return _signalled(pid)
    # Fields after the command's name, which may hold blanks; state Z is dead but not yet reaped.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def _signalled(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    return "running"


def _read(path: Path) -> dict[str, object]:
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, dict):
            return value
    return {}


def _heartbeat(path: Path, stop: threading.Event) -> None:
    while not stop.wait(HEARTBEAT_SECONDS):
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)
