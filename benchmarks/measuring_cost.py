"""What gradient statistics cost: a step that measures beside one that does not, and Mix.

    python -m benchmarks.measuring_cost [--models nano micro small base] [--rounds N]

base, which holds seven copies of 110 M parameters and takes 24 GB, is measured if it is named.

Every way takes whole steps through the training loop's own parts, on its own copy of the same model
and on the same rows of three domains:

    mix               an ordinary step
    mix again         another, which shows how noisy the machine was
    out of the pass   PiKE's firing step with `batch: training`
    a pass beside     PiKE's firing step with `batch: fresh`: as many rows once more
    pcgrad, mgda, cagrad
                      steps that combine the domains' gradients by their inner products

Each is compared with the Mix of the same round in processor time. Steps that do not measure take
all rows they can in one backward pass. Memory is the peak of the tensors that a step makes, beyond
that of Mix, in gradients of the whole model; for it, all ways take as few rows in a pass as the
measured ones. Record: benchmarks/results/measuring_cost.json.
"""

import statistics
from functools import partial
from typing import Any

from benchmarks import measure
from benchmarks.steps import Live, Size, Stepper
from pipeline import settings
from pipeline.model.transformer import trainable_parameter_count
from pipeline.runtime import devices

K, T0 = 3, 1000
"""Domains, and steps between firing ones: PiKE's default."""
SIZES = {
    "nano": Size(settings.Model(2, 64, 2, 32), 2048, 24, 64, 25),
    "micro": Size(settings.Model(4, 128, 4, 32), 2048, 24, 64, 25),
    "small": Size(settings.Model(4, 256, 4, 64), 4096, 24, 256, 9, 1),
    "base": Size(settings.Model(12, 768, 12, 64), 32_128, 6, 512, 3, 1),
}
PIKE = {"zeta1": 0.0, "zeta2": 0.0, "first": 0, "rows": 2}
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "mix": ("mix", {}),
    "mix again": ("mix", {}),
    "out of the pass": ("pike", {**PIKE, "batch": "training"}),
    "a pass beside": ("pike", {**PIKE, "batch": "fresh"}),
    "pcgrad": ("pcgrad", {}),
    "mgda": ("mgda", {}),
    "cagrad": ("cagrad", {}),
}


def main() -> None:
    chosen = measure.arguments(
        __doc__, "measuring_cost", models=["nano", "micro", "small"], rounds=0
    )
    devices.keep_freed_memory()
    found, sizes = {}, {}
    for name in chosen.models:
        size = SIZES[name]._replace(rounds=chosen.rounds or SIZES[name].rounds)
        sizes[name], found[name] = size.described(), measured(size)
        columns = ("milliseconds", "in_steps_of_mix", "gradients_of_extra_memory")
        print(measure.table(name, found[name], *columns), flush=True)
    result = {"sizes": sizes, "domains": K, "fires_every": T0, "steps": found}
    measure.record(chosen, result, ("sizes", "steps"))


def measured(size: Size) -> dict[str, dict[str, Any]]:
    """What each way costs with a model of this size."""
    # One after the other: all of them at once would double what the benchmark needs.
    by_few = ((way, Stepper(*given, size, K, size.measured_by)) for way, given in WAYS.items())
    peaks = {way: peak_bytes(one) for way, one in by_few}
    steppers = {way: Stepper(*given, size, K) for way, given in WAYS.items()}
    gradient = 4 * trainable_parameter_count(steppers["mix"].model)
    # Step 0 is one that fires.
    steps = {way: partial(one.step, 0) for way, one in steppers.items()}
    seconds, result = measure.seconds_of(steps, size.rounds), {}
    for way, own in seconds.items():
        ratio = measure.ratios(own, seconds["mix"])
        result[way] = {
            "milliseconds": 1e3 * statistics.median(own),
            "in_steps_of_mix": ratio["median"],
            "range": ratio["range"],
            "share_of_training": (ratio["median"] - 1) / T0 if "pass" in way else None,
            "gradients_of_extra_memory": (peaks[way] - peaks["mix"]) / gradient,
            "seconds": own,
        }
    return result


def peak_bytes(one: Stepper) -> int:
    """Peak of what tensors take over a step, beyond what there was before it."""
    # Moments and whatever else lasts come first.
    one.step(0)
    one.optimizer.zero_grad()
    with Live() as live:
        one.step(0)
    return live.peak


if __name__ == "__main__":
    main()
