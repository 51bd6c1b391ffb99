"""A training step of ours beside those of other trainers, and beside the machine's matrix products.

    python -m benchmarks.training [--sizes small,base] [--rounds N] [--trainers ours,...]

Every trainer takes whole steps in a loop as its own users write it (forward, loss, backward,
clipping at 1, AdamW) on its own copy of a decoder of the same shape and on the same tokens, all
in float32:

    ours             `backward.GradientComputer` and the optimizer, as `pike pretrain` runs Mix
    ours compiled    the same with `compile: true`
    persimmon        transformers' model that computes the same as ours, in a plain loop
    gpt2             transformers' GPT-2, likewise
    gpt2 Trainer     transformers' GPT-2 in transformers' own Trainer
    gpt2 Lightning   transformers' GPT-2 in Lightning's Trainer
    litgpt           litgpt's GPT, set to compute the same as ours, in the loop of its pretraining
                     script (Lightning's Fabric)
    litgpt compiled  the same, compiled whole, as that script does
    litgpt lean      litgpt's GPT without norms over queries and keys; `litgpt lean compiled`, too
    llama            transformers' Llama, its gated MLP as wide as gives it as many weights

In each round every trainer takes a step, in an order that turns, and is compared with ours of that
round in processor time; medians and ranges are reported. The limit is what the same processor does
in products of the step's own matrices (`gemm`), measured in every round, too: a step's share of it
is its model FLOPs (`pipeline.training.throughput`) by its processor time over that rate.

It needs the extra `[bench]`, and litgpt beside it: `pip install --no-deps litgpt`, whose own
requirements would take an older huggingface_hub. A peer whose package is not there is named as
missing, in what is printed and in the record. Compiling takes minutes before the first round; a
trainer of the base size takes 2 GB, and `--trainers` chooses. Sizes that are not measured stay in
the record as they are.
"""

import argparse
import ctypes
import dataclasses
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine, trainers
from benchmarks.trainers import SIZES, Size
from pipeline.model.transformer import MLP_RATIO, initialised
from pipeline.runtime import devices
from pipeline.training import throughput

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("transformers", "accelerate", "lightning", "litgpt")


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="small,base")
    parser.add_argument("--rounds", type=int, help="default: by size")
    parser.add_argument("--trainers", default=",".join(trainers.NAMES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks" / "results" / "training.json"
    )
    chosen = parser.parse_args()
    devices.keep_freed_memory()
    one_arena()
    torch.set_num_threads(chosen.threads)
    asked = chosen.trainers.split(",")
    absent = {name: package for name in asked if (package := trainers.missing(name))}
    for name, package in absent.items():
        print(f"{name}: not measured, because {package} is not installed")
    names = [name for name in asked if name not in absent]
    before, found, sizes = os.getloadavg()[0], {}, {}
    for name in chosen.sizes.split(","):
        sizes[name] = SIZES[name]._replace(rounds=chosen.rounds or SIZES[name].rounds)
        found[name] = measured(sizes[name], names)
        print(table(name, found[name]), flush=True)
    result = {
        "sizes": {
            name: {**size._asdict(), "model": dataclasses.asdict(size.model)}
            for name, size in sizes.items()
        },
        "steps": found,
        "missing": absent,
        "versions": {name: version for name in PACKAGES if (version := installed(name))},
        "machine": machine.described(before),
        "date": time.strftime("%Y-%m-%d"),
    }
    machine.record(chosen.out, result, ("sizes", "steps"))


def installed(package: str) -> str | None:
    """The version of a package; None where it is not installed."""
    found = importlib.metadata.packages_distributions().get(package)
    return importlib.metadata.version(package) if found else None


def one_arena() -> None:
    """Has glibc serve all threads from one arena, so that no trainer's memory is kept apart."""
    if platform.libc_ver()[0] == "glibc":
        arena_max = -8
        ctypes.CDLL(None).mallopt(arena_max, 1)


def products(size: Size) -> tuple[Callable[[], None], float]:
    """Multiplies the step's own matrices, once each; and the FLOPs of that."""
    tokens, width, inner = size.rows * size.length, size.model.width, MLP_RATIO * size.model.width
    attention = size.model.heads * size.model.head_width
    shapes = [(width, 3 * attention), (attention, width), (width, inner), (inner, width)]
    pairs = [(torch.randn(tokens, a), torch.randn(a, b)) for a, b in shapes]

    def multiply() -> None:
        for left, right in pairs:
            left @ right

    return multiply, sum(2.0 * tokens * a * b for a, b in shapes)


def seconds_taken(size: Size, made: dict[str, trainers.Trainer]) -> dict[str, list[float]]:
    """Processor seconds of a step, by trainer and round, and of `products`."""
    multiply, _ = products(size)
    names, seconds = list(made), {name: [] for name in [*made, "gemm"]}
    for number in range(size.rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.process_time()
            made[name].step()
            seconds[name].append(time.process_time() - began)
        # As long as a step, so that a busy moment counts for both.
        began, times = time.process_time(), 0
        while not times or time.process_time() - began < seconds["ours"][-1] / 2:
            multiply()
            times += 1
        seconds["gemm"].append((time.process_time() - began) / times)
    # The first round warms up, and compiles.
    return {name: values[1:] for name, values in seconds.items()}


def measured(size: Size, names: list[str]) -> dict[str, dict[str, Any]]:
    """What a step of each trainer takes with a model of this size; `ours` must be among them."""
    generator = torch.Generator().manual_seed(0)
    tokens_BxL1 = torch.randint(size.vocabulary, (size.rows, size.length + 1), generator=generator)
    made = {name: trainers.make(name, size, tokens_BxL1) for name in names}
    kept = seconds_taken(size, made)
    rate = products(size)[1] / statistics.median(kept["gemm"])
    net = initialised(size.model, size.vocabulary, 0)
    tokens = size.rows * size.length
    of_ours = throughput.training_flops(net, size.model, size.length) * tokens
    found = {}
    for name in names:
        ratios = [a / b for a, b in zip(kept[name], kept["ours"], strict=True)]
        median = statistics.median(kept[name])
        found[name] = {
            "parameters": made[name].parameters,
            "milliseconds": 1e3 * median,
            "tokens_per_cpu_second": tokens / median,
            "in_steps_of_ours": statistics.median(ratios),
            "range": [min(ratios), max(ratios)],
            "share_of_gemm": of_ours / median / rate,
            "gemm_flops_per_cpu_second": rate,
            "seconds": kept[name],
        }
    return found


def table(size: str, found: dict[str, dict[str, Any]]) -> str:
    """The result as text."""
    head = ("ms", "token/cpu s", "x ours", "range", "of gemm")
    lines = [f"{size:<16}" + "".join(f"{name:>14}" for name in head)]
    for name, row in found.items():
        low, high = row["range"]
        cells = [
            f"{row['milliseconds']:.1f}",
            f"{row['tokens_per_cpu_second']:,.0f}",
            f"{row['in_steps_of_ours']:.2f}",
            f"{low:.2f}-{high:.2f}",
            f"{row['share_of_gemm']:.2f}",
        ]
        lines.append(f"{name:<16}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
