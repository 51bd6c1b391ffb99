"""What the Slurm plugin of Snakemake leaves open, seen in its version 2.8.0.

While slurmctld does not answer, all queries of a status check fail, after which `check_active_jobs`
of the plugin yields no job: Snakemake forgets those that run, and waits for ever. `sbatch` fails
then, too, and uses up the tries of jobs that never began. A job that slurmctld has forgotten (it
lost its state, or `MinJobAge` passed between two checks) is taken to be on its way, for ever. Of a
job that took more memory than it asked for, only its own log says so.

A controller that is there and does not answer is given up after the plugin's own limits (10 s for
its configuration, 60 s for the jobs) and those below.
"""

import asyncio
import getpass
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

from pike_mixing.errors import InputError

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


def patch_slurm_executor(  # noqa: C901 - the methods of one class
    executor: type[Any], check_before_submitting: Callable[[], None]
) -> type[Any]:
    """The plugin's executor, made to keep jobs, wait for the controller, and tell of memory.

    It begins only where Slurm's commands are and jobs may be submitted (where not,
    `check_before_submitting` raises an InputError), and ends by Ctrl-C. All that it overrides is
    the interface of executors.
    """

    class Mended(executor):  # type: ignore[misc]
        _ended: frozenset[str] = frozenset()
        """Jobs that the check at work has reported."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            self._cancelled = threading.Event()
            super().__init__(*arguments, **named)

        def __post_init__(self) -> None:
            if shutil.which("scontrol") is None:
                raise WorkflowError(
                    "scontrol is not found: start the workflow where Slurm's commands are, such as "
                    "on the cluster's login node, or use this machine alone: --profile "
                    "workflow/profiles/default"
                )
            try:
                check_before_submitting()
            except InputError as mistake:
                raise WorkflowError(str(mistake)) from None
            super().__post_init__()

        def run_job(self, job: Any) -> None:
            await_controller_up_to_hour(self.logger, self._cancelled)
            if not self._cancelled.is_set():
                super().run_job(job)

        def cancel(self) -> None:
            """Cancels all jobs at Ctrl-C; a thread of the plugin may wait to submit one."""
            self._cancelled.set()
            super().cancel()

        async def sleep(self) -> None:
            """Waits for the next status check, which may be minutes away, or for the end."""
            end = time.monotonic() + self.next_seconds_between_status_checks
            while self.wait and time.monotonic() < end:
                await asyncio.sleep(min(1.0, self.next_seconds_between_status_checks))

        async def check_active_jobs(self, active_jobs: list[Any]) -> AsyncIterator[Any]:
            """Yields whatever has not ended; jobs that Slurm has forgotten have failed."""
            self._ended, kept = frozenset(), set[str]()
            words = ["squeue", "--noheader", "--states=all", "--format=%i", "--user"]
            answer = await asyncio.to_thread(_run_slurm_program, *words, getpass.getuser())
            listed = None if answer.returncode else answer.stdout.split()
            async for job in super().check_active_jobs(active_jobs):
                number = job.external_jobid
                if listed is not None and number not in listed and _is_unknown_job(number):
                    told = f"Slurm has forgotten job {number}, which counts as failed. "
                    self.report_job_error(job, msg=told)
                else:
                    kept.add(number)
                    yield job
            left = [job for job in active_jobs if job.external_jobid not in kept | self._ended]
            if left:
                self.logger.warning("Slurm says nothing of the jobs: they are taken to go on")
            for job in left:
                yield job

        def report_job_success(self, job_info: Any) -> None:
            self._ended |= {job_info.external_jobid}
            super().report_job_success(job_info)

        def report_job_error(self, job_info: Any, msg: str | None = None, **others: Any) -> None:
            number = job_info.external_jobid
            self._ended |= {number}
            logs = filter(Path.is_file, map(Path, others.get("aux_logs") or ()))
            # Slurm writes at the end of a log why it ended the job.
            tails = [log.read_text(encoding="utf-8", errors="replace")[-4000:] for log in logs]
            if any(sign in text for sign in MEMORY_SIGNS for text in (msg or "", *tails)):
                self.logger.error(
                    f"Slurm ended job {number} because it took more memory than it asked for: a "
                    "`mem_mb` of your own is not raised at the next try; without one, it is"
                )
            super().report_job_error(job_info, msg=msg, **others)

    return Mended


def _is_unknown_job(job: str) -> bool:
    """Whether the controller answers that there is no such job."""
    return "Invalid job id" in _run_slurm_program("scontrol", "show", "job", job).stderr


def _run_slurm_program(*words: str) -> subprocess.CompletedProcess[str]:
    """The answer of a program of Slurm's, which has some time for it."""
    # In the foreground, Ctrl-C reaches the question, too.
    command = ["timeout", "--foreground", str(ANSWER_SECONDS), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def await_controller_up_to_hour(logger: Any, cancelled: threading.Event) -> None:
    """Waits while no slurmctld answers `scontrol ping`, an hour at most.

    It says once that it waits, and ends when the user ends the workflow (`cancelled`).
    """
    end, told = time.monotonic() + PATIENCE_SECONDS, False
    # A ping of one that is there and does not answer takes seconds, too.
    while not cancelled.is_set() and _run_slurm_program("scontrol", "ping").returncode:
        if time.monotonic() > end:
            break
        if not told:
            logger.warning("Slurm's controller does not answer: waiting to submit")
        told = True
        cancelled.wait(ASK_SECONDS)
