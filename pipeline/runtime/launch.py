"""torchrun in this process's place: one command for a run, on however many devices and nodes."""

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from pike_mixing.errors import InputError
from pipeline.runtime import signal_handler

PATIENCE = 600
"""Seconds that processes have for their last checkpoint, of torchrun's own 30 otherwise."""
RENDEZVOUS = "PIKE_RENDEZVOUS"
"""Variable by which the process of each node knows where all of them meet: HOST:PORT."""


def is_under_torchrun() -> bool:
    """Whether this process is one that torchrun started."""
    return "LOCAL_WORLD_SIZE" in os.environ


def is_under_torchrun_or_own_srun() -> bool:
    """Whether this process was started to be one of several that train a run."""
    return is_under_torchrun() or RENDEZVOUS in os.environ


def refuse_several_xla_nodes(nodes: int, device: str) -> None:
    """Refuses several nodes for XLA's kind of device: a run takes the chips of one host."""
    if nodes > 1 and device == "xla":
        raise InputError(
            f"device xla trains on one node, and nodes: {nodes} was asked for (--nodes, or `nodes` "
            "under set-resources of pretrain): leave it out"
        )


def exec_torchrun(
    total_processes: int,
    arguments: Sequence[str],
    ignored_signal: str,
    threads: int,
    nodes: int = 1,
) -> NoReturn:
    """Becomes torchrun, which starts so many processes of `python -m pipeline` with the arguments.

    It hands SIGTERM and SIGINT on to them, and ends as they do. The `ignored_signal` (USR1 or USR2)
    asks for a checkpoint and would end it; batch systems send it to all processes. On several nodes
    of a Slurm job, which share the processes, it first becomes srun, which calls the same command
    on each of them. `threads` are CPU threads of each process.

    Raises:
        InputError: the nodes cannot share the processes evenly, or are not there.
    """
    if total_processes % nodes:
        raise InputError(
            f"{nodes} nodes cannot share {total_processes} processes evenly (--nodes, --processes; "
            "`nodes` and `processes` under set-resources of pretrain)"
        )
    signal.signal(signal.Signals[f"SIG{ignored_signal}"], signal.SIG_IGN)
    if nodes > 1 and RENDEZVOUS not in os.environ:
        _exec_srun(nodes, arguments)
    # Both are the user's to set.
    ours = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(PATIENCE), "OMP_NUM_THREADS": str(threads)}
    launcher = ["-m", __name__, "--nproc-per-node", str(total_processes // nodes)]
    if nodes == 1:
        launcher.append("--standalone")
    else:
        launcher += ["--nnodes", str(nodes), "--rdzv-backend", "c10d"]
        launcher += ["--rdzv-endpoint", os.environ[RENDEZVOUS]]
        launcher += ["--rdzv-id", os.environ["SLURM_JOB_ID"]]
    # It would leave a folder for logs that nobody writes.
    launcher += ["--log-dir", os.devnull]
    words = [sys.executable, *launcher, "-m", "pipeline", *arguments]
    os.execvpe(sys.executable, words, {**ours, **os.environ})


def _exec_srun(nodes: int, arguments: Sequence[str]) -> NoReturn:
    """Becomes srun, which calls the same command once on each node of this job."""
    job = os.environ.get("SLURM_JOB_ID")
    hosts = _slurm_hosts(job) if job else [socket.gethostname()]
    if len(hosts) != nodes:
        raise InputError(
            f"{nodes} nodes were asked for (--nodes, or `nodes` under set-resources of pretrain), "
            f"and {f'Slurm job {job} has' if job else 'without Slurm there is'} {len(hosts)}"
        )
    with socket.socket() as free:
        free.bind(("", 0))
        # A job's script runs on its first node.
        meeting = f"{socket.gethostname()}:{free.getsockname()[1]}"
    step = ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    step += ["--cpu-bind=none", "--kill-on-bad-exit=1"]
    words = [*step, sys.executable, "-m", "pipeline", *arguments]
    os.execvpe("srun", words, {**os.environ, RENDEZVOUS: meeting})


def _slurm_hosts(job: str) -> list[str]:
    """Names of the nodes of a Slurm job."""
    nodes = _command_output_or_raise("squeue", "--noheader", "--jobs", job, "--format", "%N")
    return _command_output_or_raise("scontrol", "show", "hostnames", nodes).split()


def _command_output_or_raise(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    """torchrun; a process that has said why it ended gives it its exit code."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import api, errors

    # It says of each process that it failed.
    api.logger.setLevel(logging.CRITICAL)
    try:
        run.main()
    except api.SignalException:
        return signal_handler.STOPPED
    except errors.ChildFailedError as failed:
        # The others end with 1, or are killed.
        if (code := max(one.exitcode for one in failed.failures.values())) > 1:
            return code
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
