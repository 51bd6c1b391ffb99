"""What a run's time went to, from its records."""

from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

MEANINGS = {
    "data": "rows read and moved to the device",
    "forward": "forward passes, with the loss and its gradient by the logits",
    "backward": "backward passes",
    "statistics": "norms and products of gradients; rows of their own, their passes too",
    "gradient": "clipping, combination, waiting for the device",
    "optimizer": "AdamW",
    "method": "the mixing method, and losses after the update where it wants them",
    "validation": "losses on held-out rows or rows of comparison",
    "records": "what is written down of a step",
    "checkpoint": "copies of weights and states, waiting for the disk",
    "loop": "the rest of the loop",
}
"""Phases of a step in their order, and what they hold."""


def shown(folder: Path) -> str:
    """Table of a finished run: milliseconds per step, share of each phase, and what stands out."""
    timings = pq.read_table(folder / "timings.parquet").to_pydict()
    seconds = dict(zip(timings["phase"], timings["seconds"], strict=True))
    steps = pq.read_table(folder / "steps.parquet", columns=["step", "seconds"]).to_pydict()
    number, whole = len(steps["step"]), sum(seconds.values())
    lines = [f"{'phase':<12}{'ms a step':>12}{'share':>9}"]
    for phase in sorted(seconds, key=list(MEANINGS).index):
        milliseconds, share = 1e3 * seconds[phase] / number, seconds[phase] / whole
        lines.append(f"{phase:<12}{milliseconds:>12.3f}{share:>9.2%}  {MEANINGS[phase]}")
    lines.append(f"{'all':<12}{1e3 * whole / number:>12.3f}{1:>9.2%}  {number:,} steps")
    first, *others = steps["seconds"]
    if others:
        lines.append(
            f"the first step, which compiles what is compiled, took {first:,.3f} s; of the others "
            f"the median {median(others):.3f} s"
        )
    measured = pq.read_table(folder / "gradient_statistics.parquet", columns=["step"])
    firing = set(measured["step"].to_pylist())
    taken = list(zip(steps["step"], steps["seconds"], strict=True))
    fired = [s for step, s in taken if step in firing]
    plain = [s for step, s in taken if step not in firing]
    if fired and plain:
        ratio, extra = median(fired) / median(plain), sum(fired) - len(fired) * median(plain)
        lines.append(
            f"{len(fired):,} steps with gradient statistics took {ratio:.2f} times a step without "
            f"(medians), {extra / whole:.2%} of all time"
        )
    return "\n".join(lines)
