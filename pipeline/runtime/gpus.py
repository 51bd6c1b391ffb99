"""One GPU for each process of a machine with several: the first that no other of ours holds.

A scheduler such as Slurm shows each job its own GPUs; with one visible there is nothing to choose.
Where several are visible, a process takes one by locking its file and shows itself no other. The
system frees the lock when the process ends, however it ends, so that no two processes ever hold
the same and none is lost to a killed one.
"""

import contextlib
import logging
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO

from pike_mixing.errors import InputError
from pipeline.runtime import file_locks

log = logging.getLogger("pike")

VISIBLE = "CUDA_VISIBLE_DEVICES"
WAIT_SECONDS = 2.0

_held: list[IO[bytes]] = []
"""The lock of this process: open as long as it lives."""


def visible() -> list[str]:
    """GPUs that this process may use, as the environment names them; else by the driver's UUIDs."""
    given = os.environ.get(VISIBLE)
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    return [*_uuids().values()]


def _uuids() -> dict[str, str]:
    """UUIDs of this machine's GPUs by their numbers; none without the driver's program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = [program, "--query-gpu=index,uuid", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    # It may print warnings, too.
    found = re.findall(r"^(\d+), (GPU-\S+)$", done.stdout, re.MULTILINE)
    return dict(found) if done.returncode == 0 else {}


def claim_gpu(folder: Path | None = None) -> str | None:
    """Takes a free one of several GPUs for this process, and waits for one where all are held.

    It must come before CUDA is first asked for anything: CUDA reads its environment once. The locks
    lie in `folder`, or below the machine's folder for temporary files.

    Returns:
        The GPU; None where there are not several, or one is held already.

    Raises:
        InputError: more processes were started together than there are GPUs; they would wait for
            each other for ever; or the folder of the locks is another user's.
    """
    names = visible()
    if _held or len(names) < 2:
        return None
    together = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if together > len(names):
        raise InputError(
            f"{together} processes were started here (LOCAL_WORLD_SIZE) for {len(names)} visible "
            f"GPUs: start torchrun with --nproc-per-node {len(names)}, or with --device cpu"
        )
    folder = folder or Path(tempfile.gettempdir(), f"pike-gpus-{os.getuid()}")
    _make(folder)
    told = False
    # Another process may be told of the same by the driver.
    uuids = _uuids() if any(name.isdigit() for name in names) else {}
    while True:
        for name in names:
            path = folder / f"{uuids.get(name, name).replace('/', '-')}.lock"
            if file := file_locks.lock(path):
                _held.append(file)
                os.environ[VISIBLE] = name
                return name
        if not told:
            log.info("all %d GPUs are taken by other runs; waiting for one", len(names))
            told = True
        time.sleep(WAIT_SECONDS)


def _make(folder: Path) -> None:
    """Makes the folder of the locks, in which nobody else may put a file or a link."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    result = folder.lstat()
    ours = stat.S_ISDIR(result.st_mode) and result.st_uid == os.getuid()
    if not ours or result.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(
            f"{folder}, where the locks of GPUs lie, is no folder that this user alone may write: "
            "have its owner remove it, or set TMPDIR to a folder of your own"
        )
