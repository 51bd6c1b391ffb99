"""What each mixing rule costs: time per step and memory beside Mix, in one process.

    python -m benchmarks.mixing [--rounds 15] [--models nano,micro] [--threads 1]

Every rule trains its own copy of the same model on the same rows through the training loop's own
parts (`model.backward.Pass`, `model.gradients`, the optimizer). In each round every rule
takes some steps, in an order that turns from round to round, and is compared with the Mix of the
same round; medians and quartiles over rounds are reported. A second Mix, named `mix again`, shows
how noisy the machine was. On a busy machine the processor's time says more than the clock's.

Steps at which a rule measures gradient statistics or held-out losses, or fits a law, are its
firing steps. They are timed apart; `on average` counts them as often as the rule's defaults do.

Memory is the peak of all live tensors: model, optimizer, rows, and what a step makes on the way;
first with a whole batch per backward pass, as the default configuration has it, where a rule that
takes one domain at a time needs less, then with b / K rows per pass for every rule.
The table and benchmarks/results/mixing.json say on which machine.

Shapes: K domains.
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
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks import machine
from benchmarks.recipe import steady
from pike_mixing import METHODS, registry
from pike_mixing.interface import Facts, Signals
from pipeline import settings
from pipeline.model import adamw, gradients, per_domain_adamw
from pipeline.model.backward import Batch, GradientComputer
from pipeline.model.transformer import Transformer, initialised

ROOT = Path(__file__).resolve().parents[1]
DOMAINS = ("code", "prose", "reference", "tables", "unicode")
EQUAL = dict.fromkeys(DOMAINS, 1.0)
GIVEN: dict[str, dict[str, Any]] = {
    "single": {"domain": "code"},
    "fixed": {"weights_by_domain": EQUAL},
    "pike": {"zeta1": 0.01, "zeta2": 0.001, "first": 1000},
    "balanced-pike": {"zeta1": 0.01, "zeta2": 0.001, "first": 1000, "tau": 1.0},
    "conceptual-pike": {"L": 1.0, "eta": 0.1},
    "doremi": {"reference": "mix"},
    # The first fit sees a history of 10,000 steps.
    "ado": {"first": 10_000},
}
"""Settings of rules that cannot do without; all others have their defaults."""
MODELS = {
    "nano": settings.Model(layers=2, width=64, heads=2, head_width=32),
    "micro": settings.Model(layers=4, width=128, heads=4, head_width=32),
}
RECIPE = steady(rows=25, length=64, rate=1e-3, statistics_microbatch=2)
VOCABULARY = 2048


def main() -> None:
    """Measures, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=3, help="steps of a rule in a round")
    parser.add_argument("--firings", type=int, default=5)
    parser.add_argument("--models", default="nano,micro")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "mixing.json")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    before = os.getloadavg()[0]
    sizes: dict[str, dict[str, dict[str, Any]]] = {}
    for name in chosen.models.split(","):
        sizes[name] = measured(MODELS[name], chosen.rounds, chosen.steps, chosen.firings)
        print(table(name, sizes[name]), flush=True)
        # After each model, so that nothing is lost when a larger one is given up.
        record(chosen, sizes, before)


def record(
    chosen: argparse.Namespace, sizes: dict[str, dict[str, dict[str, Any]]], load_before: float
) -> None:
    """Writes what was found, how, and on which machine."""
    result = {
        "rows": RECIPE.rows,
        "length": RECIPE.length,
        "domains": len(DOMAINS),
        "vocabulary": VOCABULARY,
        "rounds": chosen.rounds,
        "steps_per_round": chosen.steps,
        "models": {name: dataclasses.asdict(MODELS[name]) for name in sizes},
        "rules": sizes,
        "machine": machine.described(load_before),
        "date": time.strftime("%Y-%m-%d"),
    }
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


class Seconds(NamedTuple):
    """Of one step."""

    clock: float
    processor: float


