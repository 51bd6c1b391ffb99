"""What the Slurm plugin of Snakemake leaves open, seen in its version 2.8.0.

While slurmctld does not answer, all queries of a status check fail, after which `check_active_jobs`
of the plugin yields no job: Snakemake forgets those that run, and waits for ever. `sbatch` fails
then, too, and uses up the tries of jobs that never began.
"""

import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

ASK_SECONDS, PATIENCE_SECONDS = 5.0, 3600.0
"""Between two questions whether the controller is back, and for how long they are asked."""

SUBMITTED = re.compile(r"has been submitted with SLURM jobid (\S+) \(log: (.+)\)\.$", re.MULTILINE)
MEMORY = re.compile(r"exceeded \w+ memory limit|exceeded memory limit|oom[-_ ]?kill", re.IGNORECASE)
ASKED = re.compile(r"\bmem_mb=(\d+)")


def ignore_checkpoint_signals() -> None:
    """Has this process ignore the signals at which a training saves (`signal_handler.SAVES`).

    Slurm sends them to all processes of a job: the Snakemake in it would end by them, and the job
    with it. What it starts ignores them too, but for trainings. Signals are the main thread's.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)


def wait_while_controller_is_down(plugin: Any) -> None:
    """Has the plugin keep the jobs that it cannot ask about, and submit once it is answered.

    Args:
        plugin: `snakemake_executor_plugin_slurm`.
    """
    query, run_job = plugin.query_job_status, plugin.Executor.run_job

    async def asked(command: str, logger: Any) -> tuple[dict[str, str], float]:
        found, seconds = await query(command, logger)
        if found is None:
            logger.warning("Slurm says nothing of the jobs: they are taken to go on")
        # A job of which an answer says nothing stays as it is.
        return found or {}, seconds or 0.0

    def submitted(self: Any, job: Any) -> None:
        await_controller(self.logger)
        run_job(self, job)

    plugin.query_job_status, plugin.Executor.run_job = asked, submitted


def await_controller(logger: Any) -> None:
    """Waits while no slurmctld answers `scontrol ping`, for an hour at most."""
    for asked in range(int(PATIENCE_SECONDS / ASK_SECONDS)):
        if not subprocess.run(["scontrol", "ping"], capture_output=True, check=False).returncode:
            return
        if not asked:
            logger.warning("Slurm's controller does not answer: waiting to submit")
        time.sleep(ASK_SECONDS)


def killed_for_memory(log: str) -> list[str]:
    """What to say of the jobs whose last try Slurm ended for its memory: one line for each.

    Args:
        log: The workflow's own log. The plugin deletes the logs of jobs that ended well.
    """
    last = {Path(path).parent: (number, Path(path)) for number, path in SUBMITTED.findall(log)}
    lines = []
    for folder, (number, path) in last.items():
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        status = f"SLURM-job '{number}' failed, SLURM status is: 'OUT_OF_MEMORY'"
        if MEMORY.search(text) or status in log:
            asked = ASKED.search(text)
            limit = f"the {asked[1]} MB that it had asked for" if asked else "it had asked for"
            rule = folder.parent.name.removeprefix("rule_")
            lines.append(
                f"Slurm ended job {number} ({rule} {folder.name}) because it took more memory than "
                f"{limit}: raise mem_mb of {rule} under set-resources, or leave it out, with which "
                f"it is computed and grows with each try (log: {path})"
            )
    return lines
