"""One GPU for each process of a machine with several: the first that no other of ours holds.

A scheduler such as Slurm shows each job its own GPUs; with one visible there is nothing to choose.
Where several are visible, a process takes one by locking its file and shows itself no other. The
system frees the lock when the process ends, however it ends, so that no two processes ever hold
the same and none is lost to a killed one.
"""

import fcntl
import getpass
import logging
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO

log = logging.getLogger("pike")

VISIBLE = "CUDA_VISIBLE_DEVICES"
WAIT_SECONDS = 2.0

_held: list[IO[str]] = []
"""The lock of this process: open as long as it lives."""


def visible() -> list[str]:
    """GPUs that this process may use, as the environment or else the driver names them."""
    named = os.environ.get(VISIBLE)
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=uuid", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def take(folder: Path | None = None) -> str | None:
    """Takes a free one of several GPUs for this process, and waits for one where all are held.

    It must come before CUDA is first asked for anything: CUDA reads its environment once.

    Args:
        folder: Where the locks lie; the machine's folder for temporary files when absent.

    Returns:
        The GPU; None where there are not several.
    """
    names = visible()
    if _held or len(names) < 2:
        return None
    folder = folder or Path(tempfile.gettempdir(), f"pike-gpus-{getpass.getuser()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    told = False
    while True:
        for name in names:
            file = (folder / f"{name.replace('/', '-')}.lock").open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            _held.append(file)
            os.environ[VISIBLE] = name
            return name
        if not told:
            log.info("all %d GPUs are taken by other runs; waiting for one", len(names))
            told = True
        time.sleep(WAIT_SECONDS)
