"""What `make run` shows of a workflow: `snakemake --logger pike`.

On a terminal there is a bar for the workflow and one for each rule, the time left, and the jobs
that run now; elsewhere a line each half minute, also while no job ends. What each job reads and
writes is in Snakemake's own log alone. Warnings, errors and the logs of failed jobs are shown, too.

Snakemake finds a plugin by its name, in a folder that Python finds modules in.
"""

import logging
import re
import threading
import time
from collections import Counter
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

IN_LOG_ONLY = {
    LogEvent.WORKFLOW_STARTED,
    LogEvent.JOB_STARTED,
    LogEvent.GROUP_INFO,
    LogEvent.PROGRESS,
    LogEvent.RESOURCES_INFO,
    LogEvent.RULEGRAPH,
}
OF_THE_MACHINE = re.compile(
    "Assuming unrestricted|Building DAG|Elapsed time|Execute |Job stats|None$|Provided |"
    "Rules claiming|Select jobs|Singularity containers|Using |host:"
)
"""How messages begin that tell how Snakemake works, not what of the experiment is done."""
AT_INTERRUPT = "Terminating processes on user request"
"""How the message begins with which Snakemake answers Ctrl-C."""
REMEDIES = {
    "the --unlock argument": "`make unlock`, with the same CONFIG and PROFILE",
    " (if you use input functions make sure that they don't raise unexpected exceptions)": ": "
    "`.venv/bin/pike plan FILE --config CONFIG` says the right name",
}
"""What Snakemake advises, and what is typed here."""
LEAST_SECONDS = 30
LEAST_SHARE = 0.01
"""A line is written after so many seconds, or so much of the time so far: a log stays short."""
LOOK_SECONDS = 1.0
"""Between looks at the clock."""
MOST_RUNNING = 4
"""Jobs that are shown by name."""


class Running(NamedTuple):
    """A job at work."""

    rule: str
    name: str
    began: float


