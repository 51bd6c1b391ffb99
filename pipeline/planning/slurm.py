"""What the Slurm plugin of Snakemake leaves open, seen in its version 2.8.0.

While slurmctld does not answer, all queries of a status check fail, after which `check_active_jobs`
of the plugin yields no job: Snakemake forgets those that run, and waits for ever. `sbatch` fails
then, too, and uses up the tries of jobs that never began. Of a job that took more memory than it
asked for, only its own log says so.
"""

import importlib
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

ASK_SECONDS, PATIENCE_SECONDS = 5.0, 3600.0
"""Between two questions whether the controller is back, and for how long they are asked."""
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
    """Has the plugin keep jobs that it cannot ask about, wait to submit, and tell of memory."""
    plugin: Any = importlib.import_module("snakemake_executor_plugin_slurm")
    query, run_job = plugin.query_job_status, plugin.Executor.run_job
    report = plugin.Executor.report_job_error

    async def asked(command: str, logger: Any) -> tuple[dict[str, str], float]:
        found, seconds = await query(command, logger)
        if found is None:
            logger.warning("Slurm says nothing of the jobs: they are taken to go on")
        # A job of which an answer says nothing stays as it is.
        return found or {}, seconds or 0.0

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
    plugin.Executor.report_job_error = reported


def _end(log: str) -> str:
    """The last part of a job's log, where Slurm writes why it ended the job."""
    path = Path(log)
    return path.read_text(encoding="utf-8", errors="replace")[-4000:] if path.is_file() else ""


def await_controller(logger: Any) -> None:
    """Waits while no slurmctld answers `scontrol ping`, for an hour at most."""
    for asked in range(int(PATIENCE_SECONDS / ASK_SECONDS)):
        if not subprocess.run(["scontrol", "ping"], capture_output=True, check=False).returncode:
            return
        if not asked:
            logger.warning("Slurm's controller does not answer: waiting to submit")
        time.sleep(ASK_SECONDS)
