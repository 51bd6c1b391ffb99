"""What is done differently on a CPU, a GPU and XLA's devices: waiting, copying, memory, bits."""

import ctypes
import os
import platform
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pipeline.runtime import xla_chips


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


def is_xla(device: torch.device) -> bool:
    """Whether a device is XLA's, which compiles whatever it runs.

    There, calls record a program, which is compiled for the shapes of its tensors and the numbers
    in it, and run when it is started or when a number is read from it. So that no program is
    compiled at every step, shapes must not change, and numbers that do must be tensors.
    """
    return device.type == "xla"


def mark_step(device: torch.device) -> None:
    """Has a device that compiles run what was recorded for it; others have begun already."""
    if is_xla(device):
        xla_chips.import_xla().sync()


def without_gradients(device: torch.device) -> AbstractContextManager[object]:
    """A block whose tensors never get gradients; torch_xla lacks torch's quickest way."""
    return torch.inference_mode() if not is_xla(device) else torch.no_grad()


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
    if not is_xla(device):
        return value
    # A tensor without dimensions would be taken for a plain number if it is 0 or 1, and for one and
    # the same datum as another of its value.
    return torch.tensor([value], dtype=torch.float64).to(device)[0]


def activation_checkpoint(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """A function's value, whose intermediate results the backward pass computes again.

    The first of its inputs is a tensor on the device.
    """
    if is_xla(inputs[0].device):
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
    return torch.device("cpu") if is_xla(device) else device


def copy_to_device(host_tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU's memory on a device; the copy to a GPU waits for nothing done there."""
    if device.type == "cuda":
        return host_tensor.pin_memory().to(device, non_blocking=True)
    return host_tensor.to(device)


def gpu_memory_bytes(device: torch.device) -> int:
    """Bytes that a GPU has; 0 of any other device."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0


def peak_device_or_process_bytes(device: torch.device) -> int:
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


def use_torch_compile_cache() -> None:
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