class Jobs:
    """The jobs of a workflow: how many there are, have ended, and run now."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.total, self.done = Counter[str](), Counter[str]()
        self.running: dict[int, Running] = {}
        self._seconds = Counter[str]()

    def start(self, number: int, rule: str, name: str) -> None:
        """A job begins."""
        self.running[number] = Running(rule, name, time.monotonic())
        # A checkpoint may have added it.
        own = sum(one.rule == rule for one in self.running.values())
        self.total[rule] = max(self.total[rule], self.done[rule] + own)

    def stop(self, number: int, *, ended: bool) -> None:
        """A job has ended, or has failed."""
        job = self.running.pop(number, None)
        if job and ended:
            self.done[job.rule] += 1
            self._seconds[job.rule] += time.monotonic() - job.began

    def seconds_left(self) -> float | None:
        """As long as each rule's jobs took so far, with as many at once as now.

        None while rules of which no job has ended make up most of what remains.
        """
        left = self.total - self.done
        known = {rule: self._seconds[rule] / self.done[rule] for rule in left if self.done[rule]}
        if 2 * sum(left[rule] for rule in known) < left.total():
            return None
        usual = sum(self._seconds.values()) / max(self.done.total(), 1)
        now = time.monotonic()
        work = sum(count * known.get(rule, usual) for rule, count in left.items())
        # A job may take longer than those before it.
        work -= sum(min(now - j.began, known.get(j.rule, usual)) for j in self.running.values())
        return work / max(len(self.running), 1)

    def time_text(self) -> str:
        """Time so far, and the time left."""
        left = self.seconds_left()
        told = "" if left is None else f", about {clock_text(left)} left"
        return f"{clock_text(time.monotonic() - self.began)}{told}"


def clock_text(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class LogHandler(LogHandlerBase):
    """Shows the events of a workflow."""

    writes_to_stream = True
    writes_to_file = False
    # Snakemake's own: by them a failed job's log is shown.
    has_filter = False
    has_formatter = False
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Begins before there are jobs."""
        settings = self.common_settings
        self._console = Console(stderr=not settings.stdout, no_color=settings.nocolor or None)
        self._jobs = Jobs()
        self._live: Live | None = None
        self._last = 0.0
        self._ended = threading.Event()
        self._clock: threading.Thread | None = None
        self._is_interrupted = False

    def emit(self, record: logging.LogRecord) -> None:
        """Takes one event."""
        event = getattr(record, "event", None)
        if event == LogEvent.RUN_INFO and not self.common_settings.dryrun:
            self._start_bars(record)
        elif event == LogEvent.JOB_INFO and not self.common_settings.dryrun:
            name = "/".join(map(str, (record.wildcards or {}).values()))
            self._jobs.start(record.jobid, record.rule_name, name)
        elif event == LogEvent.JOB_FINISHED:
            self._jobs.stop(record.job_id, ended=True)
            self._write_line()
        elif event not in IN_LOG_ONLY:
            if event == LogEvent.JOB_ERROR:
                self._jobs.stop(record.jobid, ended=False)
            self._print_message(record, event)

    def close(self) -> None:
        """Takes the bars away, and says what was done; Snakemake calls it more than once."""
        self._ended.set()
        if self._live:
            self._live.stop()
            self._live = None
        if self._jobs.total:
            self._print(f"{self._done_text()} in {clock_text(time.monotonic() - self._jobs.began)}")
            self._jobs = Jobs()
        if self._is_interrupted:
            self._print("stopped: the same command goes on")
            self._is_interrupted = False
        super().close()

    def _print_message(self, record: logging.LogRecord, event: LogEvent | None) -> None:
        text = self.format(record)
        for advice, remedy in REMEDIES.items():
            text = text.replace(advice, remedy)
        known = event is None and record.levelno < logging.WARNING and OF_THE_MACHINE.match(text)
        # That its jobs fail then is no news, and stands in the log.
        ended = self._is_interrupted and record.levelno >= logging.ERROR
        if text.strip() and not known and not ended:
            style = {logging.WARNING: "yellow", logging.ERROR: "red"}.get(record.levelno, "")
            self._print(text, style)
        if text.startswith(AT_INTERRUPT):
            self._is_interrupted = True

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)

    def _start_bars(self, record: logging.LogRecord) -> None:
        self._jobs = Jobs()
        self._jobs.total.update({r: n for r, n in record.stats.items() if r != "total"})
        each = ", ".join(f"{rule_words(rule)} {count}" for rule, count in self._jobs.total.items())
        self._print(f"{self._jobs.total.total()} jobs: {each}")
        if self._console.is_terminal and not self._live:
            self._live = Live(
                console=self._console,
                get_renderable=self._progress_table,
                refresh_per_second=2,
                transient=True,
            )
            self._live.start()
        elif not self._live and not self._clock:
            self._clock = threading.Thread(target=self._write_lines, daemon=True)
            self._clock.start()

    def _write_lines(self) -> None:
        """Writes lines until the end, also while no job ends."""
        while not self._ended.wait(LOOK_SECONDS):
            # Events come from another thread.
            with self.lock:
                if self._jobs.running:
                    self._write_line()

    def _done_text(self) -> str:
        return f"{self._jobs.done.total()} of {self._jobs.total.total()} jobs"

    def _write_line(self) -> None:
        jobs, now = self._jobs, time.monotonic()
        least = max(LEAST_SECONDS, LEAST_SHARE * (now - jobs.began))
        if self._live or now - max(self._last, jobs.began) < least:
            return
        self._last = now
        each = [f"{rule_words(r)} {jobs.done[r]} of {jobs.total[r]}" for r in self._running_rules()]
        whole = f"{time.strftime('%H:%M')} {self._done_text()}, {jobs.time_text()}"
        self._print(": ".join([whole, *filter(None, [", ".join(each)])]))

    def _running_rules(self) -> list[str]:
        """Rules of which a job has begun, and not all have ended."""
        jobs = self._jobs
        at_work = {job.rule for job in jobs.running.values()}
        return [r for r in jobs.total if r in at_work or 0 < jobs.done[r] < jobs.total[r]]

    def _progress_table(self) -> Table:
        jobs, running = self._jobs, [*self._jobs.running.values()]
        result = Table.grid(padding=(0, 1), expand=True)
        result.add_column(no_wrap=True)
        result.add_column(ratio=1)
        result.add_column(justify="right", no_wrap=True)
        result.add_column(no_wrap=True)

        def add(name: str, done: int, total: int, told: str, style: str = "") -> None:
            bar = ProgressBar(total=total, completed=done)
            result.add_row(Text(name, style), bar, Text(f"{done}/{total}", style), told)

        add("workflow", jobs.done.total(), jobs.total.total(), jobs.time_text(), "bold")
        at_work = Counter(job.rule for job in running)
        for rule, total in jobs.total.items():
            done, now = jobs.done[rule], at_work[rule]
            told = f"{now} running" if now else "done" if done == total else ""
            add(rule_words(rule), done, total, told, "dim" if done == total else "")
        whole = Table.grid(expand=True)
        whole.add_column(no_wrap=True, overflow="ellipsis")
        whole.add_row(result)
        for job in running[:MOST_RUNNING]:
            named = f"{rule_words(job.rule)} {job.name}".rstrip()
            whole.add_row(Text(f"now  {named}, {clock_text(time.monotonic() - job.began)}"))
        if len(running) > MOST_RUNNING:
            whole.add_row(Text(f"     and {len(running) - MOST_RUNNING} more"))
        return whole


def rule_words(rule: str) -> str:
    """A rule's name as it is read."""
    return rule.replace("_", " ")
