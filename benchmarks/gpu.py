"""How near a GPU's own matrix products a training step comes, at the paper's sizes.

    python -m benchmarks.gpu [--sizes 110M-32K,750M-32K,1B-250K] [--steps 10] [--device cuda]

A step is the paper's (Table `tab:hyperparameters`): 256 rows of 1024 tokens, in bfloat16, with
compiled blocks, as `pike pretrain` takes it. The peak is what the same card does in products of
large bfloat16 matrices, measured before and after the steps of each size; the better of both
counts. Utilisation is model FLOPs (`training.throughput`) over that. Steps are timed by the clock,
from one wait for the device to the next; medians are reported, and how many hours the paper's
120,000 steps would take.
"""

import argparse
import dataclasses
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import machine
from benchmarks.recipe import steady
from pike_mixing import registry
from pipeline import settings
from pipeline.model import adamw
from pipeline.model.backward import Batch, GradientComputer
from pipeline.model.transformer import initialised, parameter_count
from pipeline.runtime import devices
from pipeline.training import throughput

ROOT = Path(__file__).resolve().parents[1]
PAPER_STEPS = 120_000
SIDE = 8192
"""Of the matrices whose products are the peak."""


class Size(NamedTuple):
    """A model and its batch."""

    model: settings.Model
    vocabulary: int
    rows: int
    length: int
    microbatch: int


_SMALL, _LARGE = settings.Model(12, 768, 12, 64), settings.Model(36, 1280, 20, 64)
# Ascending, since a card tells the most memory that was held so far.
SIZES = {
    "nano": Size(settings.Model(2, 64, 2, 32), 2048, 8, 64, 4),
    "110M-32K": Size(_SMALL, 32_128, 256, 1024, 32),
    "750M-32K": Size(_LARGE, 32_128, 256, 1024, 16),
    "1B-250K": Size(_LARGE, 250_112, 256, 1024, 16),
}


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="110M-32K,750M-32K,1B-250K")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--side", type=int, default=SIDE, help="of the matrices of the peak")
    parser.add_argument("--eager", action="store_true", help="without compiling")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "gpu.json")
    chosen = parser.parse_args()
    device, before, found = devices.pick(chosen.device), os.getloadavg()[0], {}
    for name in chosen.sizes.split(","):
        size = SIZES[name]
        peaks = [matrix_peak(device, chosen.side)]
        row = measured(size, device, chosen.steps, compiled=not chosen.eager)
        peaks.append(matrix_peak(device, chosen.side))
        row["matrix_flops_per_second"] = max(peaks)
        row["utilisation"] = row["model_flops_per_second"] / max(peaks)
        found[name] = row
        print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in row.items()))
    result = {
        "steps": found,
        "sizes": {
            name: {**SIZES[name]._asdict(), "model": dataclasses.asdict(SIZES[name].model)}
            for name in found
        },
        "device": devices.describe(device),
        "compiled": not chosen.eager,
        "machine": machine.described(before),
        "date": time.strftime("%Y-%m-%d"),
    }
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def matrix_peak(device: torch.device, side: int, times: int = 20) -> float:
    """FLOP/s of products of square bfloat16 matrices."""
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    devices.synchronize(device)
    began = time.perf_counter()
    for _ in range(times):
        a @ b
    devices.synchronize(device)
    return 2.0 * side**3 * times / (time.perf_counter() - began)


def measured(size: Size, device: torch.device, steps: int, *, compiled: bool) -> dict[str, Any]:
    """What a step of Mix takes."""
    recipe = steady(
        size.rows,
        size.length,
        7e-4,
        microbatch_rows=size.microbatch,
        precision="bfloat16",
        compile=compiled,
    )
    if compiled:
        devices.keep_compilations()
    net = initialised(size.model, size.vocabulary, 0).to(device).configure(recipe)
    optimizer = adamw.adamw(net, recipe)
    passing = GradientComputer(net, optimizer, recipe.clip_norm, size.microbatch)
    method = registry.build("mix", {}, "benchmark")
    state, count_K = method.init(("all",), 0), torch.tensor([size.rows])
    random = torch.Generator().manual_seed(0)
    tokens_BxL1 = torch.randint(size.vocabulary, (size.rows, size.length + 1), generator=random)
    seconds = []
    for _ in range(steps + 2):
        devices.synchronize(device)
        began = time.perf_counter()
        batch = Batch(tokens_BxL1.to(device), count_K)
        passing.compute_gradients(method, state, 0, batch, None)
        optimizer.step()
        devices.synchronize(device)
        seconds.append(time.perf_counter() - began)
    # The first two compile and warm up.
    median, tokens = statistics.median(seconds[2:]), size.rows * size.length
    flops = throughput.training_flops(net, size.model, size.length) * tokens
    return {
        "parameters": parameter_count(net),
        "milliseconds": 1e3 * median,
        "tokens_per_second": tokens / median,
        "model_flops_per_second": flops / median,
        "peak_memory_bytes": devices.peak_memory(device),
        "hours_of_the_papers_steps": median * PAPER_STEPS / 3600,
    }


if __name__ == "__main__":
    main()
