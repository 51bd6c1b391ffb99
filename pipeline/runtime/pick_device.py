"""Which device a job runs on: of the kind that was asked for, and a GPU that nobody else has.

A scheduler such as Slurm shows each job its own GPUs; with one visible there is nothing to choose.
Where several are visible, a process takes one by locking its file and shows itself no other. The
system frees the lock when the process ends, however it ends, so that no two processes ever hold
the same and none is lost to a killed one.
"""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

import torch

from pike_mixing.errors import InputError
from pipeline.runtime import devices, locks, xla_chips
from pipeline.runtime.accelerators import Accelerator, accelerator_of_name
from pipeline.settings import DEVICES

log = logging.getLogger("pike")

VISIBLE = "CUDA_VISIBLE_DEVICES"
WAIT_SECONDS = 2.0
LEAST_SHARE = 0.9
"""Of the memory as sold that a GPU of the planned kind shows: the driver keeps some of it."""

_held: list[IO[bytes]] = []
"""The lock of this process: open as long as it lives."""


def visible_gpus() -> list[str]:
    """GPUs that this process may use, as the environment names them; else by the driver's UUIDs."""
    given = os.environ.get(VISIBLE)
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    return [*_gpu_uuids().values()]


def _gpu_uuids() -> dict[str, str]:
    """UUIDs of this machine's GPUs by their numbers; none without the driver's program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = [program, "--query-gpu=index,uuid", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    # It may print warnings, too.
    found = re.findall(r"^(\d+), (GPU-\S+)$", done.stdout, re.MULTILINE)
    return dict(found) if done.returncode == 0 else {}


def claim_gpu_if_several() -> str | None:
    """Takes a free one of several GPUs for this process, and waits for one where all are held.

    It must come before CUDA is first asked for anything: CUDA reads its environment once. The locks
    lie below the machine's folder for temporary files. None where there are not several, or one is
    held already.

    Raises:
        InputError: more processes were started together than there are GPUs; they would wait for
            each other for ever.
    """
    names = visible_gpus()
    if _held or len(names) < 2:
        return None
    together = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if together > len(names):
        raise InputError(
            f"{together} processes were started here (LOCAL_WORLD_SIZE) for {len(names)} visible "
            f"GPUs: start torchrun with --nproc-per-node {len(names)}, or with --device cpu"
        )
    folder = Path(tempfile.gettempdir(), f"pike-gpus-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    told = False
    # Another process may be told of the same by the driver.
    uuids = _gpu_uuids() if any(name.isdigit() for name in names) else {}
    while True:
        for name in names:
            path = folder / f"{uuids.get(name, name).replace('/', '-')}.lock"
            if file := locks.try_lock(path):
                _held.append(file)
                os.environ[VISIBLE] = name
                return name
        if not told:
            log.info("all %d GPUs are taken by other runs; waiting for one", len(names))
            told = True
        time.sleep(WAIT_SECONDS)


def claim_device(kind: str) -> torch.device:
    """The device of a kind; `auto` takes a GPU where there is one, a free one of several."""
    if kind not in DEVICES:
        raise InputError(f"device {kind!r} is unknown: choose one of {', '.join(DEVICES)}")
    if kind == "xla":
        return _set_up_xla_device()
    if kind in ("auto", "cuda"):
        claim_gpu_if_several()
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "device 'cuda' was asked for, but torch sees no GPU: "
            "use device: cpu in the profile, or install torch's CUDA build (make setup TORCH=cuda)"
        )
    return torch.device(kind)


def _set_up_xla_device() -> torch.device:
    # Without a word of the user's, torch_xla takes the CPU where it finds no TPU, and says so in
    # a warning.
    wanted = os.environ.setdefault("PJRT_DEVICE", "TPU")
    try:
        library = xla_chips.import_xla()
    except ImportError as error:
        raise InputError(
            f"device 'xla' was asked for, but torch_xla cannot be imported by {sys.executable} "
            f"({error}): make its environment (make setup-tpu) and have the profile name its "
            "interpreter (set-resources: pretrain: python: .venv-tpu/bin/python)"
        ) from None
    absent = (
        f"device 'xla' was asked for, but this machine has no {wanted}, which PJRT_DEVICE names "
        "(TPU where it names none): use another device, or set PJRT_DEVICE=CPU in the environment "
        "to try XLA on the CPU"
    )
    if wanted == "TPU":
        # The TPU's library would look for one in the network for minutes.
        if not xla_chips.import_xla("._internal.tpu").num_available_chips():
            raise InputError(absent)
        xla_chips.refuse_slice_of_hosts()
    try:
        xla_chips.use_all_chips()
        device: torch.device = library.device()
    except RuntimeError as error:
        raise InputError(f"{absent} ({str(error).strip().splitlines()[0]})") from None
    # Else a TPU multiplies float32 as if it were bfloat16. Of setting this twice it warns.
    backends = xla_chips.import_xla(".backends")
    logging.getLogger(backends.__name__).setLevel(logging.ERROR)
    backends.set_mat_mul_precision("highest")
    return device


def claim_gpu_and_warn_of_other(accelerator: str, device: str) -> None:
    """Claims a GPU, if one was planned for, and logs a line where it is of another kind.

    A cluster may give another. The process holds its GPU from then on.
    """
    planned = accelerator_of_name(accelerator, "--accelerator")
    if planned.device == device == "cuda":
        place = claim_device(device)
        name = devices.describe_device(place).removeprefix("cuda: ")
        memory_bytes = devices.gpu_memory_bytes(place)
        if is_other_gpu(planned, name, memory_bytes):
            log.warning(
                "planned for accelerator: %s, and this GPU is %s with %.0f GiB: its memory and the "
                "time limits may not suit; set `accelerator` of the profile to its kind, or have "
                "Slurm give the other (`gpu_model` or `constraint`)",
                *(accelerator, name, memory_bytes / 2**30),
            )


def is_other_gpu(planned: Accelerator, gpu_name: str, memory_bytes: int) -> bool:
    """Whether a GPU is of another model than was planned for, or has clearly less memory.

    `gpu_name` is the driver's, such as "NVIDIA A100-SXM4-40GB".
    """
    model = planned.name.partition("-")[0]
    is_model = model in re.findall(r"[a-z0-9]+", gpu_name.lower())
    return not is_model or memory_bytes < LEAST_SHARE * planned.memory_bytes
