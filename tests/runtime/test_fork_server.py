"""A real server, of a copy of the sources in which one stage shows what it finds."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

import pipeline
from pipeline.runtime import fork_client, fork_server

ROOT = Path(pipeline.__file__).parents[1]
STAGE = '''
"""Shows what a job finds, and ends as the name of its output says."""

import os
import sys
import time

from pike_mixing.errors import InputError


def write_theory_records(out):
    print(os.getpid(), os.getppid(), os.environb.get(b"TMPDIR"), sys.stdin.read(), sys.argv[1:])
    print("to standard error", file=sys.stderr)
    sys.stdout.flush()
    if out.name == "sleeps":
        time.sleep(120)
    if out.name == "ours":
        raise RuntimeError("a fault")
    if out.name == "theirs":
        raise InputError("a mistake")
'''
ANOTHER = """
import os, socket, sys
os.setresuid(65534, 65534, 65534)
with socket.socket(socket.AF_UNIX) as client, socket.socket(socket.AF_UNIX) as listener:
    client.settimeout(60)
    client.connect(f"\\0{sys.argv[1]}/theory")
    listener.bind(f"\\0{sys.argv[1]}-of-another/theory")
    listener.listen()
    print(client.recv(4), flush=True)
    sys.stdin.read()
"""
"""A client and a server of another user."""

pytestmark = pytest.mark.skipif(
    not fork_server.can_serve_forks(), reason="a system without its calls"
)


class Server:
    """A server, and what its clients are given; `before` stands before its command."""

    def __init__(self, folder, before=""):
        self.clone, self.name = folder / "clone", f"pike-{uuid.uuid4().hex}"
        for package in ("pipeline", "pike_mixing"):
            ignored = shutil.ignore_patterns("__pycache__", "paper", "results")
            shutil.copytree(ROOT / package, self.clone / package, ignore=ignored)
        (self.clone / "pipeline/theory/stage.py").write_text(STAGE)
        self._server = fork_server.start_server(
            self.name,
            {"theory": "pipeline.planning.stages"},
            f"{before}cd {self.clone}; export PYTHONPATH={self.clone}; exec 2>{self.clone}/told; ",
        )
        self.ended = False
        self.wait(self.listens)
        self.number = self._server.pid
        self.environment = os.environ | dict.fromkeys(fork_server.THREADS, "1")
        self.environment["PYTHONPATH"] = str(self.clone)

    def begin(self, out, *, client=True, folder=None, **environment):
        """Starts a job."""
        words = fork_server.client_command(self.name).split() if client else []
        return subprocess.Popen(
            [*words, sys.executable, "-m", "pipeline", "theory", "--out", out],
            cwd=folder or self.clone,
            env=self.environment | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def connected(self):
        """A client that has said nothing yet."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(f"\0{self.name}/theory")
        return client

    def listens(self):
        with contextlib.suppress(ConnectionRefusedError), self.connected():
            return True
        return False

    def told(self):
        return (self.clone / "told").read_text()

    def end(self):
        self.ended = True
        self._server.communicate()
        return self._server.returncode

    def run(self, *arguments, **more):
        """Runs one to its end: exit code, output, errors."""
        job = self.begin(*arguments, **more)
        output, errors = job.communicate("given", timeout=60)
        return job.returncode, output.split(maxsplit=3), errors

    def sleeping(self):
        """A job that sleeps, and the process that does."""
        job = self.begin("sleeps")
        job.stdin.close()
        number, parent, *_ = job.stdout.readline().split()
        assert int(parent) == self.number
        return job, Path("/proc", number)

    @staticmethod
    def wait(true):
        end = time.monotonic() + 60
        while not true():
            assert time.monotonic() < end, "waited for a minute in vain"
            time.sleep(0.01)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One for all tests that leave it as it is; its parent ignores how children end."""
    server = Server(tmp_path_factory.mktemp("server"), before="trap '' CHLD; ")
    yield server
    server.end()


@pytest.fixture
def own(tmp_path):
    """One to change and to end."""
    server = Server(tmp_path)
    yield server
    if not server.ended:
        server.end()


def state(process):
    try:
        return (process / "stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "gone"


def test_a_job_has_the_files_the_words_and_the_environment_of_its_client(server):
    # More than is read at once, and no UTF-8.
    folder = b"/elsewhere\xff" + b"x" * 100_000
    code, (number, parent, *rest), errors = server.run("somewhere", TMPDIR=os.fsdecode(folder))
    assert (code, int(parent), errors) == (0, server.number, "to standard error\n")
    assert rest == [str(folder), "given ['theory', '--out', 'somewhere']\n"]
    assert int(number) not in (server.number, os.getpid())


@pytest.mark.parametrize(("out", "expected"), [("somewhere", 0), ("ours", 1), ("theirs", 2)])
def test_a_job_ends_as_a_process_of_its_own_does(server, out, expected):
    forked, alone = server.run(out), server.run(out, client=False)
    assert forked[0] == alone[0] == expected
    assert forked[2].splitlines()[-1] == alone[2].splitlines()[-1]
    assert (int(forked[1][1]), int(alone[1][1])) == (server.number, os.getpid())


def test_a_killed_client_takes_its_job_with_it_and_no_other(server):
    (job, process), (other, left) = server.sleeping(), server.sleeping()
    # Nor has one fork open what is the server's.
    assert not [f for f in (left / "fd").iterdir() if "socket" in str(f.readlink())]
    job.kill()
    server.wait(lambda: state(process) == "gone")
    assert (job.wait(), other.poll(), state(left)) == (-signal.SIGKILL, None, "S")
    other.kill()


def test_a_client_hands_signals_on_and_ends_by_that_of_its_job(server):
    job, process = server.sleeping()
    os.kill(int(process.name), signal.SIGKILL)
    assert job.wait(timeout=60) == -signal.SIGKILL
    job, process = server.sleeping()
    job.send_signal(signal.SIGTSTP)
    server.wait(lambda: state(process) == "T")
    job.send_signal(signal.SIGCONT)
    server.wait(lambda: state(process) == "S")
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=60) == -signal.SIGTERM


def alone(server, **more):
    """Whether a job is a process of its own."""
    code, (_, parent, *_), _ = server.run("somewhere", **more)
    assert (code, int(parent) in (server.number, os.getpid())) == (0, True)
    return int(parent) == os.getpid()


def test_a_job_with_another_environment_or_folder_is_a_process_of_its_own(server):
    for changes in ({"OMP_NUM_THREADS": "2"}, {"folder": "/"}, {"NEW": "1"}):
        assert alone(server, **changes)


def test_a_client_that_ends_within_its_request_leaves_the_server_as_it_is(server):
    for said in (b"", b"[", b"{\n"):
        with server.connected() as client:
            client.sendall(said)
    assert not alone(server)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_neither_another_users_client_nor_server_is_trusted(server):
    words = [sys.executable, "-c", ANOTHER, server.name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as another:
        assert another.stdout.readline() == "b''\n"
        client = [sys.executable, fork_client.__file__, f"{server.name}-of-another"]
        words = [*client, "/bin/echo", "-m", "pipeline", "theory"]
        done = subprocess.run(words, capture_output=True, check=True, timeout=60, text=True)
        assert done.stdout == "-m pipeline theory\n"
        another.stdin.close()


def test_changed_sources_are_imported_anew_and_a_server_ends_after_its_jobs(own):
    job, _ = own.sleeping()
    module = own.clone / "pipeline/cli.py"
    about = "check the paper's theory with numbers; reads nothing"
    assert about in module.read_text()
    module.write_text(module.read_text().replace('"--out", "folder to make"', '"--at", "x"'))
    code, _, errors = own.run("somewhere")
    assert code == 2, "the changed command knows no --out"
    assert "--at" in errors
    assert f"jobs import all modules themselves: {module} differs\n" in own.told()
    ending = threading.Thread(target=own.end)
    ending.start()
    # It listens no more, and waits.
    own.wait(lambda: not own.listens())
    assert (ending.is_alive(), job.poll()) == (True, None)
    job.terminate()
    ending.join(timeout=60)
    assert (job.wait(), ending.is_alive()) == (-signal.SIGTERM, False)


def test_a_killed_server_takes_its_jobs_with_it(own):
    job, process = own.sleeping()
    os.kill(own.number, signal.SIGKILL)
    assert job.wait(timeout=60) == 1
    assert "start the workflow again" in job.stderr.read()
    own.wait(lambda: state(process) == "gone")
    assert own.end() == -signal.SIGKILL
    assert own.name not in Path("/proc/net/unix").read_text()
