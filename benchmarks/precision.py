"""A training step with products in bfloat16 beside the same step in float32, by size of the model.

    python -m benchmarks.precision [--sizes nano ... base] [--rounds N]

Processors with AMX or AVX512-BF16 multiply bfloat16 several times as fast; norms, sums and the
optimizer stay float32, so that small models gain little. Processor time of whole steps, in turn.
`units`: what of these the processor has. Record: benchmarks/results/precision.json.
"""

from functools import partial
from typing import Any

import torch

from benchmarks import measure
from benchmarks.steps import Size
from benchmarks.training import RATE, SIZES, step_of_ours
from pipeline import settings
from pipeline.model.transformer import initialised
from pipeline.runtime import accelerators, devices

PRECISIONS = ("float32", "bfloat16")
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
        "units": accelerators.bfloat16_units(),
    }
    measure.record(chosen, result, ("sizes", "steps"))


def measured(size: Size, rounds: int) -> dict[str, Any]:
    """Median seconds of a step in either precision, and how many times as fast bfloat16 is."""
    tokens_BxL1, steps = size.tokens(), {}
    for precision in PRECISIONS:
        recipe = measure.steady(size.rows, size.length, RATE, precision=precision)
        net = initialised(size.model, size.vocabulary, 0)
        step = step_of_ours(net, recipe, size.rows, torch.device("cpu"))
        steps[precision] = partial(step, tokens_BxL1)
    seconds = measure.processor_of(steps, rounds)
    ratio = measure.ratios(*(seconds[name] for name in PRECISIONS))
    both = measure.medians(seconds)
    return {**both, "speed": ratio["median"], "range": ratio["range"], "seconds": seconds}


if __name__ == "__main__":
    main()
