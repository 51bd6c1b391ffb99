"""The loss over a large vocabulary: ours beside plain logits and torch's own, time and memory.

    python -m benchmarks.loss [--sizes small 32k 250k] [--rounds 5]

One step of a loss is its forward and backward pass down to the gradients of the hidden states and
of the embedding. Ratios are those of the same round in processor time; above 1 is faster than
plain. Memory is what a process of its own needs at its peak beyond the inputs and the embedding's
gradient, told by Linux.

Runs have the C library keep freed memory (`runtime.devices`), which helps plain logits most; here
it is not kept. `torch.nn.functional.linear_cross_entropy` is measured where torch has it, in small
chunks: with its default options a step at 250k takes minutes on a CPU.

Record: benchmarks/results/loss.json. Shapes: N tokens, D model width, V vocabulary.
"""

import multiprocessing
import os
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import measure
from pike_mixing.torch import chunked_loss


class Size(NamedTuple):
    N: int
    D: int
    V: int


SIZES = {
    "tiny": Size(1600, 64, 64),
    "small": Size(1600, 128, 4096),
    "32k": Size(1024, 768, 32_128),
    "250k": Size(512, 768, 250_112),
}


def plain(hidden_NxD: Tensor, embedding_VxD: Tensor, target_N: Tensor) -> Tensor:
    """All logits at once."""
    return F.cross_entropy(hidden_NxD @ embedding_VxD.T, target_N)


def ours(hidden_NxD: Tensor, embedding_VxD: Tensor, target_N: Tensor) -> Tensor:
    weight_N = torch.full((len(target_N),), 1 / len(target_N))
    return chunked_loss.weighted_sum_and_losses(
        hidden_NxD, embedding_VxD, target_N, weight_N, torch.float32
    )[0]


def torchs(hidden_NxD: Tensor, embedding_VxD: Tensor, target_N: Tensor) -> Tensor:
    """Torch's own, in chunks of 256."""
    small = {"batch_chunk_size": 256, "chunking_method": None, "acc_policy": "compact"}
    options = torch.nn.LinearCrossEntropyOptions(**small)
    return F.linear_cross_entropy(hidden_NxD, embedding_VxD, target_N, options=options)


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"plain": plain, "ours": ours}
if hasattr(F, "linear_cross_entropy"):
    WAYS["torch, compact 256"] = torchs


def main() -> None:
    chosen = measure.arguments(__doc__, "loss", sizes=list(SIZES), rounds=5)
    found = {}
    for name in chosen.sizes:
        found[name] = measured(SIZES[name], chosen.rounds)
        columns = ("milliseconds", "speed_against_plain", "bytes_against_plain")
        print(measure.table(name, found[name], *columns), flush=True)
    sizes = {name: SIZES[name]._asdict() for name in found}
    result = {"rounds": chosen.rounds, "sizes": sizes, "losses": found}
    measure.record(chosen, result, ("sizes", "losses"))


def problem(size: Size) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, an embedding and targets, the same at every call."""
    random = torch.Generator().manual_seed(0)
    hidden_NxD = torch.randn(size.N, size.D, generator=random, requires_grad=True)
    embedding_VxD = torch.randn(size.V, size.D, generator=random).mul_(size.D**-0.5)
    target_N = torch.randint(size.V, (size.N,), generator=random)
    return hidden_NxD, embedding_VxD.requires_grad_(), target_N


def step(way: str, given: tuple[Tensor, Tensor, Tensor], _: int = 0) -> measure.Seconds:
    given[0].grad = given[1].grad = None
    return measure.timed(lambda: WAYS[way](*given).backward())


def measured(size: Size, rounds: int) -> dict[str, dict[str, Any]]:
    """What each way costs at one size."""
    given = problem(size)
    seconds = measure.turns({way: partial(step, way, given) for way in WAYS}, rounds)
    taken = {way: measure.processor(values) for way, values in seconds.items()}
    memory, result = peak_bytes(size), {}
    for way, own in taken.items():
        ratio = measure.ratios(taken["plain"], own)
        result[way] = {
            "milliseconds": 1e3 * statistics.median(own),
            "speed_against_plain": ratio["median"],
            "speed_range": ratio["range"],
            "bytes": memory[way],
            "bytes_against_plain": memory[way] / memory["plain"],
        }
    return result


def peak_bytes(size: Size) -> dict[str, int]:
    """Peaks in a process whose freed blocks of 1 MiB or more go back to the system at once."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**20)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply(_peaks, (size,))
    del os.environ["MALLOC_MMAP_THRESHOLD_"]
    return result


def _peaks(size: Size) -> dict[str, int]:
    torch.set_num_threads(1)
    given, result = problem(size), {}
    for way in WAYS:
        # Libraries' own buffers come first.
        step(way, problem(Size(8, size.D, 16)))
        given[0].grad = given[1].grad = None
        # Has Linux forget the peak so far.
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _status("VmRSS")
        step(way, given)
        result[way] = max(_status("VmHWM") - before - 4 * size.D * size.V, 1)
    return result


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
