"""Lines of progress in a log, and what `make run` shows of a workflow."""

import importlib
import io
import logging
import re
import sys
import time
from types import SimpleNamespace

import pytest
import rich.console
from repository import ROOT
from snakemake_interface_logger_plugins.common import LogEvent

from pipeline.runtime import progress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass as they are set."""

    class Clock:
        now = 0.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def test_a_line_has_the_rate_since_the_last_and_the_end_that_of_all(clock, capsys):
    with progress.Progress("train", total=1000, unit="step") as bar:
        for clock.now, steps in ((20, 1), (25, 99), (30, 100), (40, 800)):
            bar.add(steps, loss=2)
    assert capsys.readouterr().err.splitlines() == [
        # One step in 20 seconds: 999 would take 19,980.
        "train: 1/1,000 step, 0.1/s, 19980 s left, loss 2",
        # 199 in ten more: 800 take 40.2.
        "train: 200/1,000 step, 19.9/s, 40 s left, loss 2",
        "train: 1,000/1,000 step, 80.0/s, 0 s left, loss 2",
        "train: 1,000/1,000 step, 25.0/s, 0 s left",
    ]


def test_work_that_was_done_before_counts_for_no_rate_and_a_rounded_total_is_reached(clock, capsys):
    with progress.Progress("pack", total=100, unit="MB", done=50) as bar:
        for clock.now, size in ((10, 10), (20, 40.4)):
            bar.add(size)
    assert capsys.readouterr().err.splitlines()[:2] == [
        "pack: 60/100 MB, 1.0/s, 40 s left",
        "pack: 100/100 MB, 4.0/s, 0 s left",
    ]


def test_what_fails_or_is_quiet_ends_without_a_line(clock, capsys):
    with pytest.raises(ZeroDivisionError), progress.Progress("a", total=1, unit="b"):
        raise ZeroDivisionError
    with progress.Progress("a", total=1, unit="b", quiet=True) as bar:
        clock.now = 99
        bar.add(1)
    assert capsys.readouterr().err == ""


@pytest.fixture
def shown(clock, monkeypatch):
    """What `make run` shows: `shown(terminal=...)` gives the handler of events, and its screen."""
    monkeypatch.syspath_prepend(ROOT / "workflow" / "plugins")
    plugin = importlib.import_module("snakemake_logger_plugin_pike")
    monkeypatch.setattr(plugin.time, "strftime", lambda _: "12:00")

    def begin(*, terminal=False, width=80):
        settings = SimpleNamespace(stdout=True, nocolor=True, dryrun=False)
        handler, screen = plugin.LogHandler(settings, None), io.StringIO()
        handler.setFormatter(logging.Formatter("%(message)s"))
        handler._console = rich.console.Console(
            file=screen, force_terminal=terminal, width=width, height=24, color_system=None
        )

        def tell(event=None, message="", level=logging.INFO, **facts):
            values = {"event": event, "msg": message, "levelno": level, **facts}
            handler.handle(logging.makeLogRecord(values))

        return handler, tell, screen

    yield begin
    sys.modules.pop("snakemake_logger_plugin_pike")


def begin_job(tell, number, rule, name=""):
    tell(LogEvent.JOB_INFO, "its block", jobid=number, rule_name=rule, wildcards={"run": name})


def test_without_a_terminal_a_workflow_has_a_line_now_and_then(shown, clock):
    handler, tell, screen = shown()
    tell(None, "Select jobs to execute...")
    tell(LogEvent.RUN_INFO, "a table", stats={"train_it": 300, "all": 1, "total": 301})
    for number in range(300):
        begin_job(tell, number, "train_it", f"a/seed{number}")
        clock.now += 1
        tell(LogEvent.JOB_FINISHED, "done", job_id=number)
    tell(None, "a doubt", logging.WARNING)
    handler.close()
    handler.close()
    lines = screen.getvalue().splitlines()
    assert lines[:2] == [
        "301 jobs: train it 300, all 1",
        # Of 271 jobs each takes a second, one at a time.
        "12:00 30 of 301 jobs, 0:30, about 4:31 left: train it 30 of 300",
    ]
    assert lines[-2:] == ["a doubt", "300 of 301 jobs in 5:00"]
    assert len(lines) == 1 + 300 // 30 + 2


def test_a_line_is_written_while_no_job_ends(shown, clock, monkeypatch):
    handler, tell, screen = shown()
    monkeypatch.setattr(sys.modules["snakemake_logger_plugin_pike"], "LOOK_SECONDS", 0.001)
    tell(LogEvent.RUN_INFO, "a table", stats={"pretrain": 2, "total": 2})
    begin_job(tell, 0, "pretrain")
    # Every half minute; after an hour and 40 minutes, every minute.
    for clock.now, lines in ((29.9, 1), (30, 2), (59, 2), (60, 3), (6000, 4), (6059, 4), (6061, 5)):
        end = time.time() + 5
        while time.time() < end and len(screen.getvalue().splitlines()) < lines:
            time.sleep(0.001)
        time.sleep(0.01)
        assert len(screen.getvalue().splitlines()) == lines, clock.now
    handler.close()
    assert screen.getvalue().splitlines()[1] == "12:00 0 of 2 jobs, 0:30: pretrain 0 of 2"
    handler._clock.join(5)
    assert not handler._clock.is_alive()


def test_what_ctrl_c_stops_has_not_failed(shown, clock):
    handler, tell, screen = shown()
    tell(LogEvent.RUN_INFO, "a table", stats={"pretrain": 3, "total": 3})
    begin_job(tell, 0, "pretrain")
    tell(None, "a fault before", logging.ERROR)
    tell(None, "Terminating processes on user request, this might take some time.")
    tell(LogEvent.JOB_ERROR, "Error in rule pretrain", logging.ERROR, jobid=0)
    tell(None, "RuleException: exit status 75", logging.ERROR)
    clock.now = 9.0
    handler.close()
    handler.close()
    lines = screen.getvalue().splitlines()
    assert lines[1:2] + lines[3:] == [
        "a fault before",
        "0 of 3 jobs in 0:09",
        "stopped: the same command goes on",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "remedy"),
    [
        ("LockException", [], "It can be removed with `make unlock`, with the same CONFIG"),
        ("MissingRuleException", ["a.md"], "a.md: `.venv/bin/pike plan FILE --config CONFIG` says"),
    ],
)
def test_what_snakemake_advises_is_said_as_a_command_of_this_project(
    shown, name, arguments, remedy
):
    exceptions = importlib.import_module("snakemake.exceptions")
    _, tell, screen = shown()
    tell(None, str(getattr(exceptions, name)(*arguments)), logging.ERROR)
    assert remedy in screen.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_has_bars_and_the_jobs_that_run(shown, clock, width):
    handler, tell, screen = shown(terminal=True, width=width)
    stats = {"pack": 2, "pretrain": 9, "all": 1, "total": 12}
    tell(LogEvent.RUN_INFO, "a table", stats=stats)
    for number in range(8):
        begin_job(tell, number, "pretrain" if number > 1 else "pack", f"a/seed{number}")
    clock.now = 60.0
    for number in range(3):
        tell(LogEvent.JOB_FINISHED, "done", job_id=number)
    tell(LogEvent.JOB_ERROR, "its log", logging.ERROR, jobid=3)
    clock.now = 70.0
    screen.seek(0)
    screen.truncate()
    handler._live.refresh()
    handler.close()
    lines = re.sub(r"\x1b\[\d*[A-Z]", "\r", screen.getvalue()).splitlines()
    bars = [line for line in lines if "━" in line]
    # Eight trainings and another job of 60 s, less those of the four that run, four at once.
    (workflow, pack, pretrain, *_), jobs = bars, re.findall(r"now  (.*?\d:\d\d)", screen.getvalue())
    assert re.search(r"workflow +━+ +3/12 1:10, about 1:15 left", workflow)
    assert re.search(r"pack +━+ +2/2 +done", pack)
    assert re.search(r"pretrain +━+╸? +1/9 +4 running", pretrain)
    assert jobs[:4] == [f"pretrain a/seed{n}, 1:10" for n in range(4, 8)]
    assert max(map(len, bars)) <= width
