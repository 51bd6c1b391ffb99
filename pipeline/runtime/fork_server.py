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
import gc
import importlib
import io
import itertools
import json
import logging
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.runtime import code_fingerprint, environment, fork_client, signal_handler

OF_EACH = frozenset({"TMPDIR", "TMP", "TEMP", "TEMPDIR", "PWD", "OLDPWD", "SHLVL", "_"})
"""Variables that no module reads when it is imported: jobs may differ in them."""


class JobRequest(NamedTuple):
    """What a client wants."""

    command: list[str]
    folder: str
    environment: dict[str, str]
    files: list[int]
    """Its standard input, output and error."""


def facts_compared_before_fork(
    command: Sequence[str], folder: str, variables: Mapping[str, str]
) -> dict[str, Any]:
    """What decides how a job begins, by its name in messages; a fork serves where all is the same.

    It is the job's interpreter, folder and environment; number, size and time of each of our
    sources and of the folder of installed packages; and the threads of this process.
    """
    result: dict[str, Any] = {
        "the interpreter": list(command[:3]),
        "the folder": folder,
        "the number of threads": len([*Path("/proc/self/task").iterdir()]),
    }
    for name, value in variables.items():
        if name not in OF_EACH:
            result[f"{name} of the environment"] = value
    folders = (f"{environment.ROOT}/{name}" for name in code_fingerprint.FIRST_PARTY)
    tree = itertools.chain.from_iterable(map(os.walk, folders))
    # What Python and the code fingerprints remember is no source.
    kept = ((folder, names) for folder, _, names in tree if not folder.endswith("__pycache__"))
    sources = (f"{folder}/{name}" for folder, names in kept for name in names)
    for source in (sysconfig.get_path("purelib"), *sources):
        # One may be replaced just now.
        with contextlib.suppress(FileNotFoundError):
            at = os.stat(source)  # noqa: PTH116 - hundreds of them at each request
            result[source] = (at.st_ino, at.st_size, at.st_mtime_ns)
    return result


def warm_up_for_jobs(module_by_command: Mapping[str, str]) -> None:
    """Imports what jobs need, by command, and does once what they all begin with."""
    # Arrow's allocator would start a thread, which a fork does not have.
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    # pyarrow imports pandas when it meets its first list, and `dataset` for its first file.
    for module in (*module_by_command.values(), "pandas", "pyarrow.dataset"):
        importlib.import_module(module)
    # A job spends a sixth of a second on what is the same for all.
    importlib.import_module("pipeline.cli").cache_validators_and_versions(module_by_command)
    packages = tuple(f"{name}." for name in code_fingerprint.FIRST_PARTY)
    code_fingerprint.fingerprint(*(name for name in sys.modules if name.startswith(packages)))
    gc.collect()
    gc.freeze()


log = logging.getLogger("pike")

