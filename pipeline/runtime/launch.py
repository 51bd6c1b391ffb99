"""torchrun in this process's place: one command for a run, on however many devices."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

PATIENCE = 600
"""Seconds that processes have for their last checkpoint, of torchrun's own 30 otherwise."""


def under_torchrun() -> bool:
    """Whether this process is one that torchrun started."""
    return "LOCAL_WORLD_SIZE" in os.environ


def exec_torchrun(processes: int, arguments: Sequence[str], save_on: str, threads: int) -> NoReturn:
    """Becomes torchrun, which starts so many processes with the same arguments.

    It hands SIGTERM and SIGINT on to them, and fails when they ended by it. The signal that asks
    for a checkpoint would end it: it ignores that, which batch systems send to all processes.

    Args:
        processes: How many.
        arguments: Those of `python -m pipeline`.
        save_on: Signal that asks for a checkpoint: USR1 or USR2.
        threads: CPU threads of each process.
    """
    signal.signal(signal.Signals[f"SIG{save_on}"], signal.SIG_IGN)
    # Both are the user's to set.
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(PATIENCE))
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    os.execv(sys.executable, [sys.executable, *launcher, "-m", "pipeline", *arguments])
