"""Tiny corpora made by the real stages, tiny runs on them, the command line as users call it."""

import collections
import contextlib
import copy
import gc
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import filelock
import hypothesis
import numpy as np
import pytest
from fetched import asked, benchmarks, standin, tokenizers
from recipes import written
from repository import ROOT

from pike_mixing.__main__ import main
from pipeline import settings
from pipeline.data import packing, sources, tokenizer
from pipeline.planning import planner
from pipeline.runtime import atomic_files, code_fingerprint, made_from
from pipeline.runtime.validate_settings import validate

__all__ = ["asked", "benchmarks", "standin", "tokenizers"]

MEMORY = Path("/dev/shm")
"""A file system in memory: whoever writes a file there need not wait for the disk."""
ROOM = 4 * 2**30


def _is_roomy(place):
    """Whether the tests' folders fit into a place, and programs in them can be started."""
    if not os.access(place, os.W_OK):
        return False
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize > ROOM and not found.f_flag & os.ST_NOEXEC


if _is_roomy(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Messages name programs as where the environment is activated: `pike`, not its path.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
# A machine that does something else beside must not fail a test for its slowness.
hypothesis.settings.register_profile("house", deadline=None)
hypothesis.settings.load_profile("house")

LANGUAGE = {"kind": "synthetic", "symbols": 12, "documents": 40, "length": 150}
DOMAINS = {
    "easy": {**LANGUAGE, "order": 1, "successors": 2, "noise": 0.0, "alphabet": 0x4E00, "seed": 1},
    "hard": {**LANGUAGE, "order": 1, "successors": 6, "noise": 0.2, "alphabet": 0x5000, "seed": 2},
}

RUN = {
    "scenario": "languages",
    "model_name": "tiny",
    "method_name": "any",
    "seed": 0,
    "domains": ["easy", "hard"],
    "tokenizer": "symbols",
    "model": {"layers": 1, "width": 8, "heads": 2, "head_width": 4, "vocabulary_multiple": 8},
    "training": {
        "rows": 6,
        "length": 8,
        "steps": 6,
        "warmup_steps": 2,
        "peak_learning_rate": 0.01,
        "initial_learning_rate": 0.001,
        "final_learning_rate": 0.001,
        "checkpoint_every": 3,
        "resume_every": 3,
    },
    "rule": "mix",
    "method": {},
}

PIKE = {"rule": "pike", "method": {"zeta1": 0.5, "zeta2": 0.1, "every": 2, "first": 0, "rows": 3}}


LACKING = re.compile(r"could not import '([\w.]+)'")
"""What pytest says of a test that skips for lack of a package."""


def skips_by_reason(reporter):
    """How many tests skipped, by their reason; packages that lack are one."""
    counts = collections.Counter()
    for report in reporter.stats.get("skipped", ()):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        package = LACKING.match(reason)
        counts[f"no package {package[1]}" if package else reason] += 1
    return counts


def pytest_terminal_summary(terminalreporter):
    """Seconds by folder."""
    seconds = collections.Counter()
    for report in [r for some in terminalreporter.stats.values() for r in some]:
        if hasattr(report, "duration"):
            folder = Path(report.nodeid.partition("::")[0]).parent
            seconds[folder.as_posix()] += report.duration
    listed = ", ".join(f"{name} {took:.0f}" for name, took in seconds.most_common() if took >= 1)
    if listed:
        terminalreporter.write_line(f"seconds by folder: {listed}")


LEFT_OUT = {
    "not device": "accelerators (make gpu-check, make test-tpu)",
    "not slow": "what takes longer (make test)",
}
"""What tests that are not chosen by their marks would test, and the command that does."""
WAYS = {"no package": "make test-trainers", "chromium": "apt install chromium"}
"""By a part of the reasons of skips: how to test all the same. Other reasons say it."""


def pytest_unconfigure(config):
    """The last line: what was not tested and why, and how to test it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and reporter.stats:
        told = [what for mark, what in LEFT_OUT.items() if mark in (config.option.markexpr or "")]
        for reason, count in skips_by_reason(reporter).most_common():
            ways = [f": {way}" for part, way in WAYS.items() if part in reason]
            told.append(f"{count} ({reason}{''.join(ways)})")
        if told:
            reporter.write_line(f"NOT TESTED: {'; '.join(told)}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Where packages are installed for their tests, a test that skips for lack of one fails."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("PIKE_TEST_NEEDS_PACKAGES") and reporter:
        lacking = [one for one in skips_by_reason(reporter) if one.startswith("no package")]
        if lacking:
            reporter.write_line(f"FAILED: {', '.join(lacking)}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(items):
    """The longest first, so that no process is left alone with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("workflow") is None)


