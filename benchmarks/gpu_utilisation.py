"""How near a GPU's own matrix products a training step comes, at the paper's sizes.

    python -m benchmarks.gpu_utilisation [--sizes 110M-32K 750M-32K 1B-250K] [--steps 10]
                                         [--device cuda]

A step is the paper's (Table `tab:hyperparameters`): 256 rows of 1024 tokens, in bfloat16, with
compiled blocks, as `pike pretrain` takes it. The peak is what the same card does in products of
large bfloat16 matrices, before and after the steps of each size; the best of all counts.
Utilisation is model FLOPs (`training.step_log`) over that. Steps are timed by the clock, from one
wait for the device to the next. Record: benchmarks/results/gpu_utilisation.json.
"""

import statistics
from typing import Any

import torch

from benchmarks import measure
from benchmarks.steps import Size
from benchmarks.training import step_of_ours
from pipeline import settings
from pipeline.model.transformer import initial_model, trainable_parameter_count
from pipeline.runtime import devices, pick_device
from pipeline.training import step_log

PAPER_STEPS = 120_000
_SMALL, _LARGE = settings.Model(12, 768, 12, 64), settings.Model(36, 1280, 20, 64)
# Ascending, since a card tells the most memory that was held so far.
SIZES = {
    "nano": (Size(settings.Model(2, 64, 2, 32), 2048, 8, 64, 0), 4),
    "110M-32K": (Size(_SMALL, 32_128, 256, 1024, 0), 32),
    "750M-32K": (Size(_LARGE, 32_128, 256, 1024, 0), 16),
    "1B-250K": (Size(_LARGE, 250_112, 256, 1024, 0), 16),
}
"""With the rows of a backward pass."""


def main() -> None:
    options: dict[str, Any] = {"sizes": list(SIZES)[1:], "steps": 10, "device": "cuda"}
    options["eager"] = {"action": "store_true", "help": "without compiling"}
    chosen = measure.arguments(__doc__, "gpu_utilisation", **options, side=8192)
    device, result = pick_device.claim_device(chosen.device), {}
    for name in chosen.sizes:
        size, microbatch = SIZES[name]
        peaks = [matrix_peak(device, chosen.side)]
        row = measured(size, microbatch, device, chosen.steps, compiled=not chosen.eager)
        peaks.append(matrix_peak(device, chosen.side))
        row["matrix_flops_per_second"] = max(peaks)
        result[name] = row
    best = max(row["matrix_flops_per_second"] for row in result.values())
    for row in result.values():
        row["utilisation"] = row["model_flops_per_second"] / best
    print(measure.table(str(device), result))
    sizes = {name: SIZES[name][0].described() for name in result}
    how = {"device": devices.describe_device(device), "compiled": not chosen.eager}
    measure.record(chosen, {"steps": result, "sizes": sizes, **how}, ("steps", "sizes"))


def matrix_peak(device: torch.device, side: int, times: int = 20) -> float:
    """FLOP/s of products of square bfloat16 matrices."""
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))

    def multiply(count: int) -> None:
        for _ in range(count):
            a @ b
        devices.synchronize(device)

    multiply(3)
    return 2.0 * side**3 * times / measure.timed(lambda: multiply(times)).clock


def measured(
    size: Size, microbatch: int, device: torch.device, steps: int, *, compiled: bool
) -> dict[str, Any]:
    """What a step of Mix takes."""
    how = {"microbatch_rows": microbatch, "precision": "bfloat16", "compile": compiled}
    recipe = measure.steady(size.rows, size.length, 7e-4, **how)
    net = initial_model(size.model, size.vocabulary, 0)
    step = step_of_ours(net, recipe, microbatch, device)
    tokens_BxL1 = size.tokens()

    def settled() -> None:
        step(tokens_BxL1)
        devices.synchronize(device)

    # The first two compile and warm up.
    seconds = [measure.timed(settled).clock for _ in range(steps + 2)][2:]
    median, tokens = statistics.median(seconds), size.rows * size.length
    flops = step_log.model_flops_per_token(net, size.model, size.length) * tokens
    return {
        "parameters": trainable_parameter_count(net),
        "milliseconds": 1e3 * median,
        "tokens_per_second": tokens / median,
        "model_flops_per_second": flops / median,
        "peak_memory_bytes": devices.peak_device_or_process_bytes(device),
        "hours_of_the_papers_steps": median * PAPER_STEPS / 3600,
    }


if __name__ == "__main__":
    main()
