"""Runs a script of torchtitan on the CPU, which torchtitan takes for no device.

    python titan_on_cpu.py SCRIPT ARGUMENTS...

Only what asks for a GPU is replaced: the kind of device, the monitor of its memory, a barrier,
and what Gloo lacks.
"""

import runpy
import sys
import types

import torch

# It reads them when it is imported.
sys.argv = sys.argv[1:]
torch._utils._get_available_device_type = lambda: "cpu"

from torchtitan.components import metrics  # noqa: E402
from torchtitan.distributed import utils  # noqa: E402
from torchtitan.models.llama3.infra import parallelize  # noqa: E402

peak = metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)
monitor = types.SimpleNamespace(
    device_name="A100", get_peak_stats=lambda: peak, reset_peak_stats=lambda: None
)
metrics.build_device_memory_monitor = lambda: monitor
# Its barrier names a GPU.
utils.set_pg_timeouts = lambda **_: None
# Gloo adds up, but does not multiply as it does.
plain_sums = parallelize.disable_fsdp_gradient_division


def disable_division(model):
    plain_sums(model)
    for module in model.modules():
        if hasattr(module, "set_force_sum_reduction_for_comms"):
            module.set_force_sum_reduction_for_comms(True)


parallelize.disable_fsdp_gradient_division = disable_division

if __name__ == "__main__":
    runpy.run_path(sys.argv[0], run_name="__main__")
