"""A process that has imported what jobs need, and forks for each of them.

Importing takes longer than much of what is trained and evaluated.

    python -m pipeline.runtime.fork_server NAME COMMAND=MODULE ...

It listens at the abstract sockets NAME/COMMAND, which are no files, until its standard input and
its last job have ended. `fork_client` stands for a job: the job has its files and environment, gets
its signals, gives it its exit status, and is killed when it is. The server declines what a fork
might do otherwise than a process of its own: when a source of ours, the installed packages, the
interpreter, the folder or the environment are others than when the modules were imported. It
declines whatever goes wrong, too. The client then becomes that process.
"""

import contextlib
import ctypes
import functools
import gc
import importlib
import io
import itertools
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
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.runtime import code_fingerprint, environment, signal_handler
from pipeline.runtime.fork_client import ACCEPTED, peer_credentials

OF_EACH = frozenset({"TMPDIR", "TMP", "TEMP", "TEMPDIR", "PWD", "OLDPWD", "SHLVL", "_"})
"""Variables that no module reads when it is imported: jobs may differ in them."""


class JobRequest(NamedTuple):
    """What a client wants."""

    command: list[str]
    folder: str
    environment: dict[str, str]
    files: list[int]
    """Its standard input, output and error."""


class ImportedModules:
    """What was there when the modules were imported."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._folder, self._environment = str(Path.cwd()), _compared_variables(os.environ)
        self._files = _source_stamps()
        # Arrow's allocator would start a thread, which a fork does not have.
        os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
        # pyarrow imports pandas when it meets its first list, and `dataset` for its first file.
        for module in (*modules.values(), "pandas", "pyarrow.dataset"):
            importlib.import_module(module)
        # A job spends a sixth of a second on what is the same for all.
        importlib.import_module("pipeline.cli").warm_up(modules)
        packages = tuple(f"{name}." for name in code_fingerprint.FIRST_PARTY)
        code_fingerprint.fingerprint(*(name for name in sys.modules if name.startswith(packages)))
        gc.collect()
        gc.freeze()

    def first_difference(self, request: JobRequest) -> str | None:
        """What a process of its own would find otherwise; None if nothing."""
        variables = _changed_names(self._environment, _compared_variables(request.environment))
        files = _changed_names(self._files, _source_stamps())
        differs = {
            "the interpreter": request.command[:3] != [sys.executable, "-m", "pipeline"],
            "the folder": request.folder != self._folder,
            f"{', '.join(variables)} of the environment": bool(variables),
            ", ".join(files): bool(files),
            "the number of threads": len([*Path("/proc/self/task").iterdir()]) > 1,
        }
        return next((what for what, true in differs.items() if true), None)


def _compared_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in OF_EACH}


def _source_stamps() -> dict[str, tuple[int, ...]]:
    """Number, size and time of each of our sources, and of the folder of installed packages."""
    folders = (f"{environment.ROOT}/{name}" for name in code_fingerprint.FIRST_PARTY)
    tree = itertools.chain.from_iterable(map(os.walk, folders))
    # What Python and the code fingerprints remember is no source.
    kept = ((folder, names) for folder, _, names in tree if not folder.endswith("__pycache__"))
    sources = (f"{folder}/{name}" for folder, names in kept for name in names)
    result: dict[str, tuple[int, ...]] = {}
    for source in (sysconfig.get_path("purelib"), *sources):
        # One may be replaced just now.
        with contextlib.suppress(FileNotFoundError):
            at = os.stat(source)  # noqa: PTH116 - hundreds of them at each request
            result[source] = (at.st_ino, at.st_size, at.st_mtime_ns)
    return result


def _changed_names(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in before.keys() | now if before.get(name) != now.get(name))


log = logging.getLogger("pike")

CLIENT = Path(__file__).with_name("fork_client.py")
THREADS = (
    *("OMP_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"),
)
"""What Snakemake sets to a job's threads. Libraries read it when they are loaded."""
PR_SET_PDEATHSIG = 1
STDIN = 0

_started: list[subprocess.Popen[bytes]] = []
"""Servers of this process: one that is forgotten would have its pipe closed."""


def can_serve_forks() -> bool:
    """Whether this system has what a server needs: Linux from 5.3 on."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


def start_server(
    name: str, modules: Mapping[str, str], prefix: str = ""
) -> subprocess.Popen[bytes]:
    """Starts a server, which ends with this process; it answers when it has imported the modules.

    Args:
        name: Its own on this machine, but for servers of other commands.
        modules: What is imported, by command.
        prefix: Shell commands that stand before each job's.

    Returns:
        The server; at the end of its standard input it ends when its jobs have ended.
    """
    own = [f"{command}={module}" for command, module in modules.items()]
    server = subprocess.Popen(
        ["bash", "-c", f'{prefix}exec "$@"', "bash", sys.executable, "-m", __name__, name, *own],
        env={**os.environ, **dict.fromkeys(THREADS, "1")},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # Ctrl-C is for the clients, which hand it on.
        start_new_session=True,
    )
    _started.append(server)
    return server


def client_command(name: str) -> str:
    """What stands before a job's command line in a shell."""
    return shlex.join([sys.executable, "-I", "-S", str(CLIENT), name])


