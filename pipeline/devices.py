"""Where tensors live: the only place that knows one kind of device from another."""

import ctypes
import os
import platform
import resource
from pathlib import Path

import torch

from pipeline import gpus
from pipeline.errors import InputError

KINDS = ("auto", "cpu", "cuda")


def pick(kind: str) -> torch.device:
    """The device of a kind; `auto` takes a GPU where there is one, a free one of several.

    Raises:
        InputError: the kind is unknown, or this machine has none of it.
    """
    if kind not in KINDS:
        raise InputError(f"device {kind!r} is unknown: choose one of {', '.join(KINDS)}")
    if kind in ("auto", "cuda"):
        gpus.take()
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "device 'cuda' was asked for, but torch sees no GPU: "
            "use device: cpu in the profile, or install torch's CUDA build (make setup TORCH=cuda)"
        )
    return torch.device(kind)


def described(device: torch.device) -> str:
    """A device's name for records: "cpu: x86_64, 1 thread", "cuda: NVIDIA H200"."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    threads = torch.get_num_threads()
    return f"cpu: {platform.machine()}, {threads} thread{'s' if threads > 1 else ''}"


def set_threads(threads: int) -> None:
    """Limits the CPU threads of one process; results' last bits depend on their number."""
    torch.set_num_threads(threads)


def settle(device: torch.device) -> None:
    """Waits until a device has done all that it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_memory(device: torch.device) -> int:
    """Bytes: the most that tensors held on a GPU so far, or the process in the CPU's memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
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


def keep_compilations() -> None:
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
