"""A training step with products in bfloat16 beside the same step in float32, by size of the model.

Float32 twice: by the products of `pike_mixing.torch.chunked_loss`, and by torch's own.

    python -m benchmarks.precision [--sizes nano ... base] [--rounds N]

Processors with AMX or AVX512-BF16 multiply bfloat16 several times as fast; norms, sums and the
optimizer stay float32, so that small models gain little. Processor time of whole steps, in turn.
`units`: what of these the processor has. Record: benchmarks/results/precision.json.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch

from benchmarks import measure
from benchmarks.steps import Size
from benchmarks.training import RATE, SIZES, step_of_ours
from pike_mixing.torch import chunked_loss
from pipeline import settings
from pipeline.model.transformer import initial_model
from pipeline.runtime import accelerators, devices

WAYS = {"float32": "float32", "torch's float32": "float32", "bfloat16": "bfloat16"}
"""Precision of the products, by name."""
# nano is the default experiment's, micro that of a board, small that of `top.yaml`.
MODELS = {
    "nano": Size(settings.Model(2, 64, 2, 32), 1024, 20, 64, 15),
    "micro": Size(settings.Model(3, 108, 3, 36), 1024, 20, 64, 15),
    "small": SIZES["small"],
    "base": SIZES["base"],
}


def main() -> None:
    chosen = measure.arguments(__doc__, "precision", sizes=list(MODELS), rounds=0)
    devices.keep_freed_memory()
    found = {}
    for name in chosen.sizes:
        found[name] = measured(MODELS[name], chosen.rounds or MODELS[name].rounds)
        print(measure.table(name, {name: found[name]}, "float32", "speed"))
    result = {
        "sizes": {name: MODELS[name].described() for name in chosen.sizes},
        "steps": found,
        "units": accelerators.bfloat16_cpu_flags(),
    }
    measure.record(chosen, result, ("sizes", "steps"))


def measured(size: Size, rounds: int) -> dict[str, Any]:
    """Median seconds of a step in each way, and how many times as fast bfloat16 is."""
    tokens_BxL1, steps = size.tokens(), {}
    for way, precision in WAYS.items():
        recipe = measure.steady(size.rows, size.length, RATE, precision=precision)
        net = initial_model(size.model, size.vocabulary, 0)
        step = step_of_ours(net, recipe, size.rows, torch.device("cpu"))
        steps[way] = partial(in_a_way, way, partial(step, tokens_BxL1))
    seconds = measure.seconds_of(steps, rounds)
    ratio, own = (measure.ratios(seconds[way], seconds["bfloat16"]) for way in list(WAYS)[:2])
    return {
        **measure.medians(seconds),
        "speed": ratio["median"],
        "range": ratio["range"],
        "speed over torch's float32": own["median"],
        "seconds": seconds,
    }


def in_a_way(way: str, step: Callable[[], None]) -> None:
    """A step with the products of `pike_mixing.torch.chunked_loss`, or with torch's own."""
    with mock.patch.object(
        chunked_loss, "ONEDNN", chunked_loss.ONEDNN and way != "torch's float32"
    ):
        step()


if __name__ == "__main__":
    main()
