"""The command line in processes of its own, as users meet it."""

import contextlib
import errno
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from repository import ROOT, run

from pipeline import __main__, cli
from pipeline.planning import stages
from pipeline.planning.workflow_profile import TRAINS
from pipeline.runtime import environment, locks


def without(package, *arguments):
    """The command line on a machine that has not got a package."""
    code = (
        f"import sys; sys.modules['{package}'] = None; from pipeline.__main__ import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    return run(sys.executable, "-c", code, *arguments)


def test_help_lists_every_command_in_its_group():
    text = cli.build_parsers()[0].format_help()
    starts = [text.index(f"\n{group}: ") for group in cli.GROUPS]
    ends = [*starts[1:], len(text)]
    parts = {g: text[a:b] for g, a, b in zip(cli.GROUPS, starts, ends, strict=True)}
    for command in cli.commands():
        assert f"\n    {command.name} " in parts[command.group]
    assert {command.group for command in cli.commands()} == set(cli.GROUPS)


def test_rules_are_there_for_machines(capsys):
    assert __main__.main(["methods", "pike", "--format", "json"]) == 0
    (rule,) = json.loads(capsys.readouterr().out)
    assert rule["rule"] == "pike"
    assert "zeta1" in [setting["name"] for setting in rule["settings"]]


@pytest.mark.parametrize("command", [c for c in cli.commands() if c.group in ("look", "check")])
def test_what_a_command_shows_is_there_for_programs(command):
    if any(name == "--out" for name, *_ in command.arguments):
        pytest.skip("it writes files and shows a line at most")
    (formats,) = [how["choices"] for name, _, how in command.arguments if name == "--format"]
    assert "json" in formats


@pytest.mark.slow
def test_a_name_is_completed_by_the_shell(tmp_path):
    pytest.importorskip("argcomplete")

    def completed(line):
        # What the shell's function does: the answer comes on descriptor 8.
        asked = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
        out = tmp_path / "out"
        command = f"exec {sys.executable} -m pipeline 8>{out} 9>/dev/null"
        subprocess.run(["bash", "-c", command], cwd=ROOT, env={**os.environ, **asked}, check=True)
        return out.read_text(encoding="utf-8").replace("\013", " ").split()

    assert completed("pike meth") == ["methods"]
    assert completed("pike query x --format j") == ["json"]
    assert {"--once", "--every", "--format"} <= set(completed("pike watch results --"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "words", "told"),
    [
        ("pyarrow", "query x --database none", "none does not exist"),
        ("pipeline.planning.planner", "query x --database none", "none does not exist"),
        ("torch", "export nowhere --out out", "nowhere/manifest.json does not exist"),
        ("duckdb", "export nowhere --out out", "nowhere/manifest.json does not exist"),
        ("sklearn", "domains none --out out --clusters 2", "files: no file matches 'none'"),
    ],
)
def test_a_command_waits_for_no_package_that_it_does_not_need(package, words, told):
    done = without(package, *words.split())
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert told in done.stderr


def test_the_version_is_shown(capsys):
    with pytest.raises(SystemExit) as caught:
        __main__.main(["--version"])
    assert caught.value.code == 0
    assert re.match(r"pike \S+(, commit [0-9a-f]{40}\+?)?$", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["metods"], "pike: error: COMMAND: 'metods' is unknown: did you mean 'methods'?"),
        (["try", "t.csv"], "pike: error: 'try' is a command of pike-mixing: "),
        (["compare", "a b.csv"], "pike-mixing compare 'a b.csv'\n"),
        (
            ["export", "megatron-lm", "--mixture", "a=1"],
            "pike export: error: 'export' with a trainer's name or a mixture is a command of "
            "pike-mixing: ",
        ),
        (["export", "run"], "the following arguments are required: --out"),
        (["query", "select", "seed", "from", "runs"], "pike query 'select seed from runs'\n"),
        (["pretrain", "r", "--corpora", "c", "--threads", "0"], "'0' is not a whole number from 1"),
        (["pretrain", "r", "--corpora", ""], "argument --corpora: the path is empty"),
        (["watch", "results", "--every", "-1"], "argument --every: -1 must be 0.01 or more"),
        (["watch", "results", "--every", "inf"], "argument --every: 'inf' is not a number"),
        (["query", "x", "--fromat", "json"], "pike query: error: option: '--fromat' is unknown: "),
        (["theory", "--out", "o", "c"], "pike theory: error: c is too much"),
        (
            ["query", "r/pike.duckdb", "show tables"],
            "show tables is too much: type a database as --database r/pike.duckdb",
        ),
        (["why", "table/costs", "r/pike.duckdb"], "type a database as --database r/pike.duckdb"),
        (["plan", "a", "--format", "json", "b"], "b is too much: type every TARGET in one place"),
        (
            ["restore", "--only", "table2", "recorded"],
            "ARCHIVE: type it before --only: an option of",
        ),
        (
            ["fetch", "--from", "test=x", "piqa"],
            "NAME: type it before --from: an option of several",
        ),
        ([], "A first visit:\n  make restore "),
        (["pretrain", "run.json"], "usage: pike"),
    ],
)
def test_an_argument_that_nothing_can_be_done_with_is_named(arguments, expected, capsys):
    with pytest.raises(SystemExit) as caught:
        __main__.main(arguments)
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["methods", "PiKE"], "pike methods: rule: 'PiKE' is unknown: did you mean 'pike'?"),
        (
            ["pretrain", ".", "--corpora", "."],
            "pike pretrain: . is a folder, and a file of JSON is read there",
        ),
    ],
)
def test_a_mistake_is_told_in_the_words_of_the_command(arguments, expected, capsys):
    assert __main__.main(arguments) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_another_process_writes_is_waited_for_where_asked(run_pipeline, tmp_path):
    asked = ("pretrain", tmp_path / "run.json", "--corpora", tmp_path, "--wait", "0.001")
    with locks.acquire_lease(tmp_path):
        done = run_pipeline(*asked)
    assert (done.returncode, done.stdout) == (2, "")
    first, last = done.stderr.splitlines()
    assert first.startswith(f"{tmp_path} is being written by process {os.getpid()} on ")
    assert first.endswith("; waiting here for 0.001 minutes at most")
    assert last.endswith("run.json does not exist: make it first, or check the path")
    assert "waiting" not in run_pipeline(*asked).stderr