CLIENT = Path(fork_client.__file__)
THREADS = (
    *("OMP_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    *("MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"),
)
"""What Snakemake sets to a job's threads. Libraries read it when they are loaded."""
PATIENCE_SECONDS = 10.0
"""For what a client sends at once."""
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

    At the end of its standard input it ends when its jobs have ended.

    Args:
        name: Its own on this machine, but for servers of other commands.
        modules: What is imported, by command.
        prefix: Shell commands that stand before each job's.
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


class ForkedJobs:
    """The forks at work, each with the client that stands for it."""

    def __init__(self, places: Sequence[str], imported_in: Mapping[str, Any]) -> None:
        self._imported_in, self._warned = imported_in, set[str]()
        self._listeners = [socket.socket(socket.AF_UNIX) for _ in places]
        for listener, place in zip(self._listeners, places, strict=True):
            listener.bind(f"\0{place}")
            listener.listen(64)
        self._processes: dict[int, int] = {}
        """By descriptor of the process: its number."""
        self._clients: dict[socket.socket, int] = {}
        """Descriptor of the process of each."""

    def serve(self) -> JobRequest | None:
        """Forks for each request; returns it in the fork, and nothing at the end."""
        while self._listeners or self._processes:
            watched: list[socket.socket | int] = [STDIN] if self._listeners else []
            watched += [*self._listeners, *self._clients, *self._processes]
            for ready in connection.wait(watched):
                if ready == STDIN:
                    self._stop_listening_and_drop_stderr()
                elif ready in self._listeners:
                    if request := self._fork_for_client(ready):
                        return request
                elif ready in self._processes:
                    self._reap_job(ready)
                elif ready in self._clients:
                    # It says nothing more, but ends: and so does its job.
                    signal.pidfd_send_signal(self._clients.pop(ready), signal.SIGKILL)
                    ready.close()
        return None

    def _fork_for_client(self, listener: socket.socket) -> JobRequest | None:
        """Forks for a client, or declines by closing the connection; returns its request there."""
        client, _ = listener.accept()
        files: list[int] = []
        try:
            client.settimeout(PATIENCE_SECONDS)
            # Another user's is closed.
            if fork_client.peer_user_id(client) != os.getuid():
                raise ValueError("another user asks")
            request = _read_request(client, files)
            before = self._imported_in
            now = facts_compared_before_fork(request.command, request.folder, request.environment)
            differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            if differing:
                raise ValueError(f"{differing[0]} differs")
            if not (number := os.fork()):
                client.close()
                self._close_inherited()
                return request
        except Exception as error:
            # Whatever it is, the other jobs go on.
            client.close()
            if (why := str(error)) not in self._warned:
                self._warned.add(why)
                log.warning("jobs import all modules themselves: %s", why)
        else:
            process = os.pidfd_open(number)
            self._processes[process], self._clients[client] = number, process
            # One that has been killed meanwhile is read next.
            with contextlib.suppress(OSError):
                client.send(number.to_bytes(4, "big"))
        for file in files:
            os.close(file)
        return None

    def _close_inherited(self) -> None:
        """Closes in a fork what is the server's."""
        for one in (*self._listeners, *self._clients):
            one.close()
        for process in (STDIN, *self._processes):
            os.close(process)

    def _reap_job(self, process: int) -> None:
        """Tells a job's client how it ended."""
        _, status = os.waitpid(self._processes.pop(process), 0)
        os.close(process)
        for client in [one for one, of in self._clients.items() if of == process]:
            with contextlib.suppress(OSError):
                client.send(status.to_bytes(4, "big"))
            del self._clients[client]
            client.close()

    def _stop_listening_and_drop_stderr(self) -> None:
        while self._listeners:
            self._listeners.pop().close()
        # Whoever reads what the workflow says must not wait for jobs that outlive it.
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 2)


def _read_request(client: socket.socket, files: list[int]) -> JobRequest:
    """What a client wants; the descriptors that come with it are added to `files`."""
    said = b""
    while not files:
        part, came, *_ = socket.recv_fds(client, 1 << 16, 3)
        said, files[:] = said + part, came
        if not part:
            raise ValueError("a client has ended")
    command, folder, variables = json.loads(said)
    return JobRequest(command, folder, variables, files)


def _die_with_server(server_process_id: int) -> None:
    """Has a killed server take this fork with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server_process_id:
        os.kill(os.getpid(), signal.SIGKILL)


def _adopt_files_and_environment(request: JobRequest) -> None:
    """Takes on the client's standard files and its variables."""
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
    signal_handler.reset_sigchld_to_default()
    modules, server = dict(pair.split("=") for pair in pairs), os.getpid()
    own = [sys.executable, "-m", "pipeline"]
    imported_in = facts_compared_before_fork(own, str(Path.cwd()), os.environ)
    warm_up_for_jobs(modules)
    request = ForkedJobs([f"{name}/{command}" for command in modules], imported_in).serve()
    if request is None:
        return
    _die_with_server(server)
    _adopt_files_and_environment(request)
    sys.argv[1:] = request.command[3:]
    # It ends the process itself.
    runpy.run_module("pipeline", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
