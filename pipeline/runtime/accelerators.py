"""What machines can do: peaks, memories, and how much of a peak training is assumed to reach.

One row per kind of device, named as profiles and `pike plan` name them. Peaks are dense (without
sparsity), memories as sold, both from the makers' data sheets. The utilisation is model FLOPs over
peak (MFU of Chowdhery et al. 2022, Appendix B): an assumption, checked against the paper's own
hours, in which 8 TPUv4 reach between 0.31 and 0.59 (Table `tab:trainig-overhead`).
"""

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pike_mixing.errors import InputError
from pike_mixing.setting_messages import unknown_name_message

if TYPE_CHECKING:
    from pipeline.settings import Model

GiB = 2**30


@dataclasses.dataclass(frozen=True)
class Accelerator:
    """One kind of device that trains."""

    name: str
    peak_flops: dict[str, float]
    """FLOP/s by precision of the products."""
    memory_bytes: int
    """Bytes that one device has; 0 where it is the host's."""
    utilisation: float
    """Share of the peak that training is assumed to reach."""
    step_seconds: float
    """Least time of one update: launches and bookkeeping, which small models wait for."""
    hours_of: str
    """What its hours are called on a bill."""
    most_together: int | None = None
    """Most of them that train a run together; None where no number is known."""

    @property
    def is_tpu(self) -> bool:
        """Whether it is a TPU, which compiles what it runs with XLA."""
        return self.hours_of == "TPU"

    @property
    def device(self) -> str:
        """The kind of torch's device that it is: cpu, cuda or xla."""
        return "xla" if self.is_tpu else "cuda" if self.memory_bytes else "cpu"


_ROWS = [
    # One core with AVX2 at 3 GHz: 8 float32 numbers x 2 units x 2 operations a cycle. Products of
    # small matrices reach a fifth to a third of it (measured on models of 0.2 to 3 M parameters).
    # bfloat16 is slower there than float32: nothing multiplies it.
    Accelerator("cpu", {"float32": 96e9, "bfloat16": 48e9}, 0, 0.25, 0.01, "core"),
    # One core with AVX-512 at 3 GHz (16 numbers x 2 units x 2); bfloat16 as products of matrices
    # were measured with AVX512-BF16. Steps of models of 4 M parameters reach 0.45 of both, those of
    # 110 M more, the miniature's 0.2 and 0.1.
    Accelerator("cpu-bf16", {"float32": 192e9, "bfloat16": 480e9}, 0, 0.35, 0.01, "core"),
    # NVIDIA data sheets; float32 without TF32, as torch multiplies by default.
    Accelerator("a100-40gb", {"float32": 19.5e12, "bfloat16": 312e12}, 40 * GiB, 0.4, 0.02, "GPU"),
    Accelerator("a100-80gb", {"float32": 19.5e12, "bfloat16": 312e12}, 80 * GiB, 0.4, 0.02, "GPU"),
    Accelerator("h100", {"float32": 67e12, "bfloat16": 989e12}, 80 * GiB, 0.4, 0.02, "GPU"),
    Accelerator("h200", {"float32": 67e12, "bfloat16": 989e12}, 141 * GiB, 0.4, 0.02, "GPU"),
    # Jouppi et al. 2023 (arXiv 2304.01433), Table 4; a TPU multiplies in bfloat16 alone, and
    # float32 in six such products. A run takes one host (`xla_chips.refuse_several_hosts`).
    Accelerator("tpu-v4", {"float32": 46e12, "bfloat16": 275e12}, 32 * GiB, 0.4, 0.02, "TPU", 4),
    # Google Cloud's pages of the same names (cloud.google.com/tpu/docs/v5e, v5p, v6e).
    Accelerator("tpu-v5e", {"float32": 33e12, "bfloat16": 197e12}, 16 * GiB, 0.4, 0.02, "TPU", 8),
    Accelerator("tpu-v5p", {"float32": 76e12, "bfloat16": 459e12}, 95 * GiB, 0.4, 0.02, "TPU", 4),
    Accelerator("tpu-v6e", {"float32": 153e12, "bfloat16": 918e12}, 32 * GiB, 0.4, 0.02, "TPU", 8),
]

ACCELERATORS = {row.name: row for row in _ROWS}

BFLOAT16_FLAGS = ("amx_bf16", "avx512_bf16")
"""What Linux calls the units of a processor that multiply bfloat16."""
BFLOAT16_WIDTH = 100
"""Width of the smallest models that such a processor trains a quarter faster in bfloat16
(`benchmarks.precision`)."""


def bfloat16_cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Which of BFLOAT16_FLAGS this machine's processor has."""
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    return [flag for flag in BFLOAT16_FLAGS if re.search(rf"^flags\b.*\b{flag}\b", text, re.M)]


def accelerator_of_name(name: str, place: str = "accelerator") -> Accelerator:
    """The device of a name, which was set at `place`; an unknown one is refused."""
    if name not in ACCELERATORS:
        raise InputError(unknown_name_message(name, ACCELERATORS, place))
    return ACCELERATORS[name]


def refuse_too_many_devices(device: Accelerator, number: int, place: str) -> None:
    """Refuses more devices for one run than a host has; `place` asked for them, for the message."""
    if device.most_together and number > device.most_together:
        raise InputError(
            f"{place}: a run takes the chips of one host, and a host has at most "
            f"{device.most_together} {device.name}: ask for {device.most_together}"
        )


def can_keep_whole_gradient(parameters: int, memory_bytes: int) -> bool:
    """Whether each process keeps the whole gradient of a model in shards until a step's last pass.

    That makes one sum over the processes in a step, and not one in each pass, for 4 bytes a
    parameter; larger models than a quarter of the memory holds so are summed in each pass.
    `memory_bytes` is that of each device in bytes, and 0 where it is the host's.
    """
    return not memory_bytes or 4 * parameters <= memory_bytes / 4


def training_flops_per_token(matrix_weights: int, shape: "Model", length: int) -> float:
    """FLOPs of training on one token: 6 for each weight of a matrix, and attention's products.

    The embedding counts as the output layer; attention counts as if each token saw all of its row,
    as Chowdhery et al. 2022 (Appendix B) do. `length` are the tokens of a row.
    """
    return 6 * matrix_weights + 12 * shape.layers * shape.heads * shape.head_width * length