def test_a_fault_of_ours_shows_its_traceback(monkeypatch):
    monkeypatch.setattr("pipeline.results.why.explain_artifact", {}.__getitem__)
    with pytest.raises(TypeError):
        __main__.main(["why", "table"])


def test_an_interrupt_that_a_library_turns_into_an_error_is_one(monkeypatch, capsys):
    """DuckDB raises `RuntimeError: std::bad_cast`; without Ctrl-C the same is a fault."""
    before, pressed = signal.signal(signal.SIGINT, signal.default_int_handler), [True, False]

    def explain(*_, **__):
        with contextlib.suppress(KeyboardInterrupt):
            if pressed.pop(0):
                signal.raise_signal(signal.SIGINT)
        raise RuntimeError("std::bad_cast")

    monkeypatch.setattr("pipeline.results.why.explain_artifact", explain)
    try:
        assert __main__.main(["why", "table"]) == 130
        assert capsys.readouterr().err == "pike why: interrupted\n"
        with pytest.raises(RuntimeError, match="bad_cast"):
            __main__.main(["why", "table"])
        assert not pressed
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("command", cli.commands(), ids=lambda command: command.name)
def test_the_arguments_of_a_command_are_those_of_its_function(command):
    module, _, name = (command.place or stages.STAGES[command.name]).partition(":")
    try:
        function = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        extra = environment.EXTRAS[(error.name or "").partition(".")[0]]
        pytest.skip(f"needs the extra {extra!r}")
    _, *others = inspect.signature(function).parameters
    # The command itself looks at its GPU, waits for the run and starts the stage in so many
    # processes, on so many nodes; only tests give the theory other sizes.
    own = {"pretrain": {"accelerator", "nodes", "wait"}}
    names = own.get(command.name, {"accelerator"} if command.name in TRAINS else set())
    typed = {a.dest for a in cli.build_parsers()[1][command.name]._actions} - {"help", "given"}
    assert typed == names | {*others} - {"sizes"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", False), ("0", False), ("False", False), ("1", True)],
)
def test_a_switch_of_the_environment_can_be_off(monkeypatch, value, expected):
    monkeypatch.setenv("PIKE_SHARD", value)
    monkeypatch.setenv("PIKE_RECOMPUTE", value)
    # So it is when a file of variables sets none.
    monkeypatch.setenv("PIKE_PEAK_FLOPS", "")
    chosen = cli.parse_arguments(["pretrain", "run.json", "--corpora", "corpora"])
    assert chosen["peak_flops"] is None
    assert (chosen["shard"], chosen["recompute"]) == (expected, expected)


def test_a_file_that_cannot_be_read_is_told_by_its_name(monkeypatch, tmp_path, capsys):
    place = tmp_path / "runs"

    def read(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.results.why.explain_artifact", read)
    assert __main__.main(["why", "table"]) == 2
    assert f"pike why: {place} cannot be used: [Errno 13]" in capsys.readouterr().err


@pytest.mark.slow
def test_an_answer_that_cannot_be_written_is_told():
    command = f"exec {sys.executable} -m pipeline methods pike >/dev/full"
    done = run("sh", "-c", command)
    assert done.returncode == 2
    assert done.stderr.startswith("pike methods: the answer cannot be written: [Errno 28] No space")
    assert done.stderr.count("\n") == 1


def test_a_rule_of_ones_own_is_found_where_the_command_is_given(tmp_path):
    (tmp_path / "found_here.py").write_text(
        "from pike_mixing import PiKE\n\n\nclass Mine(PiKE):\n    pass\n"
    )
    pike = Path(sys.executable).with_name("pike")
    done = run(pike, "methods", "found_here:Mine", cwd=tmp_path)
    assert (done.returncode, "zeta1" in done.stdout) == (0, True), done.stderr


def test_how_child_processes_end_is_known_where_the_parent_ignores_it():
    code = (
        "import subprocess; from pipeline.__main__ import main; main(['methods']);"
        "print(subprocess.run(['false']).returncode)"
    )
    told = run("bash", "-c", 'trap "" CHLD; exec "$@"', "bash", sys.executable, "-c", code)
    assert told.stdout.splitlines()[-1] == "1"
