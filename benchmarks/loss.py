"""The loss over a large vocabulary: ours beside plain logits and torch's own, time and memory.

    python -m benchmarks.loss [--sizes small,32k,250k] [--rounds 5] [--keep-freed-memory]

One step of a loss is its forward and backward pass down to the gradients of the hidden states and
of the embedding. In each round every variant makes one, in an order that turns; medians of the
ratios to the plain one of the same round are reported, above 1 = faster. Memory is what a process
needs at its peak beyond the inputs and the embedding's gradient, told by Linux.

Runs have the C library keep freed memory (`runtime.devices`), which helps plain logits most: a
process that knows no such thing spends a part of its time on page faults. The option measures that.

`torch.nn.functional.linear_cross_entropy` is measured where torch has it; its sums take no weight
for each token, so that it stands for the mean alone. With its default options it takes more than
two minutes a step at 250k on a CPU, and is left out there.

Shapes: N tokens, D model width, V vocabulary.
"""

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import machine
from pipeline.model import loss
from pipeline.runtime import devices

ROOT = Path(__file__).resolve().parents[1]


class Size(NamedTuple):
    """One problem."""

    N: int
    D: int
    V: int


SIZES = {
    "tiny": Size(1600, 64, 64),
    "small": Size(1600, 128, 4096),
    "32k": Size(1024, 768, 32_128),
    "250k": Size(512, 768, 250_112),
}
MOST_BY_DEFAULT = 100_000
"""Vocabulary up to which torch's loss is measured with its default options, too."""
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def plain(hidden_NxD: Tensor, embedding_VxD: Tensor, target_N: Tensor) -> Tensor:
    """All logits at once."""
    return F.cross_entropy(hidden_NxD @ embedding_VxD.T, target_N)


def ours(hidden_NxD: Tensor, embedding_VxD: Tensor, target_N: Tensor) -> Tensor:
    """The pipeline's."""
    weight_N = torch.full((len(target_N),), 1 / len(target_N))
    return loss.weighted(hidden_NxD, embedding_VxD, target_N, weight_N, torch.float32)[0]


VARIANTS: dict[str, Loss] = {"plain": plain, "ours": ours}
if hasattr(F, "linear_cross_entropy"):

    def _torchs(**options: Any) -> Loss:
        chosen = torch.nn.LinearCrossEntropyOptions(**options)

        def found(hidden_NxD: Tensor, embedding_VxD: Tensor, target_N: Tensor) -> Tensor:
            return F.linear_cross_entropy(hidden_NxD, embedding_VxD, target_N, options=chosen)

        return found

    VARIANTS["torch, default"] = _torchs()
    VARIANTS["torch, compact 256"] = _torchs(
        batch_chunk_size=256, chunking_method=None, acc_policy="compact"
    )


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep-freed-memory", action="store_true", help="as runs do")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "loss.json")
    chosen = parser.parse_args()
    if chosen.keep_freed_memory:
        devices.keep_freed_memory()
    torch.set_num_threads(chosen.threads)
    before = os.getloadavg()[0]
    found = {}
    for name in chosen.sizes.split(","):
        found[name] = measured(SIZES[name], chosen.rounds)
        print(table(name, found[name]), flush=True)
    result = {
        "rounds": chosen.rounds,
        "keep_freed_memory": chosen.keep_freed_memory,
        "sizes": {name: SIZES[name]._asdict() for name in found},
        "losses": found,
        "machine": machine.described(before),
        "date": time.strftime("%Y-%m-%d"),
    }
    machine.record(chosen.out, result, ("sizes", "losses"))


def variants(size: Size) -> list[str]:
    """Those that are measured at a size."""
    return [name for name in VARIANTS if name != "torch, default" or size.V <= MOST_BY_DEFAULT]


def problem(size: Size) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, an embedding and targets, the same at every call."""
    random = torch.Generator().manual_seed(0)
    hidden_NxD = torch.randn(size.N, size.D, generator=random, requires_grad=True)
    embedding_VxD = torch.randn(size.V, size.D, generator=random).mul_(size.D**-0.5)
    target_N = torch.randint(size.V, (size.N,), generator=random)
    return hidden_NxD, embedding_VxD.requires_grad_(), target_N


def step(variant: str, given: tuple[Tensor, Tensor, Tensor]) -> tuple[float, float]:
    """Processor seconds and the loss."""
    hidden_NxD, embedding_VxD, target_N = given
    hidden_NxD.grad = embedding_VxD.grad = None
    began = time.process_time()
    found = VARIANTS[variant](hidden_NxD, embedding_VxD, target_N)
    found.backward()
    return time.process_time() - began, float(found.detach())


def measured(size: Size, rounds: int) -> dict[str, dict[str, Any]]:
    """What each variant costs at one size."""
    given, names = problem(size), variants(size)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            taken, _ = step(name, given)
            # The first round warms up.
            if number:
                seconds[name].append(taken)
    memory = peak_bytes(size)
    found = {}
    for name in names:
        pairs = zip(seconds["plain"], seconds[name], strict=True)
        ratios = [theirs / own for theirs, own in pairs]
        found[name] = {
            "milliseconds": 1e3 * statistics.median(seconds[name]),
            "speed_against_plain": statistics.median(ratios),
            "speed_range": [min(ratios), max(ratios)],
            "bytes": memory[name],
            "bytes_against_plain": memory[name] / memory["plain"],
        }
    return found


def peak_bytes(size: Size) -> dict[str, int]:
    """Peak of a process's memory over one step, beyond the inputs and the embedding's gradient.

    Told by Linux, for a process of its own.
    """
    # Every block of 1 MiB or more goes back to the system as soon as it is free.
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**20)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(_peaks, (size,))
    del os.environ["MALLOC_MMAP_THRESHOLD_"]
    return found


def _peaks(size: Size) -> dict[str, int]:
    torch.set_num_threads(1)
    given, found = problem(size), {}
    for variant in variants(size):
        # Libraries' own buffers come first.
        step(variant, problem(Size(8, size.D, 16)))
        given[0].grad = given[1].grad = None
        # Has Linux forget the peak so far.
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _status("VmRSS")
        step(variant, given)
        found[variant] = max(_status("VmHWM") - before - 4 * size.D * size.V, 1)
    return found


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def table(size: str, found: dict[str, dict[str, Any]]) -> str:
    """The result as text."""
    lines = [f"{size:<22}{'ms':>10}{'x plain':>10}{'range':>14}{'MB':>10}{'of plain':>10}"]
    for name, row in found.items():
        low, high = row["speed_range"]
        cells = f"{row['milliseconds']:>10.1f}{row['speed_against_plain']:>10.2f}"
        cells += f"{f'{low:.2f}-{high:.2f}':>14}{row['bytes'] / 1e6:>10.1f}"
        lines.append(f"{name:<22}{cells}{row['bytes_against_plain']:>10.3f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