class Contender:
    """One rule with its own model, taking the steps of `pipeline.training.train`."""

    def __init__(self, rule: str, shape: settings.Model, microbatch: int = RECIPE.rows) -> None:
        facts = Facts(
            tokens_by_domain=dict.fromkeys(DOMAINS, 1e6),
            budget_tokens=1e6,
            mixture={d: 1 / len(DOMAINS) for d in DOMAINS},
        )
        method = registry.build(rule, GIVEN.get(rule, {}), f"benchmark: {rule}")
        self.method = method.informed(facts)
        self.needs = self.method.needs()
        self.model = initialised(shape, VOCABULARY, 0)
        K = len(DOMAINS)
        if self.needs.moments_per_domain:
            self.optimizer: torch.optim.Optimizer = per_domain_adamw.optimizer(
                self.model, RECIPE, K
            )
        else:
            self.optimizer = adamw.adamw(self.model, RECIPE)
        reference: Transformer | None = None
        if self.needs.reference:
            reference = initialised(shape, VOCABULARY, 1).requires_grad_(False).eval()
        self.backward = GradientComputer(
            self.model, self.optimizer, RECIPE.clip_norm, microbatch, reference
        )
        # Rows enough for a batch or an estimate of any one domain.
        random = torch.Generator().manual_seed(0)
        shape_of_rows = (K, 2 * RECIPE.rows, RECIPE.length + 1)
        self.rows_KxRxL1 = torch.randint(VOCABULARY, shape_of_rows, generator=random)
        self.state = self.method.init(DOMAINS, 0)
        self.first = self._first()

    def _first(self) -> int:
        first = getattr(self.method, "first", None)
        for need in (self.needs.statistics, self.needs.validation):
            first = need.first if need is not None else first
        return int(first or 0)

    def remember(self) -> None:
        """Shows a rule that fits laws the falling losses of the steps before its first fit."""
        if not (self.needs.losses and hasattr(self.method, "stride")):
            return
        random = torch.Generator().manual_seed(1)
        count_K = torch.full((len(DOMAINS),), RECIPE.rows // len(DOMAINS))
        for step in range(self.first):
            noise_K = 0.01 * torch.randn(len(DOMAINS), generator=random, dtype=torch.float64)
            loss_K = 2 + 5 * (step + 1) ** -0.3 + noise_K
            seen = Signals(step, RECIPE.rows, count_K=count_K, loss_K=loss_K)
            self.state = self.method.observe(self.state, seen)

    @property
    def every(self) -> int | None:
        """Steps between firings; None when no step differs from the others."""
        needs = (self.needs.statistics, self.needs.validation)
        every = next((need.every for need in needs if need is not None), None)
        if every is None and hasattr(self.method, "stride"):
            every = getattr(self.method, "every", None)
        return every if every is not None and every > 1 else None

    def batch(self, count_K: Tensor) -> Batch:
        """As many rows of each domain, the same at every step."""
        rows = [rows_RxL1[:n] for rows_RxL1, n in zip(self.rows_KxRxL1, count_K, strict=True)]
        return Batch(torch.cat(rows), count_K)

    def step(self, step: int) -> None:
        """One step as the training loop takes it."""
        need, compared = self.needs.statistics, self.needs.validation
        due = need is not None and need.due(step)
        if need is not None and due and need.fresh:
            count_K = self.method.allocate(self.state, step, RECIPE.rows).clamp(min=need.rows)
            self._estimate(step, self.batch(count_K))
        if compared is not None and compared.due(step):
            batch = self.batch(torch.full((len(DOMAINS),), compared.rows))
            loss_K = batch.losses(self.model, self.backward.microbatch)
            seen = Signals(step, RECIPE.rows, validation_loss_K=loss_K)
            self.state = self.method.observe(self.state, seen)
        self.method.weights(self.state, step)
        batch = self.batch(self.method.allocate(self.state, step, RECIPE.rows))
        measured_by = RECIPE.statistics_microbatch if need and due and not need.fresh else None
        left = self.backward.compute_gradients(self.method, self.state, step, batch, measured_by)
        seen = left.seen
        self.optimizer.step()
        if self.needs.losses_after:
            after_K = batch.losses(self.model, self.backward.microbatch)
            seen = dataclasses.replace(seen, loss_after_K=after_K)
        watches = self.needs.losses or self.needs.gramian or self.needs.losses_after
        if watches or seen.statistics is not None:
            self.state = self.method.observe(self.state, seen)

    def _estimate(self, step: int, batch: Batch) -> None:
        measured = gradients.gradient_statistics(
            self.model, batch.by_domain(), RECIPE.statistics_microbatch
        )
        seen = Signals(step, RECIPE.rows, statistics=measured)
        self.state = self.method.observe(self.state, seen)

    def timed(self, steps: range) -> Seconds:
        """Mean seconds of these steps."""
        clock, processor = time.perf_counter(), time.process_time()
        for step in steps:
            self.step(step)
        return Seconds(
            (time.perf_counter() - clock) / len(steps),
            (time.process_time() - processor) / len(steps),
        )


def measured(
    shape: settings.Model, rounds: int, steps: int, firings: int
) -> dict[str, dict[str, Any]]:
    """What every rule costs on a model of this shape."""
    rules = {"mix again": "mix", **{rule: rule for rule in METHODS}}
    contenders = {name: Contender(rule, shape) for name, rule in rules.items()}
    for one in contenders.values():
        one.remember()
    peaks = {
        rows: {n: peak_bytes(rule, shape, rows, contenders[n]) for n, rule in rules.items()}
        for rows in (RECIPE.rows, RECIPE.rows // len(DOMAINS))
    }
    fired = {name: _firings(one, firings) for name, one in contenders.items()}
    plain: dict[str, list[Seconds]] = {name: [] for name in rules}
    order = list(rules)
    for number in range(rounds + 1):
        for name in order[number % len(order) :] + order[: number % len(order)]:
            one = contenders[name]
            seconds = one.timed(_plain_steps(one, number, steps))
            # The first round warms up.
            if number:
                plain[name].append(seconds)
    return {
        name: {
            **_times(plain[name], plain["mix"]),
            **_firing(fired[name], plain[name], plain["mix"], contenders[name].every),
            "memory": {
                rows: {"peak_bytes": peak[name], "extra_bytes": peak[name] - peak["mix"]}
                for rows, peak in peaks.items()
            },
        }
        for name in rules
    }


def _times(own: list[Seconds], mix: list[Seconds]) -> dict[str, Any]:
    """Per step, beside the Mix of the same round."""
    clock = [a.clock / b.clock for a, b in zip(own, mix, strict=True)]
    processor = [a.processor / b.processor for a, b in zip(own, mix, strict=True)]
    median = statistics.median(seconds.clock for seconds in own)
    return {
        "step_milliseconds": 1e3 * median,
        "time_against_mix": statistics.median(clock),
        "time_against_mix_quartiles": statistics.quantiles(clock, n=4)[::2],
        "processor_time_against_mix": statistics.median(processor),
        "processor_time_against_mix_quartiles": statistics.quantiles(processor, n=4)[::2],
        "tokens_per_second": RECIPE.rows * RECIPE.length / median,
        "tokens_per_second_against_mix": 1 / statistics.median(clock),
    }


def _firing(
    fired: list[Seconds], own: list[Seconds], mix: list[Seconds], every: int | None
) -> dict[str, Any]:
    """Firing steps in processor seconds of a step of Mix, and what they add on average."""
    ratio = statistics.median(a.processor / b.processor for a, b in zip(own, mix, strict=True))
    if every is None:
        return {"firing_in_steps_of_mix": None, "fires_every": None, "on_average": ratio}
    one = statistics.median(seconds.processor for seconds in mix)
    firing = statistics.median(seconds.processor for seconds in fired) / one
    average = ratio + (firing - ratio) / every
    return {"firing_in_steps_of_mix": firing, "fires_every": every, "on_average": average}


def _firings(one: Contender, number: int) -> list[Seconds]:
    if one.every is None:
        return []
    steps = [one.first + i * one.every for i in range(number + 1)]
    # The first one warms up, but where a fit is made anew each time.
    return [one.timed(range(step, step + 1)) for step in steps][1:]


def _plain_steps(one: Contender, number: int, steps: int) -> range:
    """Steps between two firings."""
    if one.every is None:
        return range(one.first + number * steps, one.first + (number + 1) * steps)
    begin = one.first + (number + 10) * one.every + 1
    return range(begin, begin + min(steps, one.every - 1))


class Live(TorchDispatchMode):
    """Follows the storages of all tensors that are made while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operation and counts what lives after it."""
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                storage = leaf.untyped_storage()
                self.storages[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.storages = {k: v for k, v in self.storages.items() if not v[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.storages.values()))
        return out


def peak_bytes(rule: str, shape: settings.Model, microbatch: int, like: Contender) -> int:
    """Peak of all live tensors over firing and other steps, the model's making included."""
    with Live() as live:
        one = Contender(rule, shape, microbatch)
        one.state = {key: value.clone() for key, value in like.state.items()}
        for step in [one.first, *_plain_steps(one, 0, 2)]:
            one.step(step)
    return live.peak


def table(model: str, found: dict[str, dict[str, Any]]) -> str:
    """The result as text; Mix is 1."""
    head = ("clock", "quartiles", "processor", "firing", "every", "average", "tokens/s")
    memory = list(next(iter(found.values()))["memory"])
    lines = [
        f"{model:<17}" + "".join(f"{name:>12}" for name in head) + "  MB more at rows per pass",
        " " * (17 + 12 * len(head)) + "".join(f"{rows:>12}" for rows in memory),
    ]
    for name, row in found.items():
        low, high = row["time_against_mix_quartiles"]
        fires = row["firing_in_steps_of_mix"]
        cells = [
            f"{row['time_against_mix']:.3f}",
            f"{low:.2f}-{high:.2f}",
            f"{row['processor_time_against_mix']:.3f}",
            "" if fires is None else f"{fires:.1f}",
            str(row["fires_every"] or ""),
            f"{row['on_average']:.3f}",
            f"{row['tokens_per_second']:,.0f}",
            *(f"{row['memory'][rows]['extra_bytes'] / 1e6:+.2f}" for rows in memory),
        ]
        lines.append(f"{name:<17}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
