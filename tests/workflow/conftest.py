"""Copies of the tree with a tiny experiment in them: it runs once, the tests ask copies of it."""

import compileall
import contextlib
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import edits
import faults
import pytest
import yaml
from forks import Forks
from onenode import started
from repository import ROOT

from pipeline.runtime import atomic_files, fork_server

CONFIG = Path(__file__).with_name("config.yaml")
TREE = ("config", "workflow", "pike_mixing", "pipeline", "docs")
RUNS = "results/runs/words/tiny"
METHODS = ("mix", "mostly-easy", "pike", "balanced", "mine")
RULE = """
import dataclasses
import importlib

import numpy as np

from outside import EXTRA
from pike_mixing.interface import Method

from . import FACTOR
from .helpers import LEAN

LATE = importlib.import_module("by_" + "name").X


@dataclasses.dataclass(frozen=True)
class Mine(Method):
    def init(self, domains, seed):
        lean_K = np.array([FACTOR * LEAN + EXTRA + LATE] + [1.0] * (len(domains) - 1))
        return {"weights_K": lean_K / lean_K.sum()}
"""
OWN = {
    "mine/__init__.py": "FACTOR = 1\n",
    "mine/helpers.py": "LEAN = 1\n",
    "mine/rule.py": RULE,
    "outside.py": "EXTRA = 1\n",
    "by_name.py": "X = 1\n",
}
"""A rule of the user's own, and modules that it imports."""
COMPARE = """
from pathlib import Path
from pipeline.planning import outdated_work, planner

plan, _ = planner.plan_config_files([Path("config.yaml")], {})
compared = outdated_work.PlanComparison(plan)
for rule, names in plan.names_by_rule().items():
    for name in names:
        if not Path(plan.manifest_path(rule, name)).is_file() or compared.is_outdated(rule, name):
            print(rule, *(name.split("/") if rule == "pack" else [name]))
"""
OF_RUNS = ("runs", "databases", "pike.duckdb", "pike.manifest.json", "figures", "report", "tables")
"""Results that are runs or made of runs."""
ON_CLUSTER = "PIKE_TEST_SLURM" in os.environ
LONG = {"steps": 300 if ON_CLUSTER else 600, "checkpoint_every": 50, "resume_every": 10}
"""A cluster takes seconds to do anything to a run."""


def pytest_collection_modifyitems(items):
    """Marks each test of this folder: they run Snakemake."""
    for item in items:
        if item.path.parent == CONFIG.parent:
            item.add_marker(pytest.mark.workflow)


