"""What the Slurm plugin of Snakemake leaves open, seen in its version 2.8.0.

While slurmctld does not answer, all queries of a status check fail, after which `check_active_jobs`
of the plugin yields no job: Snakemake forgets those that run, and waits for ever. `sbatch` fails
then, too, and uses up the tries of jobs that never began. A job that slurmctld has forgotten (it
lost its state, or `MinJobAge` passed between two checks) is taken to be on its way, for ever. Of a
job that took more memory than it asked for, only its own log says so.

A controller that is there and does not answer is given up after the plugin's own limits (10 s for
its configuration, 60 s for the jobs) and those below.
"""

import importlib
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

ASK_SECONDS, PATIENCE_SECONDS = 5.0, 3600.0
"""Between two questions whether the controller is back, and for how long they are asked."""
ANSWER_SECONDS = 60.0
"""For an answer of the controller."""
MEMORY_SIGNS = ("OUT_OF_MEMORY", "exceeded memory limit", "oom_kill", "oom-kill")
"""What Slurm writes of a job that took too much: as its status, by polling, and by cgroups."""


def ignore_checkpoint_signals() -> None:
    """Has this process ignore the signals at which a training saves (`signal_handler.SAVES`).

    Slurm sends them to all processes of a job: the Snakemake in it would end by them, and the job
    with it. What it starts ignores them too, but for trainings. Signals are the main thread's.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)


def mend_plugin() -> None:
    """Has the plugin keep jobs that it cannot ask about, wait to submit, and tell of memory.

    Jobs that Slurm has forgotten are submitted again.
    """
    plugin: Any = importlib.import_module("snakemake_executor_plugin_slurm")
    query, run_job = plugin.query_job_status, plugin.Executor.run_job
    check, report = plugin.Executor.check_active_jobs, plugin.Executor.report_job_error
    known: set[str] | None = None

    async def asked(command: str, logger: Any) -> tuple[dict[str, str], float]:
        nonlocal known
        result, seconds = await query(command, logger)
        known = None if result is None else set(result)
        if result is None:
            logger.warning("Slurm says nothing of the jobs: they are taken to go on")
        # A job of which an answer says nothing stays as it is.
        return result or {}, seconds or 0.0

    async def checked(self: Any, jobs: list[Any]) -> AsyncIterator[Any]:
        async for job in check(self, jobs):
            number = job.external_jobid
            if known is not None and number not in known and _forgotten(number):
                told = f"Slurm has forgotten job {number}, which counts as failed. "
                self.report_job_error(job, msg=told)
            else:
                yield job

    def submitted(self: Any, job: Any) -> None:
        await_controller(self.logger)
        run_job(self, job)

    def reported(self: Any, job: Any, msg: str | None = None, **others: Any) -> None:
        told = " ".join([msg or "", *map(_end, others.get("aux_logs") or ())])
        if any(sign in told for sign in MEMORY_SIGNS):
            self.logger.error(
                f"Slurm ended job {job.external_jobid} because it took more memory than it asked "
                "for: a `mem_mb` of your own is not raised at the next try; without one, it is"
            )
        report(self, job, msg=msg, **others)

    plugin.query_job_status, plugin.Executor.run_job = asked, submitted
    plugin.Executor.check_active_jobs, plugin.Executor.report_job_error = checked, reported


def _forgotten(job: str) -> bool:
    """Whether the controller answers that there is no such job."""
    return "Invalid job id" in _scontrol("show", "job", job).stderr


def _scontrol(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["timeout", str(ANSWER_SECONDS), "scontrol", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _end(log: str) -> str:
    """The last part of a job's log, where Slurm writes why it ended the job."""
    path = Path(log)
    return path.read_text(encoding="utf-8", errors="replace")[-4000:] if path.is_file() else ""


def await_controller(logger: Any) -> None:
    """Waits while no slurmctld answers `scontrol ping`, for an hour at most."""
    end, told = time.monotonic() + PATIENCE_SECONDS, False
    # A ping of one that is there and does not answer takes seconds, too.
    while _scontrol("ping").returncode:
        if time.monotonic() > end:
            return
        if not told:
            logger.warning("Slurm's controller does not answer: waiting to submit")
        told = True
        time.sleep(ASK_SECONDS)