class _ForkedJobs:
    """The forks at work."""

    def __init__(self, places: Sequence[str], imported: ImportedModules) -> None:
        self._imported, self._told = imported, set[str]()
        self._waiting = selectors.DefaultSelector()
        self._listeners = [socket.socket(socket.AF_UNIX) for _ in places]
        for listener, place in zip(self._listeners, places, strict=True):
            listener.bind(f"\0{place}")
            listener.listen(64)
            self._call_when_readable(listener, functools.partial(self._accept_client, listener))
        self._call_when_readable(STDIN, self._stop_listening)

    def serve(self) -> JobRequest | None:
        """Forks for each request; returns it in the fork, and nothing at the end."""
        while self._waiting.get_map():
            for key, _ in self._waiting.select():
                # Another one of this turn may have done away with it.
                if self._waiting.get_map().get(key.fd) is key and (request := key.data()):
                    self._close_inherited()
                    return request
        return None

    def _call_when_readable(self, file: Any, then: Callable[[], JobRequest | None]) -> None:
        self._waiting.register(file, selectors.EVENT_READ, then)

    def _close_inherited(self) -> None:
        """Closes in a fork what is the server's."""
        for key in self._waiting.get_map().values():
            key.fileobj.close() if isinstance(key.fileobj, socket.socket) else os.close(key.fd)
        self._waiting.close()

    def _accept_client(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
            client.setblocking(False)
            # Another user's is closed.
            if peer_credentials(client)[1] == os.getuid():
                self._call_when_readable(
                    client, functools.partial(self._read_request, client, bytearray())
                )
        except OSError as error:
            # No descriptor is free: nobody is answered any more.
            self._warn_once(str(error))
            self._stop_listening()

    def _read_request(self, client: socket.socket, said: bytearray) -> JobRequest | None:
        """Hears more of a request; at its end forks, or declines by closing the connection."""
        try:
            part, files, *_ = socket.recv_fds(client, 1 << 16, 3)
        except OSError:
            part, files = b"", []
        said += part
        if not part:
            self._close_client(client)
        elif files or part.endswith(b"\n"):
            return self._answer_request(client, said, files)
        return None

    def _answer_request(
        self, client: socket.socket, said: bytearray, files: list[int]
    ) -> JobRequest | None:
        number = 0
        try:
            if len(files) < 3:
                raise ValueError("no descriptor is free")
            command, folder, environment = json.loads(said)
            request = JobRequest(command, folder, environment, files)
            if difference := self._imported.first_difference(request):
                raise ValueError(f"{difference} differs")
            if not (number := os.fork()):
                return request
            self._watch_job(number, client)
        except Exception as error:
            # Whatever it is, the other jobs go on.
            self._warn_once(str(error))
            if number:
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
            self._close_client(client)
        for file in files:
            os.close(file)
        return None

    def _warn_once(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            log.warning("jobs import all modules themselves: %s", why)

    def _close_client(self, one: socket.socket) -> None:
        if one in self._waiting.get_map():
            self._waiting.unregister(one)
        one.close()

    def _watch_job(self, number: int, client: socket.socket) -> None:
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
            self._close_client(client)
            self._waiting.unregister(ended)
            os.close(ended)

        self._call_when_readable(ended, reap)
        self._waiting.modify(client, selectors.EVENT_READ, hand_on)
        # One that has been killed meanwhile is read next.
        with contextlib.suppress(OSError):
            client.send(ACCEPTED)

    def _stop_listening(self) -> None:
        self._waiting.unregister(STDIN)
        for listener in self._listeners:
            self._close_client(listener)
        # Whoever reads what the workflow says must not wait for jobs that outlive it.
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 2)


def _take_over_client(request: JobRequest, server: int) -> None:
    """Takes on what is the client's. A killed server takes its forks with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os.kill(os.getpid(), signal.SIGKILL)
    for place, file in enumerate(request.files):
        os.dup2(file, place)
        os.close(file)
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    for name in os.environ.keys() - request.environment:
        del os.environ[name]
    os.environ.update(request.environment)


def main() -> None:
    name, *pairs = sys.argv[1:]
    signal_handler.restore_child_signals()
    modules, server = dict(pair.split("=") for pair in pairs), os.getpid()
    imported = ImportedModules(modules)
    request = _ForkedJobs([f"{name}/{command}" for command in modules], imported).serve()
    if request is None:
        return
    _take_over_client(request, server)
    sys.argv[1:] = request.command[3:]
    # It ends the process itself.
    runpy.run_module("pipeline", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