class Project:
    """A copy of the tree with an experiment of its own, used as users do: from its folder."""

    forks = None
    profile = "default"

    def __init__(self, root):
        self.root = root
        self.started = []

    def path(self, name):
        return self.root / name

    def run(self, *arguments, environment=(), anew=False, timeout=900):
        """A Python command in the copy; its texts are joined.

        Without the cost of its imports, unless it is a process `anew`.
        """
        words, told = [*map(str, arguments)], _environment(environment)
        if not anew:
            return self.forks.run(words, self.root, told)
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self.root,
            env=told,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout,
        )

    def pike(self, *arguments):
        return self.run("pipeline", *arguments)

    def answer(self, sql):
        """What the database says, behind the line that names it."""
        done = self.pike("query", "--format", "json", sql)
        assert done.returncode == 0, done.stdout
        database, _, rows = done.stdout.partition("\n")
        assert database.startswith("Answer from results/pike.duckdb")
        return json.loads(rows)

    def snakemake(self, *arguments, **how):
        """Snakemake in the copy, with its profile."""
        return self.run("snakemake", *self._profile(), *arguments, **how)

    def _profile(self):
        return "--profile", f"workflow/profiles/{self.profile}"

    def dry_run(self, *arguments, **how):
        """Without the default profile."""
        return self.run("snakemake", "--dry-run", *arguments, **how)

    def make(self, *arguments, code=0, **how):
        """What Snakemake prints, which must end with this code."""
        done = self.snakemake(*arguments, **how)
        assert done.returncode == code, done.stdout + self.logs()
        return done.stdout

    def refused(self, *arguments, **how):
        """What it prints where something does not go, and is told without a traceback."""
        printed = self.make(*arguments, code=1, **how)
        assert "Traceback" not in printed
        return printed

    def start(self, *arguments):
        """The workflow in a process group of its own, to be killed."""
        return self.begin(["snakemake", *self._profile(), *arguments])

    def begin(self, words, environment=()):
        """A Python command in such a group."""
        with self.path("started.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *map(str, words)],
                cwd=self.root,
                env=_environment(environment),
                stdout=log,
                stderr=log,
                start_new_session=True,
                # A shell has what it starts in the background ignore Ctrl-C, the tests among it.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self.started.append(process.pid)
        return process

    def kill(self):
        """Ends whatever was begun."""
        for group in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self.started.clear()

    def plan(self, *arguments, **how):
        """The jobs of a dry run: `rule` or `rule wildcards`, as in `pretrain words/.../seed0`."""
        done = self.dry_run(*arguments, **how)
        assert done.returncode == 0, done.stdout
        blocks = re.split(r"^(?:local)?rule (?=\w+:$)", done.stdout, flags=re.MULTILINE)[1:]
        found = set()
        for block in blocks:
            name = block.partition(":")[0]
            shown = re.search(r"^    wildcards: (.+)$", block, re.MULTILINE)
            values = re.findall(r"\w+=([^,\s]+)", shown[1]) if shown else []
            found.add(" ".join([name, *values]))
        # A rule with a message shows it instead.
        found.update(re.findall(r"^Job \d+: (download .+)$", done.stdout, flags=re.MULTILINE))
        total = re.search(r"^total +(\d+)$", done.stdout, re.MULTILINE)
        assert len(found) == (int(total[1]) if total else 0), done.stdout
        assert total or "Nothing to be done" in done.stdout
        return found

    def outdated(self):
        """What the comparison of finished work with the plan says has to be made, as `plan`."""
        self.path("compare.py").write_text(COMPARE, encoding="utf-8")
        done = self.run("compare")
        assert done.returncode == 0, done.stdout
        return {line.strip() for line in done.stdout.splitlines()}

    def configure(self, change, name="config.yaml"):
        """Changes the default configuration, or writes a changed copy of it as `name`."""
        values = yaml.safe_load(self.path("config.yaml").read_text(encoding="utf-8"))
        change(values)
        self.path(name).write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")

    def set(self, changes, name="config.yaml"):
        """Changes values of a configuration by their place, as `edits.values`."""
        edits.values(name, changes)(self.root)

    def edit(self, name, old, new):
        """Replaces a text that occurs once in a file of the tree."""
        path = self.path(name)
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {name}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def weights(self):
        """SHA-256 of each finished run's final weights, that of the file itself."""
        found = {}
        for path in sorted(self.path(RUNS).glob("*/seed*/manifest.json")):
            manifest = atomic_files.read_json(path)
            model = path.parent / "checkpoints" / f"step{manifest['steps']}" / "model.safetensors"
            digest = found[path.parent.parent.name] = atomic_files.sha256(model)
            assert digest == manifest["weights_sha256"], model
        return found

    def outcomes(self):
        """What each finished run has left: bits of its kept checkpoints, rows of its records."""
        manifests = sorted(self.path(RUNS).glob("*/seed*/manifest.json"))
        return {path.parent.parent.name: faults.outcome(path.parent) for path in manifests}

    def contents(self, folder="results"):
        """Every file below a folder with its time of change and SHA-256."""
        paths = (path for path in self.path(folder).rglob("*") if path.is_file())
        return {
            str(path.relative_to(self.root)): (path.stat().st_mtime_ns, atomic_files.sha256(path))
            for path in paths
        }

    def logs(self):
        paths = sorted(self.path("results").rglob("*.log"))
        return "".join(f"\n{path}\n{path.read_text(encoding='utf-8')}" for path in paths)

    def manifest(self, method):
        """Target: what a method's run declares as its output."""
        return f"{RUNS}/{method}/seed0/manifest.json"

    def checkpoint(self, method):
        """Updates at the newest checkpoint of a method's run; -1 without one."""
        return max(
            atomic_files.step_entries(self.path(f"{RUNS}/{method}/seed0/checkpoints")), default=-1
        )

    def reach(self, method, updates, process):
        """Waits for a checkpoint of at least so many updates, while the process runs."""

        def there():
            assert process.poll() is None, self.path("started.log").read_text() + self.logs()
            return self.checkpoint(method) >= updates

        self.wait(there, f"a checkpoint of {method} at {updates}")

    def holder(self, method):
        """Number of the process that trains a method's run."""
        return atomic_files.read_json(self.path(f"{RUNS}/{method}/seed0/lease.json"))["pid"]

    def trainings(self):
        """Processes that train below the project's folder, by number; of a fork, its client."""
        return {n: command for n, command in self._processes() if "pretrain" in command}

    def forks_at_work(self):
        """A fork server of the project and its forks, by number."""
        name = fork_server.__name__
        return [number for number, command in self._processes() if name in command]

    def forked_trainings(self):
        """Clients of trainings for which the server's fork works, by one look at all processes."""
        seen = [*self._processes()]
        forks = sum(fork_server.__name__ in command for _, command in seen)
        clients = [
            number
            for number, command in seen
            if "pretrain" in command and fork_server.CLIENT.name in map(os.path.basename, command)
        ]
        # A server that starts is two processes for a moment, too: before there is a client.
        return clients if forks == 2 else []

    def _processes(self):
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink() == self.root:
                    command = (entry / "cmdline").read_text(encoding="utf-8").split("\0")
                    yield int(entry.name), command

    def wait(self, true, what, seconds=600):
        """Polls until something is true."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"waited {seconds} s in vain: {what}"
            time.sleep(0.02)

    def copy(self, root):
        return Project(shutil.copytree(self.root, root, symlinks=True))

    def become(self, other):
        """Undoes whatever makes this differ from another project, of which it was a copy."""
        wanted, found = _state(other.root), _state(self.root)
        for name in sorted(found):
            if found[name] != wanted.get(name):
                atomic_files.remove_path(self.path(name))
        for name in sorted(wanted):
            if found.get(name) != wanted[name]:
                if wanted[name] is FOLDER:
                    self.path(name).mkdir()
                else:
                    shutil.copy2(other.path(name), self.path(name), follow_symlinks=False)


FOLDER = "a folder"
MEMORY = re.compile(r"sha256\.json$|/__pycache__/code\.\w+\.json$")
"""Files that remember digests of others by their inodes and times."""


def _state(root):
    """Kind, size and time of change of every file below a folder, but for such memories."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)  # noqa: PTH118 - ten thousands of them.
            seen = os.lstat(path)
            file = seen.st_mode, seen.st_size, seen.st_mtime_ns
            if not MEMORY.search(path):
                found[os.path.relpath(path, root)] = FOLDER if stat.S_ISDIR(seen.st_mode) else file
    return found


def _environment(changes):
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SNAKEMAKE_PROFILE")}
    return {**clean, "OMP_NUM_THREADS": "1", **dict(changes)}


def _notes(folder):
    """Forty short texts of made-up words; the same at each call."""
    folder.mkdir()
    draw = random.Random(1)
    for number in range(40):
        words = ["".join(draw.choices("abdeiklmnorstu", k=draw.randint(2, 7))) for _ in range(30)]
        (folder / f"{number:02}.txt").write_text(" ".join(words) + "\n", encoding="utf-8")


@pytest.fixture(scope="session", autouse=True)
def _forks(tmp_path_factory):
    Project.forks = Forks(tmp_path_factory.mktemp("forks") / "log")
    yield
    Project.forks.close()


@pytest.fixture(scope="session")
def tree(made_once):
    """Makes a copy of the tree in a folder, with its modules compiled: `tree(folder)`."""

    def fill(folder):
        for name in TREE:
            if (ROOT / name).is_dir():
                shutil.copytree(
                    ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copy2(ROOT / name, folder / name)
        compileall.compile_dir(folder, quiet=1)

    def make(root, config=CONFIG):
        project = Project(made_once("tree", fill)).copy(root)
        shutil.copy2(config, root / "config.yaml")
        if config == CONFIG:
            _notes(project.path("text"))
            for name, content in OWN.items():
                edits.put(name, content)(root)
        return project

    return make


@pytest.fixture(scope="session")
def _begun(tree, tmp_path_factory):
    project = tree(tmp_path_factory.mktemp("begun") / "project")
    return project, project.copy(tmp_path_factory.mktemp("fresh") / "project")


@pytest.fixture
def fresh(_begun):
    """A copy of the tree with the tiny experiment, of which nothing is made."""
    original, project = _begun
    project.become(original)
    yield project
    project.kill()


@pytest.fixture(scope="module")
def fresh_elsewhere(tree, tmp_path_factory):
    """Another one, for the tests of a module."""
    return tree(tmp_path_factory.mktemp("fresh") / "project")


@pytest.fixture
def default(tree, tmp_path):
    """A copy of the tree with the repository's own default experiment, nothing made."""
    return tree(tmp_path / "project", ROOT / "config.yaml")


@pytest.fixture(scope="session")
def whole(tree, made_once, tmp_path_factory):
    """The tiny experiment, made from nothing by one command. Read it, never change it."""

    def fill(folder):
        tree(folder / "project").make()

    made = Project(made_once("whole", fill) / "project")
    return made.copy(tmp_path_factory.mktemp("whole") / "project")


@pytest.fixture(scope="session")
def _finished(whole, tmp_path_factory):
    return whole.copy(tmp_path_factory.mktemp("finished") / "project")


@pytest.fixture
def finished(_finished, whole):
    """A copy of the finished experiment to ask and to change."""
    _finished.become(whole)
    return _finished


@pytest.fixture(scope="session")
def packed(whole, made_once):
    """The experiment with runs that last seconds: there is something to interrupt. Of it the
    corpora are made. Never run it."""

    def fill(folder):
        project = whole.copy(folder / "project")
        for path in project.path("results").iterdir():
            if path.name in OF_RUNS:
                atomic_files.remove_path(path)
        project.configure(lambda config: config["training"]["short"].update(LONG))

    return Project(made_once("packed", fill) / "project")


@pytest.fixture
def untrained(packed, tmp_path):
    """A copy of the experiment with longer runs, of which the corpora are made and no run."""
    project = packed.copy(tmp_path / "project")
    yield project
    project.kill()


@pytest.fixture(scope="module")
def slurm():
    with started() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _unbroken(packed, made_once):
    """The same with longer runs of mix and pike, which nothing interrupted. Never run it."""

    def fill(folder):
        project = packed.copy(folder / "project")
        project.make(project.manifest("mix"), project.manifest("pike"))

    return Project(made_once("unbroken", fill) / "project")


@pytest.fixture(scope="session")
def unbroken(_unbroken):
    """What they leave."""
    return _unbroken.outcomes()
