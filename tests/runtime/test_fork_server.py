"""A real server, of a copy of the sources in which one stage shows what it finds."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import pipeline
from pipeline.runtime import fork_server

ROOT = Path(pipeline.__file__).parents[1]
STAGE = '''
"""Shows what a job finds, and ends as the name of its output says."""

import os
import sys
import time

from pike_mixing.errors import InputError


def write(out):
    print(os.getpid(), os.getppid(), os.environ.get("TMPDIR"), sys.stdin.read(), sys.argv[1:])
    print("to standard error", file=sys.stderr)
    sys.stdout.flush()
    if out.name == "sleeps":
        time.sleep(600)
    if out.name == "ours":
        raise RuntimeError("a fault")
    if out.name == "theirs":
        raise InputError("a mistake")
'''

pytestmark = pytest.mark.skipif(not fork_server.possible(), reason="a system without its calls")


class Server:
    """A server, and what its clients are given."""

    def __init__(self, folder):
        self.clone, self.folder = folder / "clone", folder / "sockets"
        for package in ("pipeline", "pike_mixing"):
            ignored = shutil.ignore_patterns("__pycache__", "paper", "results")
            shutil.copytree(ROOT / package, self.clone / package, ignore=ignored)
        (self.clone / "pipeline/theory/stage.py").write_text(STAGE)
        self.folder.mkdir()
        self.end = fork_server.start(
            str(self.folder),
            {"theory": "pipeline.planning.stages"},
            f"cd {self.clone}; export PYTHONPATH={self.clone}; exec 2>{self.clone}/told; ",
        )
        self.wait(lambda: (self.folder / "theory").exists())
        (listens,) = self.folder.glob("server-*")
        self.number = int(listens.name.removeprefix("server-"))
        self.environment = {
            **os.environ,
            **dict.fromkeys(fork_server.THREADS, "1"),
            "PYTHONPATH": str(self.clone),
        }

    def begin(self, out, *, client=True, folder=None, **environment):
        """Starts a job."""
        words = fork_server.words(str(self.folder)).split() if client else []
        return subprocess.Popen(
            [*words, sys.executable, "-m", "pipeline", "theory", "--out", out],
            cwd=folder or self.clone,
            env=self.environment | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

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
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One for all tests that leave it as it is."""
    server = Server(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def own(tmp_path):
    """One to change and to end."""
    server = Server(tmp_path)
    yield server
    if server.folder.exists():
        server.end()


def state(process):
    try:
        return (process / "stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "gone"


def test_a_job_has_the_files_the_words_and_the_environment_of_its_client(server):
    code, (number, parent, *rest), errors = server.run("somewhere", TMPDIR="/elsewhere")
    assert (code, int(parent), errors) == (0, server.number, "to standard error\n")
    assert rest == ["/elsewhere", "given ['theory', '--out', 'somewhere']\n"]
    assert int(number) not in (server.number, os.getpid())


@pytest.mark.parametrize(("out", "expected"), [("somewhere", 0), ("ours", 1), ("theirs", 2)])
def test_a_job_ends_as_a_process_of_its_own_does(server, out, expected):
    forked, alone = server.run(out), server.run(out, client=False)
    assert forked[0] == alone[0] == expected
    assert forked[2].splitlines()[-1] == alone[2].splitlines()[-1]
    assert (int(forked[1][1]), int(alone[1][1])) == (server.number, os.getpid())


def test_a_killed_client_takes_its_job_with_it_and_no_other(server):
    (job, process), (other, left) = server.sleeping(), server.sleeping()
    job.kill()
    server.wait(lambda: state(process) == "gone")
    assert (job.wait(), other.poll(), state(left)) == (-signal.SIGKILL, None, "S")
    other.kill()


def test_a_client_ends_by_the_signal_that_its_job_ends_by(server):
    job, process = server.sleeping()
    os.kill(int(process.name), signal.SIGKILL)
    assert job.wait(timeout=60) == -signal.SIGKILL


def test_a_client_hands_signals_on(server):
    job, process = server.sleeping()
    job.send_signal(signal.SIGTSTP)
    server.wait(lambda: state(process) == "T")
    job.send_signal(signal.SIGCONT)
    server.wait(lambda: state(process) == "S")
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=60) == -signal.SIGTERM


def test_changed_sources_and_packages_are_imported_anew(own):
    module = own.clone / "pipeline/cli.py"
    about = "check the paper's theory with numbers; reads nothing"
    assert about in module.read_text()
    module.write_text(module.read_text().replace('"--out", "folder to make"', '"--at", "x"'))
    code, _, errors = own.run("somewhere")
    assert code == 2, "the changed command knows no --out"
    assert "--at" in errors
    told = (own.clone / "told").read_text()
    assert told == f"jobs import all modules themselves: {module} differs\n"


@pytest.mark.parametrize("changes", [{"OMP_NUM_THREADS": "2"}, {"folder": "/"}, {"NEW": "1"}])
def test_a_job_with_another_environment_or_folder_is_a_process_of_its_own(server, changes):
    code, (_, parent, *_), _ = server.run("somewhere", **changes)
    assert (code, int(parent)) == (0, os.getpid())


def test_a_server_ends_after_its_jobs_and_leaves_nothing(own):
    job, _ = own.sleeping()
    ending = threading.Thread(target=own.end)
    ending.start()
    # It listens no more, and waits.
    own.wait(lambda: own.run("somewhere")[1][1] == str(os.getpid()))
    assert (ending.is_alive(), job.poll()) == (True, None)
    job.terminate()
    ending.join(timeout=60)
    assert (job.wait(), ending.is_alive()) == (-signal.SIGTERM, False)
    assert not own.folder.exists()


def test_a_server_whose_folder_is_gone_when_it_has_imported_says_nothing(tmp_path):
    told, prefix = tmp_path / "told", f"cd {ROOT}; exec 2>{tmp_path / 'told'}; "
    end = fork_server.start(str(tmp_path / "sockets"), {"theory": "pipeline.cli"}, prefix)
    assert (end(), told.read_text()) == (0, "")


def test_a_killed_server_takes_its_jobs_with_it(own):
    job, process = own.sleeping()
    os.kill(own.number, signal.SIGKILL)
    assert job.wait(timeout=60) == 1
    assert "start the workflow again" in job.stderr.read()
    own.wait(lambda: state(process) == "gone")
    assert own.end() == -signal.SIGKILL
    shutil.rmtree(own.folder)
