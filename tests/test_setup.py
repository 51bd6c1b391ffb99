"""The script behind `make setup`, with an interpreter that only seems to be one."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib

import documented
import pytest
from repository import ROOT, run

SCRIPT = ROOT / "workflow" / "setup.sh"

PYTHON = """#!/bin/sh
case "$*" in
  -V) echo Python 3.14.2 ;;
  *version_info*) {version} ;;
  *ensurepip*) {ensurepip} ;;
  *urlopen*) {answers} ;;
  "-m venv "*) {venv} mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
  "-m pip "*) echo "$*" >"$(dirname "$0")/../asked"; {pip} ;;
esac
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts it with an interpreter of which some parts fail; its environment is `made`."""
    # No GPU, whatever this machine has.
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("cat", "cp", "dirname", "mkdir", "rm", "sh", "sleep", "touch", "uname"):
        (programs / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(programs))

    def begin(*index, **parts):
        values = dict.fromkeys(("version", "ensurepip", "answers", "pip"), "true")
        python = tmp_path / "python"
        python.write_text(PYTHON.format(**{**values, "venv": "", **parts}), encoding="utf-8")
        python.chmod(0o755)
        command = [SCRIPT, python, tmp_path / "made", "test", *index]
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # A shell cannot trap what it was started to ignore, as in the background it is.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return begin


def told(process, code):
    output, _ = process.communicate("torch==2.13.0\n", timeout=60)
    assert process.returncode == code, output
    return output


def test_an_environment_is_made_with_its_constraints(start, tmp_path):
    assert told(start(), 0) == ""
    assert (tmp_path / "made/constraints.txt").read_text(encoding="utf-8") == "torch==2.13.0\n"
    asked = (tmp_path / "made/asked").read_text(encoding="utf-8")
    assert "extra-index-url" not in asked
    assert asked.endswith("--editable .[test]\n")


def test_files_are_taken_by_their_hashes_where_asked(start, tmp_path):
    asked = 'case "$*" in *hashes*) echo "$*" >"$(dirname "$0")/../first" ;; esac'
    told(start("", "hashed.txt", pip=asked), 0)
    first = (tmp_path / "made/first").read_text(encoding="utf-8")
    assert first.endswith("--no-deps --require-hashes --requirement hashed.txt\n")
    assert (tmp_path / "made/asked").read_text(encoding="utf-8").endswith("--editable .[test]\n")
    shutil.rmtree(tmp_path / "made")
    refused = 'case "$*" in *hashes*) exit 1 ;; esac'
    said = told(start("", "hashed.txt", pip=refused), 1)
    assert "index does not answer, or gives other files than hashed.txt" in said
    assert "make setup HASHED=" in said
    assert not (tmp_path / "made").exists()


def test_the_hashed_files_are_of_the_tested_versions():
    pinned, hashed = (
        {
            re.sub("[-_.]+", "-", name).lower(): version
            for name, version in re.findall(r"^([\w.-]+)==([^ ;\\\n]+)", text, re.MULTILINE)
        }
        for text in (
            (ROOT / name).read_text(encoding="utf-8")
            for name in ("constraints-cpu.txt", "requirements-hashed.txt")
        )
    )
    assert "torch" not in hashed
    # Those of other platforms alone are in no environment that was tested.
    assert {n: v for n, v in hashed.items() if n in pinned and v != pinned[n]} == {}
    assert pinned.keys() - hashed.keys() <= {"torch", "setuptools", "mpmath", "networkx", "sympy"}


AGAIN = "failed; see above, and try the same command again ("


@pytest.mark.parametrize(
    ("part", "does", "message"),
    [
        ("version", "exit 1", "Python 3.14.2 will not do: Python 3.11, 3.12 or 3.13 is needed"),
        ("ensurepip", "exit 1", "apt install python3-venv"),
        ("venv", 'mkdir "$3"; echo no space left; exit 1;', AGAIN),
        ("pip", "echo no network; exit 1", AGAIN),
    ],
)
def test_what_is_missing_or_fails_is_told_and_leaves_nothing(start, tmp_path, part, does, message):
    assert message in told(start(**{part: does}), 1)
    assert not (tmp_path / "made").exists()


def test_an_environment_that_was_there_stays(start, tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made/old").touch()
    assert "was removed" not in told(start(pip="exit 1"), 1)
    assert (tmp_path / "made/old").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(start, tmp_path, number):
    process = start(pip="exec sleep 60")
    process.stdin.close()
    process.stdin = None
    end = time.monotonic() + 30
    while not (tmp_path / "made/asked").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, number)
    assert process.wait(timeout=30) == 1
    process.stdout.close()
    assert not (tmp_path / "made").exists()


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="torch has no other builds there")
@pytest.mark.parametrize(("answers", "gpu"), [("true", False), ("exit 1", False), ("true", True)])
def test_cpu_builds_of_torch_are_asked_for_without_a_gpu_where_their_index_answers(
    start, tmp_path, answers, gpu
):
    if gpu:
        (tmp_path / "programs/nvidia-smi").symlink_to(shutil.which("sh"))
    output = told(start("https://cpu.example", answers=answers), 0)
    asked = (tmp_path / "made/asked").read_text(encoding="utf-8")
    expected = answers == "true" and not gpu
    assert ("--extra-index-url https://cpu.example" in asked) == expected
    assert ("does not answer" in output) == (answers != "true")


def test_pages_and_profiles_ask_for_no_extra_that_is_installed_anyway():
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    packages = {
        extra: {re.match(r"[\w.-]+", each)[0] for each in listed}
        for extra, listed in extras.items()
    }
    makefile = ROOT / "Makefile"
    text = makefile.read_text(encoding="utf-8")
    (installed,) = re.findall(r"setup\.sh \$\(PYTHON\) \$\(VENV\) ([a-z,]+) ", text)
    there = set().union(*(packages[extra] for extra in installed.split(",")))
    assert "snakemake-executor-plugin-slurm" in there
    for path in (makefile, *documented.PAGES, *(ROOT / "workflow").rglob("*.yaml")):
        for asked in re.findall(r"EXTRAS=(\w+(?:,\w+)*)", path.read_text(encoding="utf-8")):
            for extra in asked.split(","):
                assert packages[extra] - there, (path, extra)


def started(*words):
    """The commands that make would start."""
    threads = {"OMP_NUM_THREADS": "101", "OMP_THREAD_LIMIT": "100"}
    # The tests are themselves started by make, which says so to the make below it.
    command = ("make", "--dry-run", "--no-print-directory", *words)
    return run(*command, env={**os.environ, **threads}, check=True).stdout.splitlines()


def made(*words):
    """The words of the last of them."""
    return shlex.split(started(*words)[-1])


@pytest.mark.parametrize(("before", "removed"), [("cpu", True), ("cuda", False), (None, False)])
def test_another_build_of_torch_is_removed_before_the_one_that_is_asked_for(
    tmp_path, before, removed
):
    if before:
        (tmp_path / f".ready-{before}").touch()
        os.utime(tmp_path / f".ready-{before}", (0, 0))
    commands = started("setup", f"VENV={tmp_path}", "TORCH=cuda")
    told = f"{tmp_path}/bin/python -m pip uninstall --quiet --yes torch && rm {tmp_path}/.ready-*"
    assert ([told] == commands[:1]) == removed
    assert any("setup.sh" in command for command in commands)


def test_what_is_restored_is_asked_with_the_environment_that_restored_it(tmp_path):
    commands = started("restore", f"VENV={tmp_path}/new")
    assert any("setup.sh" in command for command in commands)
    assert (
        commands[-1].split()[1:]
        == f"{tmp_path}/new/bin/pike restore recorded --out restored".split()
    )
    assert [command for command in commands if ".venv-" in command] == []


def test_the_report_is_asked_for_by_its_rule():
    # Its place may stand in a file that the configuration includes.
    assert made("report")[-1] == "report"


def test_a_run_is_of_everything_or_of_the_files_that_are_named_under_the_profile():
    files = ["results/paper/tables/table1.md", "results/paper/tables/table2.md"]
    paper = ("CONFIG=workflow/configs/paper.yaml", "PROFILE=slurm")
    everything, of_two = made("run", *paper), made("run", *paper, f"TARGETS={' '.join(files)}")
    assert everything[everything.index("--profile") + 1] == "workflow/profiles/slurm"
    assert "workflow/profiles/default" in made("run")
    assert of_two == [*everything, *files]
    assert made("dag", *paper, f"TARGETS={' '.join(files)}")[-3:] == [*files, "--dry-run"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["TARGET=a.md"], "TARGET: no setting of this Makefile; these are: ASKED CONFIG"),
        (
            ["CONFIG=own.yaml", "few.yaml"],
            'make run CONFIG="own.yaml few.yaml", and make dag CONFIG',
        ),
        (
            ["own.yaml"],
            "own.yaml: files stand behind CONFIG= or TARGETS=, several of them in quotes: "
            'make run CONFIG="own.yaml", and make dag CONFIG="own.yaml" to list the jobs',
        ),
        (["a.md", "b.md", "CONFIG=own.yaml"], 'quotes: make run TARGETS="a.md b.md", and make da'),
    ],
)
def test_what_would_be_passed_over_is_refused_before_everything_runs(words, message):
    done = run("make", "-n", "run", *words)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is a folder, a pipe or a device: name a file"),
        ("a: 1", ""),
        (
            "__use_yte__: true\na: ?open('ran', 'w')\n",
            "runs texts of the file as code: take it out",
        ),
    ],
)
def test_a_configuration_is_judged_before_snakemake_reads_it(tmp_path, content, message):
    path, programs = tmp_path / "theirs.yaml", tmp_path / "bin"
    os.mkfifo(path) if content is None else path.write_text(content, encoding="utf-8")
    programs.mkdir()
    (tmp_path / ".ready-cpu").touch()
    for name, does in {"python": f'exec {sys.executable} "$@"', "snakemake": "echo read"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    words = ("make", "--silent", "dag", f"VENV={tmp_path}", "TORCH=cpu")
    done = run(*words, f"CONFIG=config.yaml {path}")
    assert (done.returncode, done.stdout) == ((2, "") if message else (0, "read\n"))
    assert not message or (done.stderr.startswith(f"CONFIG: {path}") and message in done.stderr)


def test_a_configuration_of_the_environment_stops_no_other_target():
    assert "pytest" in made("test", "CONFIG=none.yaml")
    assert "config.yaml" in made("run", "CONFIG=config.yaml")


def test_openmps_threads_do_not_say_how_many_cores_there_are():
    words = made("check")
    assert words[words.index("-n") + 1] == str(len(os.sched_getaffinity(0)))


def test_jobs_of_a_cluster_are_not_held_to_the_cores_of_this_machine():
    assert "--cores" not in made("run", "PROFILE=slurm")
    assert made("run", "CORES=3")[-2:] == ["--cores", "3"]


def test_every_test_that_skips_without_a_trainer_is_run_with_the_trainers():
    packages = (
        "accelerate|lightning|lm_eval|mlflow|tensorboard|tokenizers|torchdata|torchtitan|"
        "transformers|trl|wandb"
    )
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = re.search(r"^TRAINERS_TESTS := (.*?[^\\])$", makefile, re.MULTILINE | re.DOTALL)[1]
    run_there = [ROOT / word for word in listed.split() if word != "\\"]
    assert all(path.exists() for path in run_there)
    skipping = {
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(rf'importorskip\(\s*"({packages})\b', path.read_text(encoding="utf-8"))
    }
    assert [p for p in skipping if not any(p.is_relative_to(folder) for folder in run_there)] == []
