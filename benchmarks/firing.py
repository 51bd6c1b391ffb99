"""What gradient statistics cost: a step that measures beside one that does not, and Mix.

    python -m benchmarks.firing [--models nano,micro,small,base] [--rounds N] [--threads 1]

Every way takes whole steps through `model.backward.Pass` and the optimizer, on its own copy of
the same model and on the same rows of three domains:

    mix               an ordinary step
    mix again         another, which shows how noisy the machine was
    out of the pass   PiKE's firing step with `batch: training`
    a pass beside     PiKE's firing step with `batch: fresh`: as many rows once more
    pcgrad, mgda, cagrad
                      steps that combine the domains' gradients by their inner products

In each round every way takes a step, in an order that turns, and is compared with the Mix of the
same round in processor time; medians and ranges are reported. Steps that do not measure take all
rows they can in one backward pass. Memory is the peak of the tensors that a step makes, beyond that
of Mix, in gradients of the whole model; for it, all ways take as few rows in a pass as the measured
ones.
"""

import argparse
import dataclasses
import os
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import machine
from benchmarks.mixing import Live
from benchmarks.recipe import steady
from pike_mixing import registry
from pike_mixing.interface import Method
from pipeline import settings
from pipeline.model import adamw, gradients
from pipeline.model.backward import Batch, GradientComputer
from pipeline.model.transformer import initialised, parameter_count
from pipeline.runtime import devices

ROOT = Path(__file__).resolve().parents[1]
DOMAINS = ("one", "two", "three")
T0 = 1000
"""Steps between firing ones, PiKE's default."""


class Size(NamedTuple):
    """A model and its batch."""

    model: settings.Model
    vocabulary: int
    rows: int
    length: int
    measured_by: int
    """Rows per backward pass on firing steps."""
    rounds: int


SIZES = {
    "nano": Size(settings.Model(2, 64, 2, 32), 2048, 24, 64, 2, 25),
    "micro": Size(settings.Model(4, 128, 4, 32), 2048, 24, 64, 2, 25),
    "small": Size(settings.Model(4, 256, 4, 64), 4096, 24, 256, 1, 9),
    "base": Size(settings.Model(12, 768, 12, 64), 32_128, 6, 512, 1, 3),
}
WAYS = {
    "mix": ("mix", {}),
    "mix again": ("mix", {}),
    "out of the pass": ("pike", {"zeta1": 0.0, "zeta2": 0.0, "batch": "training"}),
    "a pass beside": ("pike", {"zeta1": 0.0, "zeta2": 0.0, "batch": "fresh"}),
    "pcgrad": ("pcgrad", {}),
    "mgda": ("mgda", {}),
    "cagrad": ("cagrad", {}),
}


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default="nano,micro,small,base")
    parser.add_argument("--rounds", type=int, help="default: by model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "firing.json")
    chosen = parser.parse_args()
    devices.keep_freed_memory()
    torch.set_num_threads(chosen.threads)
    before, found, sizes = os.getloadavg()[0], {}, {}
    for name in chosen.models.split(","):
        sizes[name] = SIZES[name]._replace(rounds=chosen.rounds or SIZES[name].rounds)
        found[name] = measured(sizes[name])
        print(table(name, found[name]), flush=True)
    result = {
        "sizes": {
            name: {**size._asdict(), "model": dataclasses.asdict(size.model)}
            for name, size in sizes.items()
        },
        "domains": len(DOMAINS),
        "fires_every": T0,
        "steps": found,
        "machine": machine.described(before),
        "date": time.strftime("%Y-%m-%d"),
    }
    machine.record(chosen.out, result, ("sizes", "steps"))


class Contender:
    """One way to take a step, with its own model."""

    def __init__(
        self, rule: str, values: dict[str, Any], size: Size, microbatch: int | None = None
    ) -> None:
        self.size = size
        self.method: Method = registry.build(rule, values, f"benchmark: {rule}")
        recipe = steady(size.rows, size.length, 1e-3)
        self.model = initialised(size.model, size.vocabulary, 0)
        self.optimizer = adamw.adamw(self.model, recipe)
        microbatch = microbatch or size.rows
        self.passing = GradientComputer(self.model, self.optimizer, recipe.clip_norm, microbatch)
        self.state = self.method.init(DOMAINS, 0)
        random = torch.Generator().manual_seed(0)
        shape = (size.rows, size.length + 1)
        self.batch = Batch(
            torch.randint(size.vocabulary, shape, generator=random),
            torch.full((len(DOMAINS),), size.rows // len(DOMAINS)),
        )

    def step(self) -> None:
        """One step; a firing one, for a rule that fires."""
        need = self.method.needs().statistics
        if need is not None and need.fresh:
            gradients.gradient_statistics(self.model, self.batch.by_domain(), self.size.measured_by)
        measured_by = self.size.measured_by if need is not None and not need.fresh else None
        self.passing.compute_gradients(self.method, self.state, 0, self.batch, measured_by)
        self.optimizer.step()


def measured(size: Size) -> dict[str, dict[str, Any]]:
    """What each way costs with a model of this size."""
    # One after the other: all of them at once are not to double what the benchmark needs.
    by_few = ((name, Contender(*way, size, size.measured_by)) for name, way in WAYS.items())
    peaks = {name: peak_bytes(one) for name, one in by_few}
    contenders = {name: Contender(*way, size) for name, way in WAYS.items()}
    gradient = 4 * parameter_count(contenders["mix"].model)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    names = list(WAYS)
    for number in range(size.rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.process_time()
            contenders[name].step()
            # The first round warms up.
            if number:
                seconds[name].append(time.process_time() - began)
    found = {}
    for name in names:
        ratios = [own / mix for own, mix in zip(seconds[name], seconds["mix"], strict=True)]
        ratio = statistics.median(ratios)
        found[name] = {
            "milliseconds": 1e3 * statistics.median(seconds[name]),
            "in_steps_of_mix": ratio,
            "range": [min(ratios), max(ratios)],
            "share_of_training": (ratio - 1) / T0 if "pass" in name else None,
            "gradients_of_extra_memory": (peaks[name] - peaks["mix"]) / gradient,
            "seconds": seconds[name],
        }
    return found


def peak_bytes(one: Contender) -> int:
    """Peak of what tensors take over a step, beyond what there was before it."""
    # Moments and whatever else lasts come first.
    one.step()
    one.optimizer.zero_grad()
    with Live() as live:
        one.step()
    return live.peak


def table(size: str, found: dict[str, dict[str, Any]]) -> str:
    """The result as text; Mix is 1."""
    head = ("ms", "x mix", "range", f"per {T0}", "gradients")
    lines = [f"{size:<18}" + "".join(f"{name:>12}" for name in head)]
    for name, row in found.items():
        low, high = row["range"]
        share = row["share_of_training"]
        cells = [
            f"{row['milliseconds']:.1f}",
            f"{row['in_steps_of_mix']:.2f}",
            f"{low:.2f}-{high:.2f}",
            "" if share is None else f"{share:.2%}",
            f"{row['gradients_of_extra_memory']:+.2f}",
        ]
        lines.append(f"{name:<18}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
