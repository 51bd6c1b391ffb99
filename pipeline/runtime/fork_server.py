"""A process that has imported what jobs need, and forks for each of them.

Importing takes longer than much of what is trained and evaluated.

    python -m pipeline.runtime.fork_server FOLDER PIPE COMMAND=MODULE ...

It listens at the socket FOLDER/COMMAND until nobody holds the other end of PIPE and its last job
has ended. `fork_client` stands for a job: the job has its files and environment, gets its signals,
gives it its exit status, and is killed when it is. The server declines what a fork might do
otherwise than a process of its own: when a source of ours, the installed packages, the
interpreter, the folder or the environment are others than when the modules were imported. The
client then becomes that process.
"""

import contextlib
import ctypes
import gc
import io
import json
import logging
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.runtime.fork_client import ACCEPTED, DECLINED
from pipeline.runtime.imported import Imported, Request

log = logging.getLogger("pike")

CLIENT = Path(__file__).with_name("fork_client.py")
THREADS = (
    *("OMP_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"),
)
"""What Snakemake sets to a job's threads. Libraries read it when they are loaded."""
PATIENCE = 10
"""Seconds for a client to say what it wants."""
PR_SET_PDEATHSIG = 1


def possible() -> bool:
    """Whether this system has what a server needs: Linux from 5.3 on."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def start(folder: str, modules: Mapping[str, str], prefix: str = "") -> Callable[[], int]:
    """Starts a server, which ends with this process; it answers when it has imported the modules.

    Args:
        folder: An empty folder, which other servers may share; the last one removes it.
        modules: What is imported, by command.
        prefix: Shell commands that stand before each job's.

    Returns:
        What ends the server, when its jobs have ended, and tells its exit code.
    """
    read, write = os.pipe()
    words = [sys.executable, "-m", __name__, folder, str(read)]
    words += [f"{command}={module}" for command, module in modules.items()]
    server = subprocess.Popen(
        ["bash", "-c", f'{prefix}exec "$@"', "bash", *words],
        env={**os.environ, **dict.fromkeys(THREADS, "1")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[read],
        # Ctrl-C is for the clients, which hand it on.
        start_new_session=True,
    )
    os.close(read)

    def end() -> int:
        os.close(write)
        return server.wait()

    return end


def words(folder: str) -> str:
    """What stands before a job's command line in a shell."""
    return shlex.join([sys.executable, "-I", "-S", str(CLIENT), folder])


class _Jobs:
    """The forks at work."""

    def __init__(self, listener: socket.socket, pipe: int, imported: Imported) -> None:
        """None yet."""
        self._listener, self._pipe, self._imported = listener, pipe, imported
        self._told: set[str] = set()
        self._waiting = selectors.DefaultSelector()
        self._await(listener, self._accept)
        self._await(pipe, self._finish)

    def serve(self) -> Request | None:
        """Forks for each request; returns it in the fork, and nothing at the end."""
        while self._waiting.get_map():
            for key, _ in self._waiting.select():
                # Another one of this turn may have done away with it.
                if key.fileobj in self._waiting.get_map() and (asked := key.data()):
                    return asked
        return None

    def _await(self, file: Any, then: Callable[[], Request | None]) -> None:
        self._waiting.register(file, selectors.EVENT_READ, then)

    def _accept(self) -> Request | None:
        client, _ = self._listener.accept()
        try:
            client.settimeout(PATIENCE)
            asked = _received(client)
            difference = self._imported.difference(asked)
            client.send(DECLINED if difference else ACCEPTED)
        except OSError:
            # It has been killed.
            client.close()
            return None
        if difference:
            self._tell(difference)
            client.close()
        elif number := os.fork():
            self._watch(number, client)
        else:
            client.close()
            for key in self._waiting.get_map().values():
                key.fileobj.close() if isinstance(key.fileobj, socket.socket) else os.close(key.fd)
            self._waiting.close()
            return asked
        for file in asked.files:
            os.close(file)
        return None

    def _tell(self, difference: str) -> None:
        if difference not in self._told:
            self._told.add(difference)
            log.warning("jobs import all modules themselves: %s differs", difference)

    def _watch(self, number: int, client: socket.socket) -> None:
        ended = os.pidfd_open(number)

        def hand_on() -> None:
            try:
                numbers = client.recv(64)
            except OSError:
                numbers = b""
            for one in numbers or [signal.SIGKILL]:
                # A session without a terminal does not stop by SIGTSTP.
                signal.pidfd_send_signal(ended, signal.SIGSTOP if one == signal.SIGTSTP else one)
            if not numbers:
                self._waiting.unregister(client)

        def reap() -> None:
            _, status = os.waitpid(number, 0)
            with contextlib.suppress(OSError):
                client.send(status.to_bytes(4, "big"))
            self._waiting.unregister(ended)
            if client in self._waiting.get_map():
                self._waiting.unregister(client)
            client.close()
            os.close(ended)

        self._await(client, hand_on)
        self._await(ended, reap)

    def _finish(self) -> None:
        self._waiting.unregister(self._pipe)
        self._waiting.unregister(self._listener)
        self._listener.close()
        # Whoever reads what the workflow says must not wait for jobs that outlive it.
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 2)


def _received(client: socket.socket) -> Request:
    """Reads a request.

    Raises:
        OSError: the client ends, or says too little for too long.
    """
    head, files, *_ = socket.recv_fds(client, 4, 3)
    body = b""
    while len(body) < int.from_bytes(head, "big"):
        part = client.recv(1 << 16)
        if not part:
            raise ConnectionError
        body += part
    command, folder, environment = json.loads(body)
    return Request(command, folder, environment, files)


def _become(asked: Request, server: int) -> None:
    """Takes on what is the client's. A killed server takes its forks with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os.kill(os.getpid(), signal.SIGKILL)
    for place, file in enumerate(asked.files):
        os.dup2(file, place)
        os.close(file)
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    for name in os.environ.keys() - asked.environment:
        del os.environ[name]
    os.environ.update(asked.environment)


def main() -> None:
    """Serves; in a fork, runs its command."""
    folder, pipe, *pairs = sys.argv[1:]
    modules, server = dict(pair.split("=") for pair in pairs), os.getpid()
    imported = Imported(dict.fromkeys(modules.values()))
    places = [Path(folder, name) for name in (f"server-{server}", *modules)]
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(places[0]))
        except FileNotFoundError:
            # The workflow ended before all was imported, and another server removed the folder.
            return
        listener.listen(64)
        for place in places[1:]:
            place.symlink_to(places[0])
        asked = _Jobs(listener, int(pipe), imported).serve()
    if asked is None:
        for place in places:
            place.unlink()
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
        return
    _become(asked, server)
    sys.argv[1:] = asked.command[3:]
    try:
        runpy.run_module("pipeline", run_name="__main__", alter_sys=True)
    finally:
        gc.unfreeze()


if __name__ == "__main__":
    main()
