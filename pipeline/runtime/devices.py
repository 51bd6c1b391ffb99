"""Where tensors live: the only place that knows one kind of device from another.

A scheduler such as Slurm shows each job its own GPUs; with one visible there is nothing to choose.
Where several are visible, a process takes one by locking its file and shows itself no other. The
system frees the lock when the process ends, however it ends, so that no two processes ever hold
the same and none is lost to a killed one.
"""

import contextlib
import ctypes
import logging
import os
import platform
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pike_mixing.errors import InputError
from pipeline.runtime import locks, xla_chips
from pipeline.settings import DEVICES

log = logging.getLogger("pike")

VISIBLE = "CUDA_VISIBLE_DEVICES"
WAIT_SECONDS = 2.0

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
    names = visible_gpus()
    if _held or len(names) < 2:
        return None
    together = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if together > len(names):
        raise InputError(
            f"{together} processes were started here (LOCAL_WORLD_SIZE) for {len(names)} visible "
            f"GPUs: start torchrun with --nproc-per-node {len(names)}, or with --device cpu"
        )
    folder = folder or Path(tempfile.gettempdir(), f"pike-gpus-{os.getuid()}")
    _make_lock_folder(folder)
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


def _make_lock_folder(folder: Path) -> None:
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


def pick_device(kind: str) -> torch.device:
    """The device of a kind; `auto` takes a GPU where there is one, a free one of several.

    Raises:
        InputError: the kind is unknown, or this machine has none of it.
    """
    if kind not in DEVICES:
        raise InputError(f"device {kind!r} is unknown: choose one of {', '.join(DEVICES)}")
    if kind == "xla":
        return _xla_device()
    if kind in ("auto", "cuda"):
        claim_gpu()
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "device 'cuda' was asked for, but torch sees no GPU: "
            "use device: cpu in the profile, or install torch's CUDA build (make setup TORCH=cuda)"
        )
    return torch.device(kind)


def _xla_device() -> torch.device:
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


def describe_device(device: torch.device) -> str:
    """A device's name for records: "cpu: x86_64, 1 thread", "cuda: NVIDIA H200", "xla: TPU x 4"."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    if device.type == "xla":
        several = f" x {xla_chips.chip_count(device)}" if xla_chips.chip_count(device) > 1 else ""
        return f"xla: {os.environ['PJRT_DEVICE']}{several}"
    threads = torch.get_num_threads()
    return f"cpu: {platform.machine()}, {threads} thread{'s' if threads > 1 else ''}"


def synchronize(device: torch.device) -> None:
    """Waits until a device has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    if device.type == "xla":
        mark_step(device)
        xla_chips.import_xla(".core.xla_model").wait_device_ops()


def compiles(device: torch.device) -> bool:
    """Whether a device compiles whatever it runs: XLA does.

    There, calls record a program, which is compiled for the shapes of its tensors and the numbers
    in it, and run when it is started or when a number is read from it. So that no program is
    compiled at every step, shapes must not change, and numbers that do must be tensors.
    """
    return device.type == "xla"


def mark_step(device: torch.device) -> None:
    """Has a device that compiles run what was recorded for it; others have begun already."""
    if compiles(device):
        xla_chips.import_xla().sync()


def without_gradients(device: torch.device) -> AbstractContextManager[object]:
    """A block whose tensors never get gradients; torch_xla lacks torch's quickest way."""
    return torch.inference_mode() if not compiles(device) else torch.no_grad()


def fetch_to_host(tensor: Tensor) -> Tensor:
    """A tensor in the CPU's memory, once the device has made it."""
    # What is read before it was started is computed for the reader alone, and then once more.
    xla_chips.replicate_on_chips(tensor)
    mark_step(tensor.device)
    return tensor.cpu()


def number_on_device(value: float, device: torch.device) -> float | Tensor:
    """A number that changes between steps, for a device to compute with: float64 where it compiles.

    There it is a datum, where a plain number would be part of the program.
    """
    if not compiles(device):
        return value
    # A tensor without dimensions would be taken for a plain number if it is 0 or 1, and for one and
    # the same datum as another of its value.
    return torch.tensor([value], dtype=torch.float64).to(device)[0]


def activation_checkpoint(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """A function's value, whose intermediate results the backward pass computes again.

    The first of its inputs is a tensor on the device.
    """
    if compiles(inputs[0].device):
        # XLA would find that it makes the same twice, and keep it, but for barriers.
        own = xla_chips.import_xla(".utils.checkpoint").checkpoint
        return cast("Tensor", own(function, *inputs, preserve_rng_state=False))
    return cast(
        "Tensor", checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=False)
    )


def batch_device(device: torch.device) -> torch.device:
    """Where a batch waits for its passes: on the device, or on the CPU where it compiles.

    To cut rows out of a batch at places that change would make programs that change.
    """
    return torch.device("cpu") if compiles(device) else device


def move_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU's memory on a device; the copy to a GPU waits for nothing done there."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def gpu_memory_bytes(device: torch.device) -> int:
    """Bytes that a GPU has; 0 of any other device."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0


def peak_memory_bytes(device: torch.device) -> int:
    """Bytes: the most that tensors held on a device so far, or the process in the CPU's memory.

    Of chips that work as one device nobody says what they hold: there, too, it is the process.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if (
        device.type == "xla"
        and os.environ["PJRT_DEVICE"] != "CPU"
        and xla_chips.chip_count(device) == 1
    ):
        result = xla_chips.import_xla(".core.xla_model").get_memory_info(device)
        return int(result["peak_bytes_used"])
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if platform.system() == "Darwin" else 1024 * held


def make_deterministic(device: torch.device) -> None:
    """Has a GPU make the same bits each time, from before its first product on; a CPU does so.

    torch then refuses what it cannot do in one order.
    """
    if device.type != "cuda":
        return
    # Without it cuBLAS may choose other algorithms in each stream; torch names this value.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # Every number is written before it is read: filling new memory first would only take time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def use_compilation_cache() -> None:
    """Has torch keep what it compiles in the user's cache, so that runs of one shape compile once.

    Its own choice is a folder for temporary files. `TORCHINDUCTOR_CACHE_DIR` beats both.
    """
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(caches / "pike" / "compiled"))


def keep_freed_memory() -> None:
    """Has the C library keep memory that a step frees, for the next step to take.

    glibc gives large blocks back to the kernel at once and takes them again, page fault by page
    fault: a fifth of a small model's step on a CPU. Other C libraries are left alone.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    library = ctypes.CDLL(None)
    library.mallopt(mmap_threshold, 32 << 20)
    library.mallopt(trim_threshold, 1 << 30)
    library.mallopt(top_pad, 64 << 20)
