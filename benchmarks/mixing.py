"""What each mixing rule costs: processor time of a step and memory beside Mix, in one process.

    python -m benchmarks.mixing [--rounds 15] [--models nano micro] [--rules pike famo]

Every rule trains its own copy of the same model on the same rows of five domains through the
training loop's own parts, and is compared with the Mix of the same round. A second Mix, named
`mix again`, shows how noisy the machine was.

Steps at which a rule measures gradient statistics or held-out losses, or fits a law, are its
firing steps. They are timed apart; `on_average` counts them as often as the rule's defaults do.

Memory is the peak of all live tensors: model, optimizer, rows, and what a step makes on the way;
first with a whole batch per backward pass, where a rule that takes one domain at a time needs
less, then with b / K rows per pass for every rule.

Record: benchmarks/results/mixing.json. Shapes: K domains.
"""

import dataclasses
import statistics
from functools import partial
from typing import Any

import numpy as np

from benchmarks import measure
from benchmarks.measure import Seconds
from benchmarks.steps import Live, Size, Stepper
from pike_mixing import METHODS
from pike_mixing.interface import Signals
from pipeline import settings

K = 5
FIRST = 1000
GIVEN: dict[str, dict[str, Any]] = {
    "single": {"domain": "domain 0"},
    "fixed": {"weights_by_domain": {f"domain {k}": 1.0 for k in range(K)}},
    "pike": {"zeta1": 0.01, "zeta2": 0.001, "first": FIRST},
    "balanced-pike": {"zeta1": 0.01, "zeta2": 0.001, "first": FIRST, "tau": 1.0},
    "conceptual-pike": {"L": 1.0, "eta": 0.1},
    "doremi": {"reference": "mix"},
    # The first fit sees a history of 10,000 steps.
    "ado": {"first": 10_000},
}
"""Settings of rules that cannot do without; all others have their defaults."""
SIZES = {
    "nano": Size(settings.Model(2, 64, 2, 32), 2048, 25, 64, 15),
    "micro": Size(settings.Model(4, 128, 4, 32), 2048, 25, 64, 15),
}
STEPS, FIRINGS = 3, 5
"""Of a rule: ordinary steps in a round, and firing steps in all."""


def main() -> None:
    options: dict[str, Any] = {"models": list(SIZES), "rules": list(METHODS), "rounds": 15}
    chosen = measure.arguments(__doc__, "mixing", **options)
    found: dict[str, Any] = {}
    for name in chosen.models:
        found[name] = measured(SIZES[name], chosen.rules, chosen.rounds)
        columns = ("milliseconds", "processor_time_against_mix", "on_average")
        print(measure.table(name, found[name], *columns), flush=True)
        # After each model, so that nothing is lost when a larger one is given up.
        models = {name: dataclasses.asdict(SIZES[name].model) for name in found}
        result = {"rows": 25, "length": 64, "domains": K, "vocabulary": 2048, "models": models}
        measure.record(chosen, {**result, "rounds": chosen.rounds, "rules": found})


class Contender(Stepper):
    """A rule, and when it fires."""

    def __init__(self, rule: str, size: Size, microbatch: int | None = None) -> None:
        super().__init__(rule, GIVEN.get(rule, {}), size, K, microbatch)
        needs = [n for n in (self.needs.statistics, self.needs.validation) if n is not None]
        self.fits = self.needs.losses and hasattr(self.method, "stride")
        first, every = getattr(self.method, "first", None), None
        if needs:
            first, every = needs[-1].first, needs[0].every
        elif hasattr(self.method, "stride"):
            every = getattr(self.method, "every", None)
        self.first = int(first or 0)
        self.every = every if every is not None and every > 1 else None
        """Steps between firings; None when no step differs from the others."""

    def remember(self) -> None:
        """Shows a rule that fits laws the falling losses of the steps before its first fit."""
        random = np.random.default_rng(1)
        count_K = np.full(K, self.size.rows // K)
        for step in range(self.first if self.fits else 0):
            noise_K = 0.01 * random.standard_normal(K)
            loss_K = 2 + 5 * (step + 1) ** -0.3 + noise_K
            seen = Signals(step, self.size.rows, count_K=count_K, loss_K=loss_K)
            self.engine.state = self.method.observe(self.engine.state, seen)

    def plain(self, number: int, steps: int = STEPS) -> list[int]:
        """Steps of a round, between two firings."""
        if self.every is None:
            return list(range(self.first + number * steps, self.first + (number + 1) * steps))
        begin = self.first + (number + 10) * self.every + 1
        return list(range(begin, begin + min(steps, self.every - 1)))

    def take(self, steps: list[int]) -> Seconds:
        result = [measure.timed(partial(self.step, step)) for step in steps]
        return Seconds(*(statistics.fmean(each) for each in zip(*result, strict=True)))

    def fired(self) -> list[Seconds]:
        """Firing steps; the first one warms up."""
        if self.every is None:
            return []
        return [self.take([self.first + n * self.every]) for n in range(FIRINGS + 1)][1:]


def measured(size: Size, rules: list[str], rounds: int) -> dict[str, Any]:
    """What every rule costs on a model of this size."""
    names = {"mix again": "mix", "mix": "mix", **{rule: rule for rule in rules}}
    contenders = {name: Contender(rule, size) for name, rule in names.items()}
    for one in contenders.values():
        one.remember()
    peaks = {
        rows: {name: peak_bytes(rule, rows, contenders[name]) for name, rule in names.items()}
        for rows in (size.rows, size.rows // K)
    }
    fired = {name: measure.processor(one.fired()) for name, one in contenders.items()}
    steps = {
        name: lambda number, one=one: one.take(one.plain(number))
        for name, one in contenders.items()
    }
    plain = {name: measure.processor(of) for name, of in measure.turns(steps, rounds).items()}
    mix, result = statistics.median(plain["mix"]), {}
    for name, one in contenders.items():
        ratio = measure.ratios(plain[name], plain["mix"])
        firing = statistics.median(fired[name]) / mix if one.every else None
        extra = (firing - ratio["median"]) / one.every if one.every and firing else 0.0
        result[name] = {
            "milliseconds": 1e3 * statistics.median(plain[name]),
            "processor_time_against_mix": ratio["median"],
            "range": ratio["range"],
            "firing_in_steps_of_mix": firing,
            "fires_every": one.every,
            "on_average": ratio["median"] + extra,
            "memory": {
                rows: {"peak_bytes": peak[name], "extra_bytes": peak[name] - peak["mix"]}
                for rows, peak in peaks.items()
            },
        }
    return result


def peak_bytes(rule: str, microbatch: int, like: Contender) -> int:
    """Peak of all live tensors over firing and other steps, the model's making included."""
    with Live() as live:
        one = Contender(rule, like.size, microbatch)
        one.engine.state = {key: value.copy() for key, value in like.engine.state.items()}
        for step in [one.first, *one.plain(0, 2)]:
            one.step(step)
    return live.peak


if __name__ == "__main__":
    main()
