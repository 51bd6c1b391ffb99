"""Whether a job has the GPU that it was planned for: a cluster may give another kind.

No stage imports this module: what a job was planned for is not what it computes.
"""

import logging
import re

from pipeline.runtime import devices, pick_device
from pipeline.runtime.accelerators import Accelerator, accelerator_of_name

log = logging.getLogger("pike")

LEAST_SHARE = 0.9
"""Of the memory as sold: the driver keeps some of it."""


def warn_of_other_gpu(accelerator: str, device: str) -> None:
    """Logs a line where the GPU of this process is another than the one that was planned for.

    The process holds that GPU from then on.

    Args:
        accelerator: The kind of device that was planned for (`accelerators.ACCELERATORS`).
        device: The kind of device that the stage asks for.

    Raises:
        InputError: the accelerator is unknown, or there is no GPU.
    """
    planned = accelerator_of_name(accelerator, "--accelerator")
    if planned.device == device == "cuda":
        place = pick_device.pick_device(device)
        name = devices.describe_device(place).removeprefix("cuda: ")
        memory = devices.gpu_memory_bytes(place)
        if is_other_gpu(planned, name, memory):
            log.warning(
                "planned for accelerator: %s, and this GPU is %s with %.0f GiB: its memory and the "
                "time limits may not suit; set `accelerator` of the profile to its kind, or have "
                "Slurm give the other (`gpu_model` or `constraint`)",
                accelerator,
                name,
                memory / 2**30,
            )


def is_other_gpu(planned: Accelerator, gpu_name: str, memory_bytes: int) -> bool:
    """Whether a GPU is of another model, or has clearly less memory.

    Args:
        planned: The kind that was planned for.
        gpu_name: The driver's name of the GPU, such as "NVIDIA A100-SXM4-40GB".
        memory_bytes: Its bytes.
    """
    model = planned.name.partition("-")[0]
    is_model = model in re.findall(r"[a-z0-9]+", gpu_name.lower())
    return not is_model or memory_bytes < LEAST_SHARE * planned.memory_bytes