OWN_MODULES = ("mine", "spread")


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
    """A folder from which modules of the user's own are imported, forgotten before and after."""

    def forget():
        code = code_fingerprint
        for cached in (
            code._folder_holding_importable_package,
            code._possible_own_modules,
            code.module_path,
        ):
            cached.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] in OWN_MODULES]:
            del sys.modules[name]

    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path
    forget()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Makes a folder once for all processes of the tests: `made_once(name, fill)` is its place.

    Nobody changes what lies there. `fill(folder)` writes it.
    """
    top = tmp_path_factory.getbasetemp()
    common = top.parent if "PYTEST_XDIST_WORKER" in os.environ else top

    def make(name, fill):
        place, done = common / name, common / f"{name}.done"
        with filelock.FileLock(f"{place}.lock"):
            if not done.exists():
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir()
                fill(place)
                done.touch()
        return place

    return make


@pytest.fixture(scope="session")
def corpora(tmp_path_factory):
    """Folder with a packed corpus of each of two small languages, `easy` and `hard`."""
    root = tmp_path_factory.mktemp("data")
    for name, values in DOMAINS.items():
        sources.download_source(written(root / f"{name}.json", values), root / name)
    model = root / "symbols.model"
    wanted = {"model": "char", "vocabulary": 64, "characters": 4000, "validation_share": 0.2}
    tokenizer.build_tokenizer(
        written(root / "symbols-settings.json", {"kind": "train", **wanted}),
        [root / name for name in DOMAINS],
        model,
    )
    chosen = written(root / "packing.json", {"validation_share": 0.2})
    for name in DOMAINS:
        packing.pack_corpus(chosen, root / name, model, root / "corpora" / name)
    return root / "corpora"


@pytest.fixture(scope="session")
def pike():
    """Settings of PiKE that update the weights at every other step of a tiny run."""
    return copy.deepcopy(PIKE)


@pytest.fixture(scope="session")
def write_run():
    """Writes a tiny run's `run.json`; `training` and `model` are laid over, the rest replaced."""

    def write(folder, *, training=None, model=None, **changes):
        values = copy.deepcopy(RUN)
        values["training"].update(training or {})
        values["model"].update(model or {})
        return written(folder / "run.json", {**values, **changes})

    return write


@pytest.fixture
def make_run(write_run, tmp_path):
    """The same in a folder of the test's own, by name."""

    def make(folder="run", **changes):
        return write_run(tmp_path / folder, **changes)

    return make


# Torch is imported by who needs it: the process that deals out the tests does not.


def _trained(run, corpora):
    from pipeline.training import train

    train.pretrain(run, corpora, device="cpu", threads=1)
    return run.parent


@pytest.fixture(scope="session")
def mixed(tmp_path_factory, write_run, corpora):
    """Folder of a finished run of Mix."""
    return _trained(write_run(tmp_path_factory.mktemp("mixed")), corpora)


@pytest.fixture(scope="session")
def piked(tmp_path_factory, write_run, corpora, pike):
    """Folder of a finished run of PiKE."""
    return _trained(write_run(tmp_path_factory.mktemp("piked"), **pike), corpora)


@pytest.fixture(scope="session")
def finish_untrained():
    """Gives a run checkpoints of untrained models at steps 0 and 3, and a manifest.

    `change` edits the model of step 3.
    """
    from pipeline.model import checkpoint
    from pipeline.model.adamw import build_adamw
    from pipeline.model.transformer import initial_model

    def finish(path, pieces, change=None):
        work = validate(settings.Run, atomic_files.read_json(path), "run.json")
        for step in (0, 3):
            vocabulary = work.model.padded_vocabulary(pieces)
            model = initial_model(work.model, vocabulary, seed=step)
            if change is not None and step == 3:
                change(model)
            none = np.zeros(len(work.domains), dtype=np.int64)
            state = checkpoint.TrainState(step, {}, none, none)
            optimizer = build_adamw(model, work.training)
            taken = checkpoint.take_snapshot(model, optimizer, state, "identity")
            checkpoint.write_checkpoint(path.parent / "checkpoints" / f"step{step}", taken)
        values = atomic_files.read_json(path)
        values["training"]["steps"] = 3
        last = path.parent / "checkpoints" / "step3"
        made_from.InputSnapshot("pretrain", []).write_manifest(
            path.parent / atomic_files.MANIFEST,
            settings=values,
            files=[],
            facts={
                "run": "languages/tiny/any/seed0",
                "domains": list(work.domains),
                "steps": 3,
                "checkpoints": [0, 3],
                "weights_sha256": checkpoint.verified_weights_sha256(last),
            },
        )
        return path.parent

    return finish


@pytest.fixture(scope="session")
def config():
    """The default experiment, but for `quick`; a copy for each who asks."""
    loaded = planner.read_expanded_config(ROOT / "config.yaml")
    # It names tables and figures, which most tests replace.
    del loaded["quick"]

    def fresh():
        return json.loads(json.dumps(loaded))

    return fresh


@pytest.fixture(scope="session")
def pipeline_command():
    """The command line in a process of its own: the arguments and environment to start it with."""

    def command(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        return {
            "args": [sys.executable, "-m", "pipeline", *map(str, arguments)],
            "env": environment,
            "cwd": ROOT,
        }

    return command


@pytest.fixture(scope="session")
def run_pipeline(pipeline_command):
    """Runs one command to its end; returns the completed process with its texts."""

    def run(*arguments):
        return subprocess.run(
            **pipeline_command(*arguments), capture_output=True, text=True, check=False, timeout=120
        )

    return run


@pytest.fixture
def said(capsys):
    """Runs a command of the library; what it prints, or says where it leaves with another code."""

    def run(*words, code=0):
        assert main([*map(str, words)]) == code
        out, err = capsys.readouterr()
        return err if code else out

    return run


@pytest.fixture
def largest_file():
    """Within a block: no file may grow beyond so many bytes, as on a disk that takes no more.

    No longer than need be: pytest writes larger ones itself.
    """

    @contextlib.contextmanager
    def limit(size):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limit


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a file system of so many KiB and returns its folder."""
    if os.geteuid():
        pytest.skip("only root can mount a small tmpfs")
    mounted = []

    def mount(kib):
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(place)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("this machine does not let tests mount a tmpfs")
        mounted.append(place)
        return place

    yield mount
    # A checkpoint's tensors are mapped files, and lie in cycles with the optimizer that took them.
    gc.collect()
    for place in mounted:
        subprocess.run(["umount", str(place)], check=True)
