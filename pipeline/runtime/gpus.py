"""One GPU for each process of a machine with several: the first that no other of ours holds.

A scheduler such as Slurm shows each job its own GPUs; with one visible there is nothing to choose.
Where several are visible, a process takes one by locking its file and shows itself no other. The
system frees the lock when the process ends, however it ends, so that no two processes ever hold
the same and none is lost to a killed one.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, NamedTuple

from pike_mixing.errors import InputError
from pipeline.runtime import ownership

log = logging.getLogger("pike")

VISIBLE = "CUDA_VISIBLE_DEVICES"
WAIT_SECONDS = 2.0

_held: list[IO[bytes]] = []
"""The lock of this process: open as long as it lives."""


class _Gpu(NamedTuple):
    """One of the machine, as the driver tells it."""

    number: str
    uuid: str
    model: str


def visible() -> list[str]:
    """GPUs that this process may use, by UUID where the driver knows them.

    One process may be given by number what another is given by UUID: their locks must be the same.
    Where models differ, CUDA counts the fastest first and the driver does not, unless
    CUDA_DEVICE_ORDER is PCI_BUS_ID; numbers then stay numbers.
    """
    given = os.environ.get(VISIBLE)
    if given is None:
        return [gpu.uuid for gpu in _of_driver()]
    names = [name.strip() for name in given.split(",") if name.strip()]
    # A single one is not locked, so that its name does not matter.
    found = _of_driver() if len(names) > 1 else []
    alike = len({gpu.model for gpu in found}) == 1
    numbered = alike or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    by_number = {gpu.number: gpu.uuid for gpu in found if numbered}
    return [by_number.get(name) or _whole(name, found) for name in names]


def _of_driver() -> list[_Gpu]:
    """The machine's GPUs; none without a driver that answers."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return []
    rows = [line.split(",", 2) for line in done.stdout.splitlines()]
    return [_Gpu(*map(str.strip, row)) for row in rows if len(row) == 3]


def _whole(name: str, found: list[_Gpu]) -> str:
    """A name, or the UUID of which it is the beginning: CUDA takes both."""
    fitting = [gpu.uuid for gpu in found if gpu.uuid.startswith(name)]
    return fitting[0] if len(fitting) == 1 else name


def claim_gpu(folder: Path | None = None) -> str | None:
    """Takes a free one of several GPUs for this process, and waits for one where all are held.

    It must come before CUDA is first asked for anything: CUDA reads its environment once.

    Args:
        folder: Where the locks lie; the machine's folder for temporary files when absent.

    Returns:
        The GPU; None where there are not several.

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
    while True:
        for name in names:
            path = folder / f"{name.replace('/', '-')}.lock"
            file = open(path, "ab", opener=ownership.nofollow)  # noqa: SIM115 - held
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


def _make(folder: Path) -> None:
    """Makes the folder of the locks, in which nobody else may put a file or a link.

    Raises:
        InputError: it is there already and others can.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not ours or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(
            f"{folder}, where the locks of GPUs lie, is no folder that this user alone may write: "
            "have its owner remove it, or set TMPDIR to a folder of your own"
        )
